"""Reductions over the points that exist. A mask is (..., N), True where a point exists; None means all of them."""

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from vnt.precision import at_least_float32


def align(mask: Bool[Tensor, "*batch N"], x: Shaped[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """The mask with as many trailing axes as x has after its tokens: (..., N) -> (..., N, 1, ...)."""
    return mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))


def blank(x: Shaped[Tensor, "..."], mask: Bool[Tensor, "*batch N"] | None) -> Shaped[Tensor, "..."]:
    """Zero where no point exists: what pads a cloud may be anything, NaN included."""
    return x if mask is None else torch.where(align(mask, x), x, 0)


def masked_mean(x: Shaped[Tensor, "..."], mask: Bool[Tensor, "*batch N"] | None, token_axis: int) -> Tensor:
    """Mean over the token axis of the tokens that exist; what lies under the mask does not matter, NaN included."""
    if mask is None:
        return x.mean(token_axis)
    count = align(mask, x).sum(token_axis).clamp(min=1)
    return (blank(at_least_float32(x), mask).sum(token_axis) / count).to(x.dtype)


def masked_max(x: Shaped[Tensor, "..."], mask: Bool[Tensor, "*batch N"] | None, token_axis: int) -> Tensor:
    """Largest value over the token axis among the tokens that exist."""
    if mask is not None:
        x = torch.where(align(mask, x), x, -torch.inf)
    return x.amax(token_axis)
