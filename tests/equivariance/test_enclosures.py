"""Each enclosure holds: no rotation of the biases and no rest of the input is found that leads outside of it."""

import pytest
import torch
from torch import nn

from vnt import (
    VNMLP,
    VNBatchNorm,
    VNCrossProduct,
    VNEncoder,
    VNEncoderBlock,
    VNInvariant,
    VNLatentEncoder,
    VNLayerNorm,
    VNLinear,
    VNMultiheadAttention,
    VNReLU,
    VNRMSNorm,
)
from vnt.equivariance import enclosures as en
from vnt.equivariance.enclosed_attention import enclose_attention, enclose_linear
from vnt.equivariance.enclosure import LONGEST, Enclosure, add, exact, spectral_bound, through
from vnt.equivariance.first_order import bias_layers, shifted_biases
from vnt.equivariance.sweep import with_bias
from vnt.geometry import random_rotation

N, C = 5, 6
MASK = torch.tensor([[True, True, False, True, True]])
TRIALS = 12


def for_each(V, mask):
    return None if mask is None else mask.expand(len(V), -1)


def attention(mask):
    layer = VNMultiheadAttention(C, 2, bias_epsilon=0.02)
    return layer, lambda V: layer(V, V, V, for_each(V, mask)), lambda x: enclose_attention(layer, x, x, mask)


def block(mask, **options):
    layer = VNEncoderBlock(C, 2, norm_eps=1.0, bias_epsilon=0.02, **options)
    return layer, lambda V: layer(V, for_each(V, mask)), lambda x: en.enclose_block(layer, x, mask)


def encoder(layer):
    return layer, lambda V: layer(V, for_each(V, MASK)), lambda x: en.enclose_encoder(layer, x, MASK)


def plain(layer, rule):
    return layer, layer, lambda x: rule(layer, x)


def warm_batch_norm():
    layer = VNBatchNorm(C, eps=1e-3)
    layer(torch.randn(100, C, 3))
    return layer.eval()


def flat_invariant():
    layer = VNInvariant(C, relu_eps=0.05, bias_epsilon=0.02)
    return layer, lambda V: layer(V).flatten(-2), lambda x: en.enclose_invariant(layer, x)


def chained():
    norm, mlp = VNRMSNorm(C, eps=0.5), VNMLP(C, 8, C, relu_eps=0.05, bias_epsilon=0.02)
    both = nn.ModuleList([norm, mlp])

    def f(V):
        return V + mlp(norm(V))

    def rule(x):
        return through(x, f, lambda x: add(x, en.enclose_mlp(mlp, en.enclose_norm(norm, x))))

    return both, f, rule


CASES = {
    "linear": lambda: plain(VNLinear(C, 4, bias_epsilon=0.02), enclose_linear),
    "rms norm": lambda: plain(VNRMSNorm(C, eps=0.1), en.enclose_norm),
    "layer norm": lambda: plain(VNLayerNorm(C, eps=1e-3), en.enclose_norm),
    "upright layer norm": lambda: plain(VNLayerNorm(C, eps=1e-3, shift=2.37), en.enclose_norm),
    "batch norm": lambda: plain(warm_batch_norm(), en.enclose_norm),
    "relu": lambda: plain(VNReLU(C, eps=0.05), en.enclose_relu),
    "sharp relu": lambda: plain(VNReLU(C, out_channels=9, eps=1e-4), en.enclose_relu),
    "leaky shared relu": lambda: plain(VNReLU(C, negative_slope=0.2, share_direction=True, eps=0.05), en.enclose_relu),
    "mlp": lambda: plain(VNMLP(C, 8, C, relu_eps=0.05, bias_epsilon=0.02), en.enclose_mlp),
    "mlp with batch norm": lambda: plain(VNMLP(C, 8, C, norm="batch", bias_epsilon=0.02).eval(), en.enclose_mlp),
    "residual, through": chained,
    "attention": lambda: attention(None),
    "masked attention": lambda: attention(MASK),
    "block": lambda: block(None),
    "masked post-norm block": lambda: block(MASK, norm_position="post"),
    "masked block with norms in its branches": lambda: block(MASK, norm_position="branch"),
    "encoder": lambda: encoder(VNEncoder(C, 2, 2, norm_eps=1.0, bias_epsilon=0.02)),
    "latents": lambda: encoder(VNLatentEncoder(C, 2, 1, 3, norm_eps=1.0, bias_epsilon=0.02)),
    "latents, read back": lambda: encoder(VNLatentEncoder(C, 2, 1, 3, read_back=True, norm_eps=1.0, bias_epsilon=0.02)),
    "cross product": lambda: plain(VNCrossProduct(C, norm_eps=0.5), en.enclose_cross_product),
    "biased cross product": lambda: plain(with_bias(VNCrossProduct(C, norm_eps=0.5), 0.1), en.enclose_cross_product),
    "invariant": flat_invariant,
}


