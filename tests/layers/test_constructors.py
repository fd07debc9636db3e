"""Every constructor argument changes something, and weights start where attention is not saturated."""

import inspect

import pytest
import torch

import vnt
from contracts.cases import C, cloud
from vnt.geometry import random_rotation
from vnt.layers.normalization import make_norm
from vnt.testing import equivariance_error

pytestmark = pytest.mark.usefixtures("no_gradients")


SELF = {
    "VNMultiheadAttention": lambda layer, V: layer(V, V, V[..., : layer.value_channels, :]),
    "VNGate": lambda layer, V: layer(V, V[..., :2, 0]),
    "VNLinear": lambda layer, V: layer(V),
}
# For each layer: how it is made, and for each argument a value other than that or the default.
ARGUMENTS = {
    vnt.VNLinear: ((C, 8), {"in_channels": 15, "out_channels": 9, "bias_epsilon": 0.1, "spatial_dim": 4}),
    vnt.VNReLU: (
        (C,),
        {"channels": 15, "out_channels": 8, "negative_slope": 0.2, "share_direction": True, "eps": 1.0},
    ),
    vnt.VNLayerNorm: ((C,), {"channels": 15, "eps": 1.0, "shift": 1.0}),
    vnt.VNRMSNorm: ((C,), {"channels": 15, "eps": 1.0}),
    vnt.VNBatchNorm: ((C,), {"channels": 15, "momentum": 0.5, "eps": 1.0, "shift": 1.0}),
    vnt.VNMultiheadAttention: (
        (C, 4),
        {"channels": 8, "num_heads": 2, "value_channels": 8, "bias_epsilon": 0.1, "spatial_dim": 4},
    ),
    vnt.VNMLP: (
        (C, 8, C),
        {
            "in_channels": 15,
            "hidden_channels": 9,
            "out_channels": 9,
            "norm": "rms",
            "negative_slope": 0.2,
            "share_direction": True,
            "relu_eps": 1.0,
            "bias_epsilon": 0.1,
            "spatial_dim": 4,
        },
    ),
    vnt.VNEncoderBlock: (
        (C, 4),
        {
            "channels": 8,
            "num_heads": 2,
            "hidden_channels": 9,
            "norm": "layer",
            "norm_eps": 1.0,
            "norm_position": "post",
            "mlp_norm": "batch",
            "negative_slope": 0.2,
            "relu_eps": 1.0,
            "bias_epsilon": 0.1,
            "spatial_dim": 4,
        },
    ),
    vnt.VNEncoder: (
        (C, 4, 2),
        {
            "channels": 8,
            "num_heads": 2,
            "depth": 1,
            "repeats": 2,
            "norm": "layer",
            "norm_position": "post",
            "mlp_norm": "rms",
            "bias_epsilon": 0.1,
        },
    ),
    vnt.VNLatentEncoder: (
        (C, 4, 2, 3),
        {"channels": 8, "num_heads": 2, "depth": 1, "num_latents": 4, "read_back": True, "repeats": 2, "norm": "layer"},
    ),
    vnt.VNMaxPool: ((C,), {"channels": 15, "tie_tolerance": 0.9}),
    vnt.VNMeanProject: ((C, 8, 3), {"in_channels": 15, "out_channels": 9, "num_latents": 4}),
    vnt.VNInvariant: (
        (C,),
        {
            "channels": 15,
            "hidden_channels": 9,
            "negative_slope": 0.2,
            "relu_eps": 1.0,
            "bias_epsilon": 0.1,
            "spatial_dim": 4,
        },
    ),
    vnt.VNEdgeConv: (
        (C, 8, 3),
        {"in_channels": 15, "out_channels": 9, "num_neighbors": 4, "negative_slope": 0.2, "spatial_dim": 4},
    ),
    vnt.VNCrossProduct: ((C,), {"channels": 15, "norm_eps": 1.0, "spatial_dim": 4}),
    vnt.VNGate: ((2, C), {"num_scalars": 3, "channels": 15, "hidden": 8}),
}


def result(cls, arguments: dict):
    """What the layer makes of one cloud, from one seed; or the message, if it does not fit any more."""
    torch.manual_seed(0)
    V = cloud(2)
    torch.manual_seed(0)
    layer = cls(**arguments).double()
    try:
        call = SELF.get(cls.__name__, lambda layer, V: layer(V))
        call(layer, V)  # moves running statistics, so that the momentum shows
        return call(layer.eval(), V)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    ("cls", "name"), [(cls, name) for cls, (_, values) in ARGUMENTS.items() for name in values], ids=str
)
def test_every_constructor_argument_changes_something(cls, name):
    values, changed = ARGUMENTS[cls]
    parameters = list(inspect.signature(cls).parameters)
    base = dict(zip(parameters, values, strict=False))
    before, after = result(cls, base), result(cls, {**base, name: changed[name]})
    assert isinstance(before, torch.Tensor)
    same = isinstance(after, torch.Tensor) and after.shape == before.shape and torch.equal(after, before)
    assert not same, f"{name} of {cls.__name__} changes nothing"


