r"""The first-order law of the ε bias: nine numbers tell the violation for every rotation at once.

Every layer but the bias commutes with rotations, so f(XR)R⁻¹ is the same network at X with each bias U replaced by
U R⁻¹, exactly. Write g(M) for the network at X with each bias εU replaced by εU + εU M, M a 3×3 matrix. Then

    Δ(f, X, R) = ‖g(R⁻¹ − I) − g(0)‖ = ‖A vec(R⁻¹ − I)‖ + O(ε²),   A = Dg(0),

and A has nine columns: nine Jacobian-vector products. Δ(R)² = mᵀ (AᵀA) m with m = vec(R⁻¹ − I).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from vnt.equivariance.ascent import climb, generators
from vnt.equivariance.forward_attention import ForwardAttention
from vnt.equivariance.subject import Subject
from vnt.geometry import random_rotation, rotation_about
from vnt.geometry.packing import padded
from vnt.layers import VNLinear


def bias_layers(module: nn.Module | None, dim: int = 3) -> dict[str, VNLinear]:
    """The layers that carry an ε bias, by name: in space (with or without attributes), or in the plane."""
    named = [] if module is None else module.named_modules()
    return {
        name: layer
        for name, layer in named
        if isinstance(layer, VNLinear) and layer.bias_direction is not None and min(layer.spatial_dim, 3) == dim
    }


def bias(layer: VNLinear) -> Float[Tensor, "C S"]:
    """εU of a layer that has one."""
    found = layer.bias()
    assert found is not None
    return found


@contextmanager
def shifted_biases(layers: dict[str, VNLinear], shifts: dict[str, Float[Tensor, "*items D D"]]) -> Iterator[None]:
    """Within it, each named layer's bias εU is εU + εU M, with one M for all batch items or one for each.

    M acts on the first D coordinates; attributes that follow them under early fusion stay. Where a layer sees tokens
    of all items in one axis, each item's M serves its own.
    """

    def add(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor, M: Tensor) -> Tensor:
        assert isinstance(layer, VNLinear)
        D = M.shape[-1]
        change = F.pad(bias(layer)[:, :D] @ M, (0, output.shape[-1] - D))  # (*items, C, S)
        if change.ndim == 3 and len(change) != len(output) and len(output) % len(change) == 0:
            change = change.repeat_interleave(len(output) // len(change), 0)
        inner = output.ndim - change.ndim
        return output + change.reshape(*change.shape[:-2], *[1] * inner, *change.shape[-2:])

    hooks = [
        layers[name].register_forward_hook(lambda layer, inputs, output, M=M: add(layer, inputs, output, M))
        for name, M in shifts.items()
    ]
    try:
        with padded():  # so that the first axis of what a layer gives counts items
            yield
    finally:
        for hook in hooks:
            hook.remove()


def with_turned_biases(subject: Subject, R: Float[Tensor, "B D D"]) -> Tensor:
    """g(R⁻¹ − I): the network at X with each bias U replaced by U R⁻¹. Equals f(XR)R⁻¹ where only biases break."""
    layers = bias_layers(subject.module, R.shape[-1])
    M = (R.mT - torch.eye(R.shape[-1], dtype=R.dtype, device=R.device)).to(subject.given[0][0])
    with torch.no_grad(), shifted_biases(layers, dict.fromkeys(layers, M)):
        return subject(*subject.arguments)


@dataclass(frozen=True, eq=False)
class FirstOrderLaw:
    """The law of each batch item.

    Attributes:
        columns: A, (B, outputs, 9), in units of the output; column 3i + j belongs to entry (i, j) of R⁻¹ − I.
        gram: AᵀA, (B, 9, 9).
        scale: ‖f(X)‖, (B).
        worst: the largest relative violation of each item, (B).
        worst_rotation: where, (B, 3, 3).
        worst_direction: the unit vector of outputs along which it points, (B, outputs).
        shares: layer -> its part of the worst violation, along that direction; they sum to one. (B) each.
    """

    columns: Float[Tensor, "B outputs 9"]
    gram: Float[Tensor, "B 9 9"]
    scale: Float[Tensor, "B"]
    worst: Float[Tensor, "B"]
    worst_rotation: Float[Tensor, "B 3 3"]
    worst_direction: Float[Tensor, "B outputs"]
    shares: dict[str, Float[Tensor, "B"]]

    def predict(self, R: Float[Tensor, "*any B 3 3"]) -> Float[Tensor, "*any B"]:
        """The relative violation of each item at any rotation."""
        return quadratic(self.gram, R.to(self.gram)).clamp(min=0).sqrt() / self.scale


@padded()
def first_order_law(subject: Subject) -> FirstOrderLaw | None:
    """The law at the subject's arguments; None where the module has no ε bias.

    One item at a time, since attention keeps its N×N weights (`ForwardAttention`).
    """
    layers = bias_layers(subject.module)
    if not layers:
        return None
    columns = torch.cat([_columns(subject.items(slice(i, i + 1)), layers) for i in range(subject.num_items)]).cpu()
    gram = columns.mT @ columns
    scale = subject.value().flatten(1).norm(dim=-1).cpu()
    value, R = worst_over_rotations(gram)
    turned = (columns @ _change(R)[..., None]).squeeze(-1)
    direction = F.normalize(turned, dim=-1)
    shares = _shares(subject, layers, R, direction, turned.norm(dim=-1))
    return FirstOrderLaw(columns, gram, scale, value.sqrt() / scale, R, direction, shares)


def _columns(item: Subject, layers: dict[str, VNLinear]) -> Float[Tensor, "1 outputs 9"]:
    """A of one item, one Jacobian-vector product for each entry of M."""
    zero = torch.zeros(3, 3, dtype=torch.float64, device=item.given[0][0].device)
    columns = []
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), ForwardAttention() as attention:
        for entry in torch.eye(9, dtype=zero.dtype, device=zero.device).unflatten(-1, (3, 3)):
            attention.rewind()
            with forward_ad.dual_level():
                M = forward_ad.make_dual(zero, entry)
                with shifted_biases(layers, dict.fromkeys(layers, M)):
                    value, change = forward_ad.unpack_dual(item(*item.arguments).flatten())
            columns.append(torch.zeros_like(value) if change is None else change)
    return torch.stack(columns, -1)[None]


def _shares(
    subject: Subject, layers: dict[str, VNLinear], R: Tensor, direction: Tensor, size: Tensor
) -> dict[str, Tensor]:
    """⟨u, A_ℓ m⟩ / ‖A m‖ of each layer ℓ: one backward pass, since the layers' shifts are separate variables."""
    M = (R.mT - torch.eye(3, dtype=R.dtype, device=R.device)).detach()
    with torch.enable_grad():
        device = subject.given[0][0].device
        shifts = {name: torch.zeros_like(M, device=device, requires_grad=True) for name in layers}
        with shifted_biases(layers, shifts):
            along = (subject(*subject.arguments).flatten(1) * direction.to(device)).sum()
            # Within, since large clouds are computed again in the backward pass. A layer may not matter: the softmax
            # does not see what is added to all keys.
            gradients = torch.autograd.grad(along, list(shifts.values()), allow_unused=True, materialize_grads=True)
    size = size.clamp(min=1e-300)
    return {name: (g.cpu() * M).sum((-2, -1)) / size for name, g in zip(shifts, gradients, strict=True)}