def perturbed(x: Enclosure, m, direction, reach):
    """A member of the enclosure: m of each trial, and a rest of the given direction and share of the radius."""
    lengths = direction.flatten(-x.axes).norm(dim=-1).clamp(min=1e-12)
    rest = direction * (x.rest * reach / lengths).reshape(*lengths.shape, *[1] * x.axes)
    return x.center + torch.einsum("tj,j...->t...", m, x.slopes[:, 0]) + rest


def outside(f, rule, layer, x: Enclosure, seed: int) -> tuple[float, float]:
    """Of a search by gradient ascent: the largest share of the bound that was used up, and the bound itself."""
    torch.manual_seed(seed)
    with torch.no_grad():
        y = rule(x)
    parameters = torch.randn(TRIALS, 4, dtype=torch.float64).requires_grad_()
    direction = torch.randn(TRIALS, *x.center.shape[1:], dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([parameters, direction], lr=0.1, maximize=True)
    best = 0.0
    biased = bias_layers(layer)
    identity = torch.eye(3, dtype=torch.float64)
    for _ in range(40):
        R = rotations(parameters)
        M = R.mT - identity
        inputs = perturbed(x, M.flatten(-2), direction, 1.0)
        with shifted_biases(biased, dict.fromkeys(biased, M)):
            moved = f(inputs)
        linear = y.center + torch.einsum("tj,j...->t...", M.flatten(-2), y.slopes[:, 0])
        left = (moved - linear).flatten(-y.axes).norm(dim=-1)
        if left.ndim == 1:
            left = left[:, None]
        share = left / y.radius.reshape(1, -1).clamp(min=1e-300)
        best = max(best, float(share.detach().max()))
        optimizer.zero_grad()
        left.flatten(1).amax(-1).sum().backward()
        optimizer.step()
    return best, float(y.radius.max())


def rotations(q):
    """Those of quaternions, differentiably."""
    w, a, b, c = (q / q.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        [1 - 2 * (b * b + c * c), 2 * (a * b - w * c), 2 * (a * c + w * b)],
        [2 * (a * b + w * c), 1 - 2 * (a * a + c * c), 2 * (b * c - w * a)],
        [2 * (a * c - w * b), 2 * (b * c + w * a), 1 - 2 * (a * a + b * b)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1e-4, 1e-2, 0.3])
@pytest.mark.parametrize("rest", [0.0, 1.0, 100.0])
def test_nothing_is_found_outside(name, size, rest):
    layer, f, rule = CASES[name]()
    layer.double()
    center = torch.randn(1, N, C, 3, dtype=torch.float64)
    slopes = size * torch.randn(9, 1, N, C, 3, dtype=torch.float64) / C**0.5
    x = Enclosure(center, slopes, rest * size * torch.rand(1, N, dtype=torch.float64))
    share, bound = outside(f, rule, layer, x, seed=0)
    assert share <= 1 + 1e-6 or share * bound <= 1e-13
    if bound > 1e-13 and size > 1e-3 and rest <= 1 and "batch" not in name:
        assert share > 1e-4  # the search did look, and the bound is not idle


def test_a_residual_that_cancels_keeps_the_rest_that_a_cap_cannot_hold():
    """V − VN-RMSNorm(V): near zero the derivative is small, far away not, and the norm's cap must not hide that."""
    block = VNEncoderBlock(4, 1, hidden_channels=4, norm_eps=1.0, negative_slope=1.0).double().eval()
    with torch.no_grad():
        block.mlp.activation.weight.copy_(torch.eye(4))
        block.mlp.contract.weight.copy_(-torch.eye(4))

        def f(V):
            return V + block.mlp(block.mlp_norm(V))

        V = torch.full((1, 4, 3), 1e-3, dtype=torch.float64)
        x = Enclosure(V, V.new_zeros(9, 1, 4, 3), V.new_tensor([100.0]))
        y = through(x, f, lambda x: add(x, en.enclose_mlp(block.mlp, en.enclose_norm(block.mlp_norm, x))))
        far = torch.zeros_like(V)
        far[0, 0, 0] = 100
        assert float((f(V + far) - f(V)).norm()) <= float(y.rest)


def test_what_all_keys_share_changes_nothing():
    layer = VNMultiheadAttention(C, 2).double()
    layer.key = VNLinear(C, C, bias_epsilon=1.0).double()
    x = exact(torch.randn(1, N, C, 3, dtype=torch.float64))
    with torch.no_grad():
        y = enclose_attention(layer, x, x, None)
    assert float(y.size.max()) < 1e-12


PERCEPTRON = [nn.Linear(8, 7), nn.LayerNorm(7), nn.GELU(), nn.Dropout(0.5), nn.Linear(7, 4)]


@pytest.mark.parametrize("pooling", ["none", "mean", "max"])
@pytest.mark.parametrize("size", [1e-4, 1e-2, 0.3])
def test_rows_and_pools(pooling, size):
    layers = nn.Sequential(*PERCEPTRON).double().eval()

    def f(rows):
        out = layers(rows)
        if pooling == "none":
            return out
        kept = out[:, MASK[0]]
        return kept.mean(-2) if pooling == "mean" else kept.amax(-2)

    def rule(x):
        *inner, last = layers
        hidden = en.enclose_perceptron(inner, x)
        rows = en.enclose_perceptron([last], hidden)
        if pooling == "max":
            return en.max_rows(rows, hidden, last, MASK)
        return rows if pooling == "none" else en.mean_tokens(rows, MASK)

    center = torch.randn(1, N, 8, dtype=torch.float64)
    slopes = size * torch.randn(9, 1, N, 8, dtype=torch.float64)
    x = Enclosure(center, slopes, size * torch.rand(1, N, dtype=torch.float64), axes=1)
    share, _ = outside(f, rule, layers, x, seed=0)
    assert 1e-4 < share <= 1 + 1e-6


def test_an_unknown_layer_is_refused():
    x = exact(torch.randn(1, 2, 3, dtype=torch.float64), axes=1)
    with pytest.raises(ValueError, match="Tanh"):
        en.enclose_perceptron([nn.Tanh()], x)


def test_spectral_bound_is_above_and_near():
    A = torch.randn(50, 9, 20, dtype=torch.float64)
    ratio = spectral_bound(A) / torch.linalg.matrix_norm(A, 2)
    assert float(ratio.min()) >= 1
    assert float(ratio.max()) <= 9 ** (1 / 16) + 1e-9


def test_size_of_a_rotation():
    R = random_rotation(1000)
    length = (R - torch.eye(3, dtype=torch.float64)).flatten(1).norm(dim=-1)
    assert 0.99 * LONGEST <= float(length.max()) <= LONGEST
