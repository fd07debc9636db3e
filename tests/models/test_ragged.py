"""Ragged batches: packed and padded give the same numbers, and packed ones do not work on padding."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

import vnt
import vnt.models.classifier as classifier_module
from vnt.geometry import Packing, pack_ragged, padded, random_rotation

LENGTHS = torch.tensor([60, 11, 3, 1, 25])
MASK = torch.arange(60) < LENGTHS[:, None]
OPTIONS = {
    "default": {},
    "paper's": {"norm": "layer", "norm_position": "post", "mlp_norm": "batch", "lift": "mlp"},
    "edges and chirality": {"num_neighbors": 4, "chirality": True},
    "surroundings and batch norm": {"surroundings": (0.5, 1.0), "head_norm": "batch"},
    "pairs and batch norm": {"surroundings": (0.5,), "head_norm": "batch", "pair_rounds": 2, "pair_divisor": 8},
    "early": {"num_attributes": 2, "fusion": "early"},
    "late": {"num_attributes": 2, "fusion": "late"},
    "with ε": {"bias_epsilon": 1e-3},
}


def make(name, dtype=torch.float64):
    torch.manual_seed(0)
    config = vnt.ClassifierConfig(num_classes=5, channels=16, num_heads=4, depth=2, **OPTIONS[name])
    return vnt.VNTransformerClassifier(config).to(dtype)


def batch(model):
    points = torch.randn(5, 60, 3, dtype=torch.float64, requires_grad=True)
    attributes = torch.randn(5, 60, 2, dtype=torch.float64) if model.config.num_attributes else None
    return points, attributes, MASK


def padded_batch(monkeypatch):
    monkeypatch.setattr(classifier_module, "pack_ragged", lambda mask: mask)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("training", [True, False])
def test_packed_equals_padded(name, training, monkeypatch):
    model = make(name).train(training)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    inputs = batch(model)
    results = []
    for pad in (False, True):
        if pad:
            padded_batch(monkeypatch)
        model.load_state_dict(start)  # running statistics included
        model.zero_grad()
        inputs[0].grad = None
        logits = model(*inputs)
        logits.square().sum().backward()
        results.append([logits.detach(), inputs[0].grad, *(p.grad for p in model.parameters()), *model.buffers()])
        results[-1] = [x.clone() for x in results[-1] if x is not None]
    assert len(results[0]) == len(results[1])
    for packed, expected in zip(*results, strict=True):
        assert torch.allclose(packed, expected, rtol=1e-9, atol=1e-9)


def test_features_come_back_in_their_places(monkeypatch):
    model = make("default").eval()
    inputs = batch(model)
    packed = model.features(*inputs)
    padded_batch(monkeypatch)
    expected = model.features(*inputs)
    for a, b in zip(packed, expected, strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a[MASK], b[MASK], atol=1e-12)
        assert torch.isfinite(a).all()


def test_packed_batches_do_not_work_on_padding(monkeypatch):
    model, mask = make("default", torch.float32).eval(), torch.arange(512) < torch.tensor([[512], [64], [64], [64]])
    points = torch.randn(4, 512, 3)

    def flops():
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(points, None, mask)
        return counter.get_total_flops()

    packed = flops()
    padded_batch(monkeypatch)
    assert packed < 0.5 * flops()


def test_a_cloud_of_one_point_disturbs_nobody():
    model = make("default").eval()
    points, mask = torch.randn(2, 30, 3, dtype=torch.float64), torch.arange(30) < torch.tensor([[20], [1]])
    assert torch.isfinite(model(points, None, mask)).all()
    alone = model(points[:1, :20])
    assert torch.allclose(model(points, None, mask)[:1], alone, atol=1e-12)


def test_a_packing_may_be_given_to_an_encoder():
    encoder = vnt.VNEncoder(8, num_heads=2, depth=2).double()
    V, packing = torch.randn(5, 60, 8, 3, dtype=torch.float64), Packing.of(MASK)
    packed = encoder(packing.pack(V), packing)
    assert torch.allclose(packed, encoder(V, MASK)[MASK], atol=1e-12)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_masks_still_work_under_vmap():
    model = make("default").eval()
    points, mask = torch.randn(3, 2, 60, 3, dtype=torch.float64), MASK[:2].expand(3, 2, 60)
    with vnt.value_checks(enabled=False), torch.no_grad():
        mapped = torch.func.vmap(lambda x, m: model(x, None, m))(points, mask)
    assert torch.allclose(mapped[1], model(points[1], None, MASK[:2]).detach(), atol=1e-9)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_neighbours_are_found_under_vmap_and_without_values():
    model = make("edges and chirality").eval()
    points = torch.randn(3, 2, 60, 3, dtype=torch.float64)
    with vnt.value_checks(enabled=False), torch.no_grad():
        mapped = torch.func.vmap(model)(points)
    assert torch.allclose(mapped[1], model(points[1]).detach(), atol=1e-9)
    layer, x = vnt.VNEdgeConv(1, 8, 4).double(), torch.randn(3, 20, 1, 3, dtype=torch.float64)
    each = torch.func.vmap(torch.func.grad(lambda v: layer(v[None]).square().sum()))(x)
    assert torch.allclose(each[1], torch.func.grad(lambda v: layer(v[None]).square().sum())(x[1]), atol=1e-9)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert random_rotation(2).shape == (2, 3, 3)
        assert vnt.VNEdgeConv(1, 8, 4)(torch.randn(2, 20, 1, 3)).shape == (2, 20, 8, 3)
    assert torch.isfinite(random_rotation(2)).all()  # no fake was kept


def test_padding_stays_where_it_is_wanted():
    with padded():
        assert pack_ragged(MASK) is MASK
    assert isinstance(pack_ragged(MASK), Packing)


@pytest.mark.parametrize("longest", [8, 60])
def test_short_and_long_items_give_the_same(longest, monkeypatch):
    """Short items attend under a mask, long ones one at a time."""
    model, mask = make("default").eval(), MASK[:, :longest]
    points = torch.randn(5, longest, 3, dtype=torch.float64)
    packed = model(points, None, mask)
    padded_batch(monkeypatch)
    assert torch.allclose(packed, model(points, None, mask), atol=1e-12)
