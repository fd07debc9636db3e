"""Weights of other programs: the same results where they are taken, and a true reason where they are not.

Deng et al.'s program is stated anew in deng.py; PyPI's VN-transformer is the package.
"""

import contextlib
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vnt
from helpers import assert_close, random_mask
from models.deng import CLASSES, Deng, K, state_of
from vnt.geometry import random_rotation, rotate
from vnt.models.foreign import recognize
from vnt.models.foreign.states import read_state
from vnt.models.rivals.vector import LengthBatchNorm

NETWORKS = [(kind, pooling) for kind in ("vn_dgcnn_cls", "vn_pointnet_cls") for pooling in ("mean", "max")]
BOTH = pytest.mark.parametrize(("kind", "pooling"), NETWORKS)


def relative(ours, theirs):
    return float(((ours - theirs).norm() / theirs.norm()).detach())


def result(kind, model, points):
    """What the program returns of our logits: VN-PointNet ends with a log-softmax there."""
    logits = model(points).detach()
    return logits if kind == "vn_dgcnn_cls" else logits.log_softmax(-1)


@BOTH
def test_deng_et_al_s_networks_give_the_same_results(kind, pooling):
    state = state_of(kind, pooling)
    model = vnt.import_weights(state, num_neighbors=K)
    assert not model.training
    assert (model.config.pooling, model.config.num_classes, model.config.width) == (pooling, CLASSES, 0.25)
    for scale, shift in ((1.0, 0.0), (0.3, 0.5)):  # coordinates count as they are
        points = scale * torch.randn(3, 40, 3, dtype=torch.float64) + shift
        theirs = Deng(state)(kind, points)
        assert theirs.std() > 1e-3
        assert relative(result(kind, model, points), theirs) <= 1e-10


@BOTH
def test_at_the_published_size(kind, pooling):
    state = state_of(kind, pooling, torch.float32, width=1, classes=40)
    model = vnt.import_weights(state)
    published = {"vn_dgcnn_cls": 2_899_830, "vn_pointnet_cls": 1_972_745}
    assert sum(parameter.numel() for parameter in model.parameters()) == published[kind]
    assert model.config.num_neighbors == 20
    assert next(model.parameters()).dtype == torch.float32
    points = 0.5 * torch.randn(2, 64, 3)
    double = {name: x.double() if x.is_floating_point() else x for name, x in state.items()}
    theirs = Deng(double, 20)(kind, points.double())
    assert relative(result(kind, model.double(), points.double()), theirs) <= 1e-10


@BOTH
def test_every_setting_of_the_import_is_needed(kind, pooling):
    """Each guard, slope, and the coordinates as they are: with our own in its place the results are others."""
    model = vnt.import_weights(state_of(kind, pooling), num_neighbors=K)
    points = 0.3 * torch.randn(3, 40, 3, dtype=torch.float64) + 0.5
    expected = model(points)
    changes = [{"length_eps": None}, {"length_eps": 1e-5}, {"norm_eps": 1e-6}, {"relu_eps": 1e-5}]
    changes += [{"negative_slope": 0.1}, {"num_neighbors": K + 1}, {"center": "mean"}, {"scale": "invariant"}]
    changes += [{"tie_tolerance": 1e-2}]
    for change in changes:
        other = type(model)(replace(model.config, **change)).double().eval()
        other.load_state_dict(model.state_dict())
        assert relative(other(points), expected) > 1e-8, change


def test_a_tie_is_shared_here_and_falls_to_one_of_them_there():
    """The one difference that is left: two points at the k-th distance of a third, whose order shows there alone."""
    state = state_of("vn_dgcnn_cls", "mean")
    model, theirs = vnt.import_weights(state, num_neighbors=K), Deng(state)
    points = F.normalize(torch.randn(1, 40, 3, dtype=torch.float64), dim=-1)
    points *= torch.linspace(2, 3, 40, dtype=torch.float64)[:, None]
    points[:, 1:K] *= 0.2
    points[0, 0], points[0, K - 1], points[0, K] = 0, points[0, 20] / 2, -points[0, 20] / 2
    order = torch.arange(40)
    order[[K - 1, K]] = order[[K, K - 1]]
    swapped = points[:, order]
    assert relative(model(swapped), model(points)) < 1e-12
    assert relative(theirs.dgcnn(swapped), theirs.dgcnn(points)) > 1e-4
    assert relative(model(points), theirs.dgcnn(points)) > 1e-4


