"""Uphill on a rotation group: the worst rotation of a violation, by gradients and not by luck."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Objective = Callable[[Tensor], Tensor]
"""Rotations (B, D, D) -> values (B), each a differentiable function of its own rotation.

Give the logarithm of what is to be large: slopes are then relative, and its units do not matter.
"""


class Peak(NamedTuple):
    """The best that was found for each item.

    Attributes:
        rotation: (B, D, D).
        value: (B).
        slope: (B), length of the gradient there, over one radian: near zero at a peak.
        evaluations: how often the objective was computed.
    """

    rotation: Float[Tensor, "B D D"]
    value: Float[Tensor, "B"]
    slope: Float[Tensor, "B"]
    evaluations: int


def generators(dim: int, axis: tuple[float, float, float] | None = None) -> Float[Tensor, "K D D"]:
    """Antisymmetric matrices L with R exp(ωL) on the group: one in the plane or about an axis, three in space."""
    if dim == 2:
        return torch.tensor([[[0.0, 1.0], [-1.0, 0.0]]], dtype=torch.float64)
    L = torch.zeros(3, 3, 3, dtype=torch.float64)
    for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        L[k, i, j], L[k, j, i] = 1.0, -1.0
    if axis is None:
        return L
    direction = torch.tensor(axis, dtype=torch.float64)
    return torch.einsum("k,kij->ij", direction / direction.norm(), L)[None]


def climb(
    objective: Objective,
    start: Float[Tensor, "B D D"],
    basis: Float[Tensor, "K D D"],
    *,
    num_steps: int,
    tolerance: float = 1e-9,
) -> Peak:
    """BFGS on the group, all items side by side: a step is R exp(Σ_k p_k L_k), accepted where the value rises.

    Tangent spaces are told apart by where R stands, so gradients at different rotations are compared in the frame
    that moves with R. An item whose step fails tries a third of it in the next round; no item goes downhill.
    """
    R, basis = start.double(), basis.to(start.device)
    B, K = len(R), len(basis)
    value, gradient = _value_and_gradient(objective, R, basis)
    identity = torch.eye(K, dtype=R.dtype, device=R.device).expand(B, K, K)
    H, length = identity.clone(), R.new_ones(B)
    evaluations = 1
    for _ in range(num_steps):
        if bool((gradient.norm(dim=-1) <= tolerance).all()):
            break
        direction = torch.einsum("bij,bj->bi", H, gradient)
        uphill = (direction * gradient).sum(-1)
        astray = uphill <= 0  # rounding has spoilt the curvature: forget it
        direction = torch.where(astray[:, None], gradient, direction)
        H = torch.where(astray[:, None, None], identity, H)
        norm = direction.norm(dim=-1).clamp(min=1e-300)
        step = direction * (length * (1.0 / norm).clamp(max=1.0))[:, None]  # never more than a radian
        new_R = R @ torch.matrix_exp(torch.einsum("bk,kij->bij", step, basis))
        new_value, new_gradient = _value_and_gradient(objective, new_R, basis)
        evaluations += 1
        better = new_value >= value + 1e-4 * (step * gradient).sum(-1)
        H = torch.where(better[:, None, None], _bfgs(H, step, gradient - new_gradient), H)
        R = torch.where(better[:, None, None], new_R, R)
        gradient = torch.where(better[:, None], new_gradient, gradient)
        value = torch.where(better, new_value, value)
        length = torch.where(better, torch.ones_like(length), length / 3)
    return Peak(R, value, gradient.norm(dim=-1), evaluations)


def _value_and_gradient(objective: Objective, R: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """The objective, and its slope along R exp(ω_k L_k) at ω = 0: ⟨∂/∂R, R L_k⟩."""
    with torch.enable_grad():
        leaf = R.detach().requires_grad_()
        value = objective(leaf).to(leaf.device)
        (slope,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), torch.einsum("bij,bil,klj->bk", slope, R, basis)


def _bfgs(H: Tensor, step: Tensor, y: Tensor) -> Tensor:
    """The inverse-curvature update of each item, where the curvature along the step has the right sign."""
    curvature = (step * y).sum(-1)
    usable = curvature > 1e-12 * step.norm(dim=-1) * y.norm(dim=-1)
    rho = torch.where(usable, 1 / torch.where(usable, curvature, 1), 0)[:, None, None]
    identity = torch.eye(H.shape[-1], dtype=H.dtype, device=H.device)
    left = identity - rho * step[:, :, None] * y[:, None, :]
    new = left @ H @ left.mT + rho * step[:, :, None] * step[:, None, :]
    return torch.where(usable[:, None, None], new, H)
