"""Every module equals loops over its own parameters, to 1e-12 in float64, on random shapes, unbatched and batched.

The equations are checked in tests/functional; here, that the modules put the right parameters in the right places.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vnt
from helpers import Shape, assert_close, per_item, random_mask, shapes
from vnt.geometry import center, geometric_median
from vnt.testing import oracles

TOKENS = st.booleans()


def shaken(layer):
    """The layer in float64, every parameter moved off its starting value."""
    layer = layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


def relu(layer):
    return lambda v: oracles.relu(v, layer.weight, layer.direction, negative_slope=layer.negative_slope, eps=layer.eps)


def linear(layer):
    if layer.bias_direction is None:
        return lambda v: oracles.linear(v, layer.weight)
    return lambda v: oracles.linear_with_bias(v, layer.weight, layer.bias_direction, layer.bias_epsilon)


def norm(layer, mask):
    """The norm of one cloud (N, C, S)."""
    match layer:
        case vnt.VNRMSNorm():
            return lambda V: np.stack([oracles.rms_norm(v, layer.gain, eps=layer.eps) for v in V])
        case vnt.VNLayerNorm():
            return lambda V: np.stack([oracles.layer_norm(v, layer.gain, layer.shift, eps=layer.eps) for v in V])
    return lambda V: oracles.batch_norm(V, layer.gain, layer.shift, mask, eps=layer.eps)


def mlp(layer, mask):
    def oracle(V):
        V = oracles.as_array(V)
        if layer.expand is not None:
            V = norm(layer.norm, mask)(np.stack([linear(layer.expand)(v) for v in V]))
        return np.stack([linear(layer.contract)(relu(layer.activation)(v)) for v in V])

    return oracle


def attention(layer, Q, K, mask):
    weights = [layer.query.weight, layer.key.weight, layer.value.weight, layer.output.weight]
    return oracles.multihead_attention(Q, K, K, *weights, layer.num_heads, mask)


def block(layer, V, mask, context=None, own_mask=None):
    """Fig. 2, one cloud."""
    V = oracles.as_array(V)
    own = mask if context is None else own_mask
    first, second = norm(layer.attention_norm, own), norm(layer.mlp_norm, own)

    def attend(x):
        return attention(layer.attention, x, x if context is None else context, mask)

    if layer.norm_position == "post":
        V = first(V + attend(V))
        return second(V + mlp(layer.mlp, own)(V))
    if layer.norm_position == "branch":
        V = V + first(attend(V))
        return V + second(mlp(layer.mlp, own)(V))
    V = V + attend(first(V))
    return V + mlp(layer.mlp, own)(second(V))


def encoder(layer, V, mask):
    for _ in range(layer.repeats):
        for part in layer.blocks:
            V = block(part, V, mask)
    return V if layer.final_norm is None else norm(layer.final_norm, mask)(V)


@given(shapes(), st.sampled_from([0.0, 0.3]))
def test_linear(s: Shape, epsilon):
    layer = shaken(vnt.VNLinear(s.C, s.C_out, bias_epsilon=epsilon, spatial_dim=s.S))
    V = s.randn(*s.batch, s.N, s.C, s.S)
    assert_close(layer(V), per_item(linear(layer), (*s.batch, s.N), V))


@given(shapes(), st.sampled_from([0.0, 0.2]), st.booleans())
def test_relu(s: Shape, slope, shared):
    layer = shaken(vnt.VNReLU(s.C, out_channels=s.C_out, negative_slope=slope, share_direction=shared))
    V = s.randn(*s.batch, s.N, s.C, s.S)
    assert_close(layer(V), per_item(relu(layer), (*s.batch, s.N), V))


@given(shapes(), st.sampled_from([vnt.VNRMSNorm, vnt.VNLayerNorm, vnt.VNBatchNorm]))
def test_norms(s: Shape, cls):
    layer = shaken(cls(s.C))
    V = s.randn(s.N, s.C, s.S)  # one cloud: batch norm in a batch is tested on the function
    assert_close(layer(V), norm(layer, None)(oracles.as_array(V)))


@given(shapes(), st.sampled_from(["none", "rms", "layer", "batch", "upright_layer", "upright_batch"]))
def test_mlp(s: Shape, kind):
    layer = shaken(vnt.VNMLP(s.C, s.M, s.C_out, norm=kind, negative_slope=0.1, spatial_dim=s.S))
    V = s.randn(s.N, s.C, s.S)
    assert_close(layer(V), mlp(layer, None)(V))


@given(shapes(), st.sampled_from([1, 2, 3]), st.booleans())
def test_attention_with_separate_arguments(s: Shape, heads, masked):
    layer = shaken(vnt.VNMultiheadAttention(s.C, heads, value_channels=2 * heads, spatial_dim=s.S))
    Q, K = s.randn(*s.batch, s.M, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S)
    Z = s.randn(*s.batch, s.N, 2 * heads, s.S)
    mask = random_mask(*s.batch, s.N) if masked else None
    weights = [layer.query.weight, layer.key.weight, layer.value.weight, layer.output.weight]
    expected = per_item(
        lambda q, k, z, m: oracles.multihead_attention(q, k, z, *weights, heads, m), s.batch, Q, K, Z, mask
    )
    assert_close(layer(Q, K, Z, mask), expected)


@pytest.mark.parametrize("position", ["pre", "post", "branch"])
@pytest.mark.parametrize(
    "kinds", [("rms", "none"), ("layer", "batch"), ("batch", "rms"), ("upright_layer", "upright_batch")]
)
@given(s=shapes(), masked=st.booleans(), repeats=st.sampled_from([1, 2]))
def test_encoder(position, kinds, s: Shape, masked, repeats):
    options = {"norm": kinds[0], "mlp_norm": kinds[1], "norm_position": position, "norm_eps": 1e-3}
    layer = shaken(vnt.VNEncoder(4, 2, depth=2, repeats=repeats, spatial_dim=s.S, **options))
    V = s.randn(s.N, 4, s.S)
    mask = random_mask(s.N) if masked else None
    kept = slice(None) if mask is None else mask
    assert_close(layer(V, mask)[kept], torch.as_tensor(encoder(layer, V, mask))[kept], 1e-11)


@pytest.mark.parametrize("position", ["pre", "post", "branch"])
@pytest.mark.parametrize(("norms", "read_back"), [("rms", False), ("rms", True), ("batch", True)])
@given(s=shapes(), masked=st.booleans())
def test_latent_encoder(position, norms, read_back, s: Shape, masked):
    """Fig. 5: mean-project, cross-attention to the inputs, self-attention among the latents; tokens may read back."""
    options = {"norm": norms, "norm_position": position, "spatial_dim": s.S}
    layer = shaken(vnt.VNLatentEncoder(4, 2, depth=1, num_latents=s.M, read_back=read_back, repeats=2, **options))
    V = s.randn(s.N, 4, s.S)
    mask = random_mask(s.N) if masked else None
    tokens = oracles.as_array(V) if layer.input_norm is None else norm(layer.input_norm, mask)(oracles.as_array(V))
    latents = oracles.mean_project(tokens, layer.project.weight, mask)
    latents = encoder(layer.encoder, block(layer.cross, latents, mask, context=tokens), None)
    if not read_back:
        assert_close(layer(V, mask), latents, 1e-11)
        return
    expected = block(layer.read_back.block, oracles.as_array(V), None, context=latents, own_mask=mask)
    if layer.read_back.final_norm is not None:
        expected = norm(layer.read_back.final_norm, mask)(expected)
    kept = slice(None) if mask is None else mask
    assert_close(layer(V, mask)[kept], torch.as_tensor(expected)[kept], 1e-11)


@given(shapes(), st.booleans())
def test_pools(s: Shape, masked):
    V = s.randn(*s.batch, s.N, s.C, s.S)
    mask = random_mask(*s.batch, s.N) if masked else None
    assert_close(vnt.VNMeanPool()(V, mask), per_item(oracles.mean_pool, s.batch, V, mask))
    pool = vnt.VNMaxPool(s.C).double()
    assert_close(pool(V, mask), per_item(lambda v, m: oracles.max_pool(v, pool.weight, m), s.batch, V, mask))
    project = shaken(vnt.VNMeanProject(s.C, s.C_out, s.M))
    expected = per_item(lambda v, m: oracles.mean_project(v, project.weight, m), s.batch, V, mask)
    assert_close(project(V, mask), expected)


@given(shapes())
def test_invariant(s: Shape):
    layer = shaken(vnt.VNInvariant(s.C, hidden_channels=s.M, spatial_dim=s.S))
    V = s.randn(s.N, s.C, s.S)
    frames = mlp(layer.frame, None)(V)
    expected = np.stack([oracles.invariant(v, t) for v, t in zip(V, frames, strict=True)])
    assert_close(layer(V), expected)


@given(shapes(), st.integers(0, 4), st.booleans())
def test_edge_convolution(s: Shape, k, masked):
    layer = shaken(vnt.VNEdgeConv(s.C, s.C_out, k, negative_slope=0.1, spatial_dim=s.S))
    V = s.randn(*s.batch, s.N, s.C, s.S)
    mask = random_mask(*s.batch, s.N) if masked else None

    def oracle(v, m):
        if k == 0:
            return np.stack([linear(layer.lift)(token) for token in v])
        weights = oracles.neighbor_weights(v.flatten(-2), k, m)
        message = layer.message
        return oracles.edge_convolution(
            v, weights, message.weight, message.direction, negative_slope=0.1, eps=message.eps
        )

    kept = torch.ones(*s.batch, s.N, dtype=torch.bool) if mask is None else mask
    assert_close(layer(V, mask)[kept], per_item(oracle, s.batch, V, mask)[kept])


@given(shapes(spatial_dims=(3, 5)))
def test_cross_product(s: Shape):
    layer = shaken(vnt.VNCrossProduct(s.C, spatial_dim=s.S))

    def oracle(v):
        unit = oracles.rms_norm(v, layer.norm.gain, eps=layer.norm.eps)
        cross = oracles.cross_product(linear(layer.left)(unit), linear(layer.right)(unit))
        return oracles.as_array(v) + linear(layer.output)(cross)

    V = s.randn(*s.batch, s.N, s.C, s.S)
    assert_close(layer(V), per_item(oracle, (*s.batch, s.N), V))


@given(shapes())
def test_gate(s: Shape):
    layer = shaken(vnt.VNGate(2, s.C, hidden=3))
    V, scalars = s.randn(*s.batch, s.N, s.C, s.S), s.randn(*s.batch, s.N, 2)

    def oracle(v, x):
        hidden = torch.nn.functional.gelu(layer.hidden.weight @ x + layer.hidden.bias)
        return oracles.gate(v, 1 + layer.output.weight @ hidden + layer.output.bias)

    assert_close(layer(V, scalars), per_item(oracle, (*s.batch, s.N), V, scalars))


@given(shapes(), st.booleans())
def test_centres(s: Shape, masked):
    points = s.randn(*s.batch, s.N, s.S)
    mask = random_mask(*s.batch, s.N) if masked else None
    assert_close(center(points, mask)[1], per_item(oracles.center, s.batch, points, mask))
    assert_close(geometric_median(points, mask), per_item(oracles.geometric_median, s.batch, points, mask))