def test_in_float32_nothing_but_rounding_is_between_them():
    """Nearly equal distances are no ties: sharing them, as our own models do, moves these logits much more."""
    state = state_of("vn_dgcnn_cls", "mean", torch.float32)
    model, points = vnt.import_weights(state), torch.randn(4, 512, 3)
    shared = type(model)(replace(model.config, tie_tolerance=None)).eval()
    shared.load_state_dict(model.state_dict())
    theirs = Deng(state, 20).dgcnn(points)
    assert relative(model(points), theirs) < 1e-4
    assert relative(shared(points), theirs) > 3e-4


@BOTH
def test_clouds_with_little_in_them_have_finite_results_and_gradients(kind, pooling):
    """Also those with fewer points than neighbours, which the program refuses."""
    for training in (True, False):
        model = vnt.import_weights(state_of(kind, pooling, torch.float32)).train(training)
        for points in (torch.zeros(2, 30, 3), torch.randn(2, 1, 3), torch.randn(2, 1, 3).repeat(1, 30, 1)):
            points.requires_grad_()
            model(points).square().sum().backward()
            assert torch.isfinite(points.grad).all()
            assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_the_norm_has_their_guards_in_training_too(training):
    ours, theirs = LengthBatchNorm(6, length_eps=0.1).double(), nn.BatchNorm1d(6).double()
    ours.train(training), theirs.train(training)
    V, mask = torch.randn(5, 30, 6, 3, dtype=torch.float64), random_mask(5, 30)
    length = V[mask].norm(dim=-1) + 0.1
    assert_close(ours(V, mask)[mask], V[mask] / length[..., None] * theirs(length)[..., None], 1e-12)
    assert_close(ours.running_mean, theirs.running_mean, 1e-12)
    assert_close(ours.running_var, theirs.running_var, 1e-12)


def test_the_norm_at_zero():
    V = torch.zeros(4, 6, 3, requires_grad=True)
    out = LengthBatchNorm(6, length_eps=1e-6)(V)
    out.sum().backward()
    assert torch.equal(out, torch.zeros(4, 6, 3))
    assert torch.isfinite(V.grad).all()


def test_what_is_imported_can_be_saved_trained_and_turned(tmp_path):
    model = vnt.import_weights(state_of("vn_pointnet_cls", "max", torch.float32), num_neighbors=K)
    points = torch.randn(3, 40, 3)
    again = vnt.load(vnt.save_pretrained(model, tmp_path / "imported"))
    assert torch.equal(again(points), model(points))
    model.train()(points).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    double = vnt.import_weights(state_of("vn_pointnet_cls", "max"), num_neighbors=K)
    points = points.double()
    assert relative(double(rotate(points, random_rotation(3).double())), double(points)) < 1e-9


# --- Files --------------------------------------------------------------------------------------------------------


def test_files_as_training_programs_leave_them(tmp_path):
    state = state_of("vn_dgcnn_cls", "mean", torch.float32)
    points = torch.randn(2, 30, 3)
    expected = vnt.import_weights(state, num_neighbors=K)(points)
    wrapped = {f"module.{name}": value for name, value in state.items()}
    numbers = {"epoch": 3, "instance_acc": np.mean([0.5, 0.7]), "class_acc": np.float32(0.5), "count": np.int64(2)}
    files = {
        "best_model.pth": {"model_state_dict": state, "optimizer_state_dict": {"state": {}}, **numbers},
        "model.t7": wrapped,
        "lightning.ckpt": {"state_dict": {f"model.{name}": x for name, x in wrapped.items()}},
        "nested.pt": {"model": {"state_dict": state}},
    }
    for name, content in files.items():
        torch.save(content, tmp_path / name)
        for source in (tmp_path / name, str(tmp_path / name), content):
            assert torch.equal(vnt.import_weights(source, num_neighbors=K)(points), expected), name
    (saved,) = [value for name, value in files.items() if name == "best_model.pth"]
    torch.save(saved, tmp_path / "legacy.pth", _use_new_zipfile_serialization=False)
    assert set(read_state(tmp_path / "legacy.pth")) == set(state)
    from safetensors.torch import save_file

    save_file(state, tmp_path / "model.safetensors")
    assert torch.equal(vnt.import_weights(tmp_path / "model.safetensors", num_neighbors=K)(points), expected)


