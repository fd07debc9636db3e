r"""Inequalities for section 7: what a bias costs, and how far each layer can stretch it. Derived in docs/bounds.md.

The paper proves a bound for VN-LinearWithBias (Proposition 3) and one for compositions (Proposition 4), which needs a
Lipschitz constant of each layer; it gives that of VN-Linear alone. Here are the others. A constant holds on a ball: for
all tokens with ‖V^(n)‖_F ≤ ρ, in the norm max_n ‖V^(n)‖_F (over a cloud of N tokens in the Frobenius norm: times √N
for attention, the same for the rest).
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnt.layers import (
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

GELU_CONSTANT = 1.13
"""sup |GELU'| = 1.12904, at x = √2."""
GELU_CURVATURE = 0.798
"""sup |GELU″| = 2φ(0) = 0.79788, at x = 0."""
DIRECTION_CONSTANT = 0.79
"""sup over τ of τ(2 + τ²)/(1 + τ²)² = 0.78740, at τ = 0.749."""


def bias_worst_case(
    U: Float[Tensor, "*layers C S"], epsilon: float, *, num_tokens: int = 1, spatial_dim: int = 3
) -> Float[Tensor, "*layers"]:
    """max over rotations of Δ of VN-LinearWithBias: 2ε√(tr G − λ_min(G)), G the spatial block of UᵀU.

    A half-turn about the eigenvector of λ_min. At S = 3, where tr G = C', that is 2ε√(C' − λ_min(UᵀU)). In the plane
    the half-turn is −I, and it is 2ε√C'. For N tokens √N times as much.
    """
    B = U[..., :spatial_dim]
    G = B.mT @ B
    trace = G.diagonal(dim1=-2, dim2=-1).sum(-1)
    least = torch.linalg.eigvalsh(G)[..., 0] if spatial_dim == 3 else torch.zeros_like(trace)
    return 2 * epsilon * (num_tokens * (trace - least).clamp(min=0)).sqrt()


def paper_bias_bound(num_channels: int, epsilon: float, *, num_tokens: int = 1) -> float:
    """2ε√C' (Proposition 3), for N tokens √N times as much: attained by a rotation iff rank U ≤ 2."""
    return 2 * epsilon * math.sqrt(num_channels * num_tokens)


def compose(violations: Sequence[float], constants: Sequence[float]) -> float:
    """Proposition 4: L_K(… (L_3(L_2 ε_1 + ε_2) + ε_3) …) + ε_K of layers with violations ε_k and constants L_k.

    The first constant is not used: nothing comes before it.

    >>> compose([0.1, 0.2], [5.0, 3.0])
    0.5
    """
    if len(violations) != len(constants):
        raise ValueError(f"each layer has a violation and a constant: got {len(violations)} and {len(constants)}")
    total = 0.0
    for own, stretch in zip(violations, constants, strict=True):
        total = stretch * total + own if total > 0 else own
    return total


def spectral_norm(W: Float[Tensor, "*many C_out C"]) -> Float[Tensor, "*many"]:
    """σ(W): the Lipschitz constant of VN-Linear (Proposition 7), and of an ordinary linear layer."""
    return torch.linalg.matrix_norm(W.double(), 2)


def normalizing_constant(
    length: Float[Tensor, "*any"], radius: Float[Tensor, "*#any"], count: int, eps: float
) -> Float[Tensor, "*any"]:
    """That of x ↦ x/√(|x|²/n + eps) on the ball of some radius around a vector of some length.

    The Jacobian is (1/s)(I − x xᵀ/(n s²)), whose largest eigenvalue is 1/s: largest where x is shortest.
    """
    shortest = (length - radius).clamp(min=0)
    return (shortest.square() / count + eps).rsqrt()


def projector_slope(k_least: Float[Tensor, "*any"], k_most: Float[Tensor, "*any"], eps: float) -> Float[Tensor, "*any"]:
    """That of k ↦ k kᵀ/(|k|² + eps), VN-ReLU's projector, for directions k of a length in range.

    t/d · (1 + eps/d) at t = |k|, d = t² + eps. Nowhere more than 0.79/√eps; 1/t without a guard.
    """
    if eps == 0:
        return 1 / k_least
    peak = math.sqrt(eps)  # where t/d is largest
    t = torch.where(k_most < peak, k_most, torch.where(k_least > peak, k_least, peak))
    steep = t / (t.square() + eps) * (1 + eps / (k_least.square() + eps))
    return steep.clamp(max=DIRECTION_CONSTANT / peak)


def lipschitz(layer: nn.Module, radius: float = math.inf) -> float:
    """A constant of the layer on all tokens with ‖V^(n)‖_F ≤ radius; infinite where there is none.

    Batch norm is that of evaluation. VN-LayerNorm and VN-BatchNorm turn on short vectors, where the unguarded formulas
    have no constant and the guarded ones 1/√eps; VN-MaxPool jumps. `steep_pair` shows the input.

    >>> torch.manual_seed(0) and lipschitz(VNRMSNorm(8, eps=0.25))
    2.0
    """
    return _bounds(layer, radius)[0]


def reach(layer: nn.Module, radius: float) -> float:
    """The length that a token can have behind the layer, if it had ‖V^(n)‖_F ≤ radius before."""
    return _bounds(layer, radius)[1]