@pytest.mark.parametrize("cls", ARGUMENTS)
def test_the_table_above_is_complete(cls):
    assert set(inspect.signature(cls).parameters) - {"options"} <= set(ARGUMENTS[cls][1])


@pytest.mark.parametrize("N", [64, 512])
@pytest.mark.parametrize("heads", [1, 4, 16])
def test_attention_starts_far_from_saturation(N, heads):
    """On normalised tokens the largest of N weights stays small; PyPI's VN-transformer starts at 0.89."""
    from vnt import functional

    V = vnt.VNRMSNorm(64)(torch.randn(2, N, 64, 3))
    layer = vnt.VNMultiheadAttention(64, heads)
    P = 64 // heads
    for h in range(heads):
        rows = slice(h * P, (h + 1) * P)
        weights = functional.attention_weights(layer.query(V)[..., rows, :], layer.key(V)[..., rows, :])
        assert float(weights.max(-1).values.mean()) < 8 / N


@pytest.mark.parametrize("options", [{}, {"norm": "layer", "norm_position": "post", "mlp_norm": "batch"}], ids=str)
def test_a_deep_stack_keeps_its_scale(options):
    encoder = vnt.VNEncoder(64, 8, depth=12, **options)
    out = encoder(torch.randn(4, 64, 64, 3))
    assert 0.3 < float(out.square().sum(-1).mean().sqrt()) < 3


def test_the_bias_is_one_vector_of_length_epsilon_per_channel():
    layer = vnt.VNLinear(4, 8, bias_epsilon=1e-3)
    bias = layer(torch.zeros(4, 3))
    torch.testing.assert_close(bias.norm(dim=-1), torch.full((8,), 1e-3))


def test_batch_statistics_follow_torch():
    """Running mean and variance of the lengths move as those of torch's own batch norm."""
    ours, theirs = vnt.VNBatchNorm(C).double(), torch.nn.BatchNorm1d(C).double()
    for _ in range(3):
        V = cloud(4)
        ours(V)
        theirs(V.norm(dim=-1).flatten(0, 1))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-9, atol=1e-9)


LITERAL = {"norm_position": "post", "relu_eps": 1e-12}


def test_an_upright_norm_begins_by_turning_no_vector_round():
    """With a shift of zero all that are shorter than the mean are turned round, and the shortest come out long."""
    V = torch.randn(2000, 64, 3)
    shortest = V.norm(dim=-1) < 0.1
    for kind in ("layer", "batch"):
        before, after = make_norm(kind, 64)(V), make_norm(f"upright_{kind}", 64)(V)
        assert float(((before * V).sum(-1) < 0).double().mean()) > 0.4
        assert float(((after * V).sum(-1) < 0).double().mean()) < 0.02
        assert float(before[shortest].norm(dim=-1).mean()) > 2
        assert float(after[shortest].norm(dim=-1).mean()) < 0.4


def test_the_papers_encoder_is_well_conditioned_where_its_norms_begin_upright():
    """Twelve blocks in float32: order one to the letter, 2e-5 with another start of the norms' shifts."""
    errors = {}
    for start in ("", "upright_"):
        torch.manual_seed(0)
        encoder = vnt.VNEncoder(32, 8, depth=12, norm=f"{start}layer", mlp_norm=f"{start}batch", **LITERAL)
        for training in (True, False):
            inputs = [torch.randn(4, 64, 32, 3)]
            error = equivariance_error(encoder.train(training), inputs, ["vector"], "vector")
            errors[start, training] = float(error)
    assert max(errors["upright_", True], errors["upright_", False]) < 1e-4
    assert min(errors["", True], errors["", False]) > 1e-2


def test_a_batch_norm_that_has_seen_nothing_is_the_identity_in_evaluation():
    V = torch.randn(100, 8, 3)
    for kind in ("batch", "upright_batch"):
        torch.testing.assert_close(make_norm(kind, 8).eval()(V), V)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_max_pool_keeps_a_half_turn_s_symmetry_in_any_precision(dtype):
    pool = vnt.VNMaxPool(16)
    tokens = torch.randn(20, 16, 3)
    V = torch.cat([tokens, tokens * torch.tensor([-1.0, -1, 1])])  # a half-turn about z
    R = random_rotation(8).float()
    turned = (V.to(dtype).float() @ R[:, None, None]).to(dtype)
    pooled = pool(V.to(dtype)).float()
    for one, rotation in zip(pool(turned).float(), R, strict=True):
        assert (one - pooled @ rotation).norm() / pooled.norm() < 10 * torch.finfo(dtype).eps


@pytest.mark.parametrize("make", [lambda: vnt.VNEncoder(8, 2, depth=2), lambda: vnt.VNLatentEncoder(8, 2, 1, 3)])
def test_what_lies_under_the_mask_may_be_nan(make):
    layer, V = make(), torch.randn(2, 12, 8, 3)
    mask = torch.arange(12) >= torch.tensor([[0], [5]])
    dirty = torch.where(mask[..., None, None], V, torch.nan)
    kept = mask if layer(V, mask).shape[1] == 12 else slice(None)
    assert torch.equal(layer(dirty, mask)[kept], layer(V, mask)[kept])