def test_numbers_of_an_older_numpy(tmp_path):
    """Where its pickles say numpy.core; Deng et al.'s program dates from then."""
    path = tmp_path / "old.pth"
    torch.save(
        {"acc": np.float64(0.5), "state_dict": {"weight": torch.ones(2, 2)}}, path, _use_new_zipfile_serialization=False
    )
    content = path.read_bytes()
    assert b"numpy._core" in content or b"numpy.core" in content
    path.write_bytes(content.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"))
    assert list(read_state(path)) == ["weight"]


def test_half_precision_becomes_float32():
    state = {name: x.half() if x.is_floating_point() else x for name, x in state_of("vn_dgcnn_cls", "mean").items()}
    assert {x.dtype for x in vnt.import_weights(state).state_dict().values()} == {torch.float32}


class Malicious:
    def __reduce__(self):
        return Path.touch, (Path("was_here"),)


def test_nothing_in_a_file_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {"a": torch.ones(2)}, "x": Malicious()}, "bad.pth")
    with pytest.raises(ValueError, match=r"bad\.pth: holds a \S+, an object that loading would have to run code for"):
        vnt.import_weights("bad.pth")
    assert not Path("was_here").exists()


def test_files_that_are_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = tmp_path / "whole.pth"
    torch.save(state_of("vn_dgcnn_cls", "mean", torch.float32), whole)
    torch.save(nn.Linear(2, 2), "module.pth")
    torch.save([torch.ones(2)], "list.pth")
    torch.save({}, "empty_dict.pth")
    torch.save({"epoch": 3, "weights": torch.ones(2)}, "mixed.pth")
    Path("text.pth").write_text("these are not weights")
    Path("empty.pth").write_text("")
    Path("half.pth").write_bytes(whole.read_bytes()[:20000])
    Path("plain.pth").write_bytes(pickle.dumps({"a": [1, 2]}))
    Path("bad.safetensors").write_text("nothing")
    messages = {
        "module.pth": r"holds a torch\.nn\.modules\.linear\.Linear.*save model\.state_dict\(\) alone",
        "list.pth": "not a state dict, which has tensors by name: this is a list",
        "empty_dict.pth": "not a state dict, which has tensors by name: this is empty",
        "mixed.pth": "not a state dict, which has tensors by name: 'epoch' is a int",
        "text.pth": r"not a file of weights that torch\.save wrote",
        "empty.pth": "the file is empty",
        "half.pth": r"not a file of weights that torch\.save wrote",
        "plain.pth": r"not a file of weights that torch\.save wrote",
        "bad.safetensors": "not a whole safetensors file",
        ".": "expected a file, got a directory",
    }
    for name, message in messages.items():
        with pytest.raises(ValueError, match=message) as error:
            vnt.import_weights(name)
        assert str(error.value).startswith(f"{name}:")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pth: no such file"):
        vnt.import_weights("nowhere.pth")


def test_a_file_that_holds_itself_ends(tmp_path):
    content = {}
    content["model"] = content
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="not a state dict"):
        vnt.import_weights(tmp_path / "x.pt")


def test_a_damaged_file_is_always_a_valueerror(tmp_path):
    path, rng = tmp_path / "damaged.pth", np.random.default_rng(0)
    torch.save({"model_state_dict": {"weight": torch.ones(3, 3)}}, path, _use_new_zipfile_serialization=False)
    whole = bytearray(path.read_bytes())
    for _ in range(200):
        damaged = whole.copy()
        for place in rng.integers(0, len(whole), 4):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(damaged[: rng.integers(1, len(whole) + 1)])
        with contextlib.suppress(ValueError):  # nothing else; a change of the numbers alone may go unnoticed
            assert read_state(path)


# --- What is refused of Deng et al.'s ------------------------------------------------------------------------------


def refuse(state, message, **options):
    with pytest.raises(ValueError, match=message):
        vnt.import_weights(state, **options)