def _bounds(layer: nn.Module, radius: float) -> tuple[float, float]:
    """A Lipschitz constant on the ball, and the length of the longest token that leaves it."""
    match layer:
        case VNLinear():
            sigma = float(spectral_norm(layer.weight.detach()))
            shift = layer.bias_epsilon * math.sqrt(layer.out_channels)
            return sigma, sigma * radius + shift
        case VNRMSNorm():
            gain = float(layer.gain.detach().abs().max())
            constant = gain / math.sqrt(layer.eps) if layer.eps > 0 else math.inf
            return constant, min(gain * math.sqrt(layer.channels), constant * radius)
        case VNReLU():
            return _relu(layer, radius)
        case VNMLP():
            inner = [part for part in (layer.expand, layer.norm) if part is not None]
            return _chain([*inner, layer.activation, layer.contract], radius)
        case VNMultiheadAttention():
            return _attention(layer, radius)
        case VNEncoderBlock():
            attention = _residual([layer.attention_norm, layer.attention], layer.norm_position, radius)
            mlp = _residual([layer.mlp_norm, layer.mlp], layer.norm_position, attention[1])
            return attention[0] * mlp[0], mlp[1]
        case VNEncoder():
            final = [] if layer.final_norm is None else [layer.final_norm]
            return _chain([*layer.passes(), *final], radius)
        case VNMeanPool():
            return 1.0, radius
        case VNMeanProject():
            sigma = float(spectral_norm(layer.weight.detach()).max())
            return sigma, sigma * radius
        case VNInvariant():
            constant, longest = _bounds(layer.frame, radius)
            return longest + radius * constant, longest * radius
        case VNLayerNorm() | VNBatchNorm() | VNMaxPool():
            return math.inf, math.inf
    raise ValueError(f"no constant is known for {type(layer).__name__}")


def _chain(layers: Sequence[nn.Module], radius: float) -> tuple[float, float]:
    constant = 1.0
    for layer in layers:
        stretch, radius = _bounds(layer, radius)
        constant = constant * stretch if math.isfinite(constant) else math.inf
        if math.isnan(radius):  # nothing times infinity: a zero layer behind one without a bound
            radius = math.inf
    return constant, radius


def _residual(parts: list[nn.Module], position: str, radius: float) -> tuple[float, float]:
    """V + f(Norm(V)), V + Norm(f(V)), or Norm(V + f(V))."""
    norm, inner = parts
    if position != "post":
        stretch, longest = _chain([norm, inner] if position == "pre" else [inner, norm], radius)
        return 1 + stretch, radius + longest
    stretch, longest = _bounds(inner, radius)
    outer, final = _bounds(norm, radius + longest)
    return outer * (1 + stretch), final


def _relu(layer: VNReLU, radius: float) -> tuple[float, float]:
    W, U = layer.weight.detach().double(), layer.direction.detach().double()
    zero = torch.zeros(len(U), dtype=W.dtype, device=W.device)
    q_most = W.norm(dim=-1) * radius
    # The part that is taken away is shorter than q, so no channel grows but by a slope beyond one.
    longest = max(1.0, abs(layer.negative_slope)) * float(spectral_norm(W)) * radius
    if layer.eps == 0 or math.isinf(radius):
        return math.inf, longest
    k_most = U.norm(dim=-1) * radius
    steep = abs(1 - layer.negative_slope) * q_most * projector_slope(zero, k_most, layer.eps)
    own = max(1.0, abs(layer.negative_slope)) * spectral_norm(W)
    U = U.expand(len(W), -1)
    turning = torch.minimum(steep.max() * spectral_norm(U), (steep * U.norm(dim=-1)).norm())
    return float(own + turning), longest


def _attention(layer: VNMultiheadAttention, radius: float) -> tuple[float, float]:
    """σ(W^O) √Σ_h (σ(W^Z_h) + Z_h (Q_h σ(W^K_h) + K_h σ(W^Q_h))/√(SP))²: softmax averages, and stretches nothing."""
    heads = layer.num_heads
    shift = layer.bias_epsilon * math.sqrt(layer.value_channels / heads)
    sigma_q, sigma_k, sigma_z = (
        spectral_norm(part.weight.detach().unflatten(0, (heads, -1))) for part in (layer.query, layer.key, layer.value)
    )
    q, k, z = (sigma * radius + shift for sigma in (sigma_q, sigma_k, sigma_z))
    scale = (layer.spatial_dim * layer.value_channels / heads) ** -0.5
    inner = (sigma_z + z * (q * sigma_k + k * sigma_q) * scale).norm()
    constant, _ = _bounds(layer.output, radius)
    longest = constant * float(z.norm()) + layer.bias_epsilon * math.sqrt(layer.value_channels)
    return constant * float(inner), longest


def steep_pair(
    layer: VNLayerNorm | VNBatchNorm, length: float, *, spatial_dim: int = 3
) -> tuple[Float[Tensor, "C S"], Float[Tensor, "C S"]]:
    """Two tokens 2·length apart whose images are far apart: the same but for one short vector, which points back.

    The norm makes that vector as long as the others', so the constant is at least that length divided by ``length``. (A
    VN-BatchNorm that has seen no batch is the identity, and does not.)
    """
    C = layer.channels
    V = torch.zeros(C, spatial_dim, dtype=torch.float64)
    V[:, 0] = torch.linspace(1, 2, C, dtype=torch.float64)
    V[0, 0] = length
    other = V.clone()
    other[0, 0] = -length
    return V, other