def _change(R: Float[Tensor, "*any 3 3"]) -> Float[Tensor, "*any 9"]:
    """m = vec(R⁻¹ − I)."""
    return (R.mT - torch.eye(3, dtype=R.dtype, device=R.device)).flatten(-2)


def quadratic(gram: Float[Tensor, "B 9 9"], R: Float[Tensor, "*any B 3 3"]) -> Float[Tensor, "*any B"]:
    """mᵀ G m at m = vec(R⁻¹ − I)."""
    m = _change(R)
    return torch.einsum("...bi,bij,...bj->...b", m, gram, m)


def worst_over_rotations(
    gram: Float[Tensor, "B 9 9"], *, num_random: int = 12, num_steps: int = 60
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B 3 3"]]:
    """max over SO(3) of mᵀ G m, and where: climbed from three half-turns and some random rotations."""
    half_turns = [rotation_about(axis, torch.tensor(torch.pi, dtype=torch.float64)) for axis in torch.eye(3).tolist()]
    random = random_rotation(num_random, generator=torch.Generator().manual_seed(0))
    starts = torch.cat([torch.stack(half_turns), random]).to(gram)
    B, K = len(gram), len(starts)
    many = gram.repeat_interleave(K, 0)
    unit = many.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=1e-300)  # so that logarithms stay finite

    def objective(R: Tensor) -> Tensor:
        return (quadratic(many / unit[:, None, None], R) + 1e-30).log()

    peak = climb(objective, starts.repeat(B, 1, 1), generators(3), num_steps=num_steps)
    value = quadratic(many, peak.rotation).unflatten(0, (B, K))
    best = value.argmax(-1)
    rows = torch.arange(B, device=gram.device)
    return value[rows, best], peak.rotation.unflatten(0, (B, K))[rows, best]