@pytest.mark.parametrize("kind", ["vn_dgcnn_cls", "vn_pointnet_cls"])
def test_other_networks_of_that_program_are_refused(kind):
    state = state_of(kind, "mean")
    first, frames = ("linear1", "") if kind == "vn_dgcnn_cls" else ("fc1", "feat.")
    refuse(state | {"conv11.weight": torch.ones(50, 128, 1)}, "part segmentation .* vnt has no such network")
    refuse(state | {"convs1.weight": torch.ones(50, 128, 1)}, "part segmentation .* vnt has no such network")
    two = {f"{frames}std_feature.vn_lin.weight": state[f"{frames}std_feature.vn_lin.weight"][:2]}
    refuse(
        state | two, r"vn_lin\.weight has 2 rows: made with normalize_frame=True, .* ours are three vectors as they are"
    )
    refuse(state | {"extra.weight": torch.ones(2)}, rf"extra\.weight is none of the weights of a {kind} of 0\.25 times")
    name = next(iter(state))
    refuse({key: x for key, x in state.items() if key != name}, f"{name}.* is missing|neither vn_pointnet_cls")
    refuse(state | {"bn1.bias": torch.ones(3)}, r"bn1\.bias has shape \(3,\), of a .* it has \(128,\)")
    refuse({key: x for key, x in state.items() if key != f"{first}.bias"}, rf"{first}\.bias is missing, one of 1 that")
    narrow = {f"{first}.weight": torch.ones(100, 9)}
    refuse(state | narrow, rf"has shape .*, of a {kind} of 0\.195312 times its width it has")
    refuse(state | {f"{first}.weight": torch.ones(())}, rf"{first}\.weight, a matrix, is missing")
    huge = {f"{first}.weight": torch.ones(32768, 1)}
    refuse(state | huge, "of 64 times its width it has")
    refuse(state | {"bn1.bias": torch.full((128,), torch.nan)}, r"bn1\.bias has values that are not finite")
    refuse(state, "num_neighbors must be at least 2", num_neighbors=1)


def test_weights_of_nobody_are_refused():
    refuse(nn.Linear(3, 4).state_dict(), "weights of no program that vnt knows.*: it has weight, bias$")
    refuse({"conv1.0.weight": torch.ones(64, 6, 1, 1)}, "no program that vnt knows")  # dgcnn_cls
    own = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=3, channels=8, num_heads=2)).state_dict()
    refuse(own, r"weights of no program that vnt knows.*: it has lift\.lift\.weight, .* and \d+ more")
    lone = {"conv.map_to_feat.weight": torch.ones(3, 3)}
    refuse(lone, "neither vn_pointnet_cls, which has feat.conv_pos, nor vn_dgcnn_cls, which has linear1")
    refuse(state_of("vn_dgcnn_cls", "mean"), "nothing in it lies under 'encoder'", part="encoder")


# --- PyPI's VN-transformer -------------------------------------------------------------------------------------------


@pytest.fixture
def peer():
    return pytest.importorskip("VN_transformer.VN_transformer", reason="the extra 'bench' is not installed")


def tokens(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=torch.float64)


