"""Closed forms and constants: attained where they say so, and no counter-example where they say there is none."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vnt import (
    VNMLP,
    VNBatchNorm,
    VNEncoder,
    VNEncoderBlock,
    VNInvariant,
    VNLayerNorm,
    VNLinear,
    VNMaxPool,
    VNMeanPool,
    VNMeanProject,
    VNMultiheadAttention,
    VNReLU,
    VNRMSNorm,
)
from vnt.equivariance.ascent import climb, generators
from vnt.equivariance.bounds import (
    DIRECTION_CONSTANT,
    GELU_CONSTANT,
    GELU_CURVATURE,
    bias_worst_case,
    compose,
    lipschitz,
    paper_bias_bound,
    steep_pair,
)
from vnt.geometry import random_rotation, rotation_in_plane


def climbed(U: torch.Tensor, dim: int) -> torch.Tensor:
    """max over rotations of ‖U(R − I)‖, each layer on its own, by gradient ascent from several starts."""
    if dim == 3:
        starts = random_rotation(8)
    else:
        starts = rotation_in_plane(torch.linspace(0.3, 6.0, 8, dtype=torch.float64))
    many = U[..., :dim].repeat_interleave(len(starts), 0)
    identity = torch.eye(dim, dtype=U.dtype)

    def objective(R):
        return (many @ (R - identity)).square().sum((-2, -1)).log()

    peak = climb(objective, starts.repeat(len(U), 1, 1), generators(dim), num_steps=60)
    return peak.value.exp().sqrt().unflatten(0, (len(U), -1)).amax(-1)


@pytest.mark.parametrize(("S", "dim"), [(2, 2), (3, 3), (5, 3)], ids=["plane", "space", "early fusion"])
def test_closed_form_of_the_bias_equals_the_climbed_worst_case(S, dim):
    for C in (1, 2, 3, 8, 64):
        U = F.normalize(torch.randn(70, C, S, dtype=torch.float64), dim=-1)
        exact = bias_worst_case(U, 1e-6, spatial_dim=dim)
        found = 1e-6 * climbed(U, dim)
        assert float(((exact - found) / exact).abs().max()) <= 1e-6


def test_the_papers_bound_is_attained_iff_the_biases_lie_in_a_plane():
    for rank in (1, 2, 3):
        U = F.normalize(
            torch.randn(20, 16, rank, dtype=torch.float64) @ torch.randn(20, rank, 3, dtype=torch.float64), dim=-1
        )
        ratio = bias_worst_case(U, 1e-3) / paper_bias_bound(16, 1e-3)
        assert bool((ratio <= 1 + 1e-12).all())
        attained = ratio >= 1 - 1e-12
        assert bool(attained.all()) if rank <= 2 else not bool(attained.any())


def test_n_tokens_cost_root_n_times_as_much():
    layer = VNLinear(4, 8, bias_epsilon=0.1).double()
    U = F.normalize(layer.bias_direction.detach(), dim=-1)
    G = U.mT @ U
    axis = torch.linalg.eigh(G)[1][:, 0]
    half_turn = 2 * axis[:, None] * axis - torch.eye(3, dtype=torch.float64)
    V = torch.randn(10, 4, 3, dtype=torch.float64)
    measured = (layer(V @ half_turn) - layer(V) @ half_turn).detach().norm()
    assert float(measured) == pytest.approx(float(bias_worst_case(U, 0.1, num_tokens=10)), rel=1e-12)


def test_proposition_4_on_random_chains():
    for _ in range(20):
        chain = [VNLinear(6, 6, bias_epsilon=0.3).double() for _ in range(4)]
        V, R = torch.randn(6, 3, dtype=torch.float64), random_rotation()
        with torch.no_grad():
            turned, still = V @ R, V
            for layer in chain:
                turned, still = layer(turned), layer(still)
        violations = [
            float(bias_worst_case(F.normalize(layer.bias_direction.detach(), dim=-1), 0.3)) for layer in chain
        ]
        bound = compose(violations, [lipschitz(layer) for layer in chain])
        assert float((turned - still @ R).norm()) <= bound
    with pytest.raises(ValueError, match="2 and 1"):
        compose([1.0, 2.0], [1.0])


def test_constants_of_scalar_functions():
    x = torch.linspace(-8, 8, 400001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(nn.functional.gelu(x).sum(), x, create_graph=True)
    (curve,) = torch.autograd.grad(slope.sum(), x)
    assert 0.998 * GELU_CONSTANT <= float(slope.detach().abs().max()) <= GELU_CONSTANT
    assert 0.998 * GELU_CURVATURE <= float(curve.abs().max()) <= GELU_CURVATURE
    tau = torch.linspace(0, 20, 200001, dtype=torch.float64)
    steep = tau * (2 + tau**2) / (1 + tau**2) ** 2
    assert 0.99 * DIRECTION_CONSTANT <= float(steep.max()) <= DIRECTION_CONSTANT


def token_norm(x: torch.Tensor) -> torch.Tensor:
    """max_n ‖V^(n)‖_F of each of several clouds."""
    return x.flatten(-2).norm(dim=-1).flatten(1).amax(-1)


def steepest(f, shape: tuple[int, ...], radius: float, *, steps: int = 60) -> float:
    """The largest ‖f(V) − f(W)‖ / ‖V − W‖ that gradient ascent finds on the ball, from sixteen pairs."""
    V = torch.randn(16, *shape, dtype=torch.float64).mul_(radius / math.sqrt(shape[-2] * shape[-1])).requires_grad_()
    W = (V + 0.3 * radius * torch.randn_like(V) / math.sqrt(shape[-2])).detach().requires_grad_()
    optimizer = torch.optim.Adam([V, W], lr=0.03 * radius, maximize=True)
    best = 0.0
    for _ in range(steps):
        ratio = token_norm(f(V) - f(W)) / token_norm(V - W)
        best = max(best, float(ratio.detach().max()))
        optimizer.zero_grad()
        ratio.log().sum().backward()
        optimizer.step()
        with torch.no_grad():
            for x in (V, W):  # back onto the ball
                x.mul_((radius / x.flatten(-2).norm(dim=-1).clamp(min=1e-9)).clamp(max=1)[..., None, None])
    return best


LAYERS = {
    "linear": lambda: VNLinear(5, 7),
    "linear with bias": lambda: VNLinear(5, 7, bias_epsilon=0.2),
    "rms norm": lambda: VNRMSNorm(5, eps=0.3),
    "relu": lambda: VNReLU(5, eps=0.05),
    "relu, sharper": lambda: VNReLU(5, eps=1e-3),
    "leaky relu, shared": lambda: VNReLU(5, negative_slope=0.2, share_direction=True, eps=0.05),
    "mlp": lambda: VNMLP(5, 8, 5, relu_eps=0.05, bias_epsilon=0.1),
    "mlp with norm": lambda: VNMLP(5, 8, 5, norm="rms", relu_eps=0.05),
    "attention": lambda: VNMultiheadAttention(6, 2, bias_epsilon=0.1),
    "block": lambda: VNEncoderBlock(6, 2, norm_eps=1.0),
    "post-norm block": lambda: VNEncoderBlock(6, 2, norm_eps=1.0, norm_position="post"),
    "block with norms in its branches": lambda: VNEncoderBlock(6, 2, norm_eps=1.0, norm_position="branch"),
    "encoder": lambda: VNEncoder(6, 2, 2, norm_eps=1.0),
    "mean pool": VNMeanPool,
    "mean project": lambda: VNMeanProject(5, 4, 3),
    "invariant": lambda: VNInvariant(5, relu_eps=0.05),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("radius", [0.1, 1.0, 4.0])
def test_no_pair_of_inputs_is_stretched_by_more_than_the_constant(name, radius):
    layer = LAYERS[name]().double()
    if isinstance(layer, VNRMSNorm):
        nn.init.uniform_(layer.gain, -2, 2)
    channels = 6 if "attention" in name or "block" in name or "encoder" in name else 5

    def f(V):
        if isinstance(layer, VNMultiheadAttention):
            return layer(V, V, V)
        out = layer(V)
        return out[:, None] if isinstance(layer, VNMeanPool) else out

    bound = lipschitz(layer, radius)
    found = steepest(f, (4, channels, 3), radius)
    assert 0 < found <= bound * (1 + 1e-9)
    assert math.isfinite(bound)


def test_constants_say_something_where_they_can():
    linear = VNLinear(5, 7).double()
    assert steepest(linear, (1, 5, 3), 1.0, steps=200) >= 0.95 * lipschitz(linear)
    norm = VNRMSNorm(5, eps=0.3).double()
    assert steepest(norm, (1, 5, 3), 0.1) >= 0.9 * lipschitz(norm)


@pytest.mark.parametrize("layer", [VNLayerNorm(6, eps=0.0), VNBatchNorm(6, eps=0.0)], ids=["layer", "batch"])
def test_the_papers_norms_have_no_constant_and_here_is_the_input(layer):
    layer = layer.double()
    layer(torch.randn(50, 6, 3, dtype=torch.float64))  # statistics of a batch
    layer.eval()
    assert math.isinf(lipschitz(layer))
    ratios = []
    for length in (1e-2, 1e-4, 1e-6):
        V, W = steep_pair(layer, length)
        assert float((V - W).norm()) == pytest.approx(2 * length)
        ratios.append(float((layer(V) - layer(W)).detach().norm() / (V - W).norm()))
    assert ratios[0] > 5
    assert ratios[1] > 90 * ratios[0]
    assert ratios[2] > 90 * ratios[1]


def test_max_pool_jumps():
    pool = VNMaxPool(2).double()
    assert math.isinf(lipschitz(pool))
    with pytest.raises(ValueError, match="Conv1d"):
        lipschitz(nn.Conv1d(1, 1, 1))


def test_unguarded_relu_has_no_constant():
    assert math.isinf(lipschitz(VNReLU(3, eps=0.0), 1.0))
    assert math.isfinite(lipschitz(VNReLU(3, eps=1e-12), 1.0))