def test_its_attention_is_ours(peer):
    for heads in (1, 4, 8):
        theirs = peer.VNAttention(16, dim_head=16 // heads, heads=heads).double().eval()
        ours = vnt.import_weights(theirs.state_dict(), num_heads=heads)
        assert isinstance(ours, vnt.VNMultiheadAttention)
        V, mask = tokens(2, 12, 16, 3), random_mask(2, 12)
        for given in (None, mask):
            assert relative(ours(V, V, V, given), theirs(V, mask=given)) <= 1e-10


def test_its_attention_out_of_a_whole_network(peer, tmp_path):
    network = peer.VNTransformer(dim=16, depth=2, dim_head=8, heads=2).double().eval()
    torch.save({"state_dict": network.state_dict()}, tmp_path / "network.pt")
    V = tokens(2, 12, 16, 3)
    for number in range(2):
        ours = vnt.import_weights(tmp_path / "network.pt", part=f"encoder.layers.{number}.0", num_heads=2)
        assert relative(ours(V, V, V), network.encoder.layers[number][0](V)) <= 1e-10


def test_its_linear_map_and_its_pool_are_ours(peer):
    V, mask = tokens(2, 12, 6, 3), random_mask(2, 12)
    linear = peer.VNLinear(6, 9).double()
    ours = vnt.import_weights(linear.state_dict(), "VN-transformer")
    assert isinstance(ours, vnt.VNLinear)
    assert relative(ours(V), linear(V)) <= 1e-10
    pool = peer.VNWeightedPool(6, 9, num_pooled_tokens=4).double()
    ours = vnt.import_weights(pool.state_dict(), "VN-transformer")
    assert isinstance(ours, vnt.VNMeanProject)
    for given in (None, mask):
        assert relative(ours(V, given), pool(V, mask=given)) <= 1e-10


def test_its_networks_are_refused_with_every_reason(peer):
    options = {"dim": 16, "depth": 2, "dim_head": 8, "heads": 2}
    reasons = {
        r"encoder\.layers\.0\.2\.1\.W: its VN-ReLU",
        r"encoder\.layers\.0\.1\.ln\.gamma: its VN-LayerNorm",
        r"vn_proj_out\.1\.weight: it ends with",
    }
    state = peer.VNTransformer(**options).state_dict()
    assert recognize(state) == "VN-transformer"
    for reason in reasons:
        refuse(state, f"not the mathematics of vnt: .*{reason}")
    state = peer.VNTransformer(**options, bias_epsilon=1e-6, num_tokens=4, dim_feat=16, l2_dist_attn=True).state_dict()
    for reason in {
        *reasons,
        r"vn_proj_in\.1\.bias: its ε bias",
        r"token_emb\.weight: it looks up",
        "made with l2_dist_attn",
    }:
        refuse(state, reason)
    encoder = peer.VNTransformerEncoder(16, depth=1, dim_head=8, heads=2, final_norm=True).state_dict()
    refuse(encoder, r"layers\.0\.2\.1\.W: its VN-ReLU.*layers\.0\.1\.ln\.gamma: its VN-LayerNorm")


def test_its_layers_that_are_refused(peer):
    refuse(
        peer.VNAttention(16, dim_head=8, heads=4).state_dict(),
        r"to_q\.weight has shape \(32, 16\), expected \(16, 16\)",
    )
    attention = {"dim_head": 4, "heads": 4}
    refuse(
        peer.VNAttention(16, **attention, num_latents=3).state_dict(),
        r"to_q_input\.weight: its attention makes its own",
    )
    refuse(peer.VNAttention(16, **attention, l2_dist_attn=True).state_dict(), "made with l2_dist_attn")
    refuse(peer.VNAttention(16, **attention, bias_epsilon=1e-6).state_dict(), r"to_q\.bias: its ε bias")
    refuse(peer.VNFeedForward(16).state_dict(), r"1\.W: its VN-ReLU")
    refuse(peer.VNLayerNorm(16).state_dict(), r"ln\.gamma: its VN-LayerNorm")
    refuse(peer.VNInvariant(16).state_dict(), r"mlp\.1\.W: its VN-Invariant")
    refuse(peer.VNLinear(4, 4, bias_epsilon=1e-6).state_dict(), "bias: its ε bias", origin="VN-transformer")
    refuse({"weight": torch.ones(3)}, "none of the layers of VN-transformer that vnt takes", origin="VN-transformer")
    square = peer.VNAttention(16, **attention).state_dict()
    refuse(square, "num_heads must divide the 16 channels of the values, got 5", num_heads=5)
    refuse(square | {"to_out.weight": torch.ones(())}, r"expected \(1, 1\)")


def test_the_reasons_are_true(peer):
    """With the same weights in our layers, wherever that makes sense, the results are others."""
    V = tokens(2, 12, 16, 3)
    theirs = peer.VNReLU(16).double()
    ours = vnt.VNReLU(16).double()
    ours.load_state_dict({"weight": theirs.W, "direction": theirs.U})
    assert relative(ours(V), theirs(V)) > 1e-1

    theirs = peer.VNLayerNorm(16).double()
    for eps in (0.0, 1e-12, 1e-5):
        assert relative(vnt.VNLayerNorm(16, eps=eps).double()(V), theirs(V)) > 1e-7

    theirs = peer.VNLinear(16, 8, bias_epsilon=1e-3).double()
    bias = theirs(torch.zeros_like(V))[0, 0].detach()
    assert float((bias - bias[:, :1]).abs().max()) < 1e-15  # along (1, 1, 1)
    assert abs(float(bias.norm()) - 1e-3 * 3**0.5) < 1e-12  # of length ε over all channels, coordinate by coordinate
    assert float(bias.norm(dim=-1).std()) > 1e-5  # so that channels differ: ours all have length ε

    theirs = peer.VNInvariant(16).double()
    assert theirs(V).shape == (2, 12, 3)
    assert vnt.VNInvariant(16).double()(V).shape == (2, 12, 16, 3)

    theirs = peer.VNAttention(16, dim_head=4, heads=4, l2_dist_attn=True).double()
    ours = vnt.VNMultiheadAttention(16, 4).double()
    names = {"query": "to_q", "key": "to_k", "value": "to_v", "output": "to_out"}
    ours.load_state_dict({f"{one}.weight": getattr(theirs, other).weight for one, other in names.items()})
    assert relative(ours(V, V, V), theirs(V)) > 1e-1

    block = peer.VNTransformerEncoder(16, depth=1, dim_head=4, heads=4).double()
    attention, first, feedforward, second = block.layers[0]
    x = V + first(attention(V))
    assert relative(x + second(feedforward(x)), block(V)) < 1e-14
