"""How groups act on data: rotations and translations on the last axis, permutations on the token axis."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def rotate(V: Float[Tensor, "*shape S"], R: Float[Tensor, "*batch D D"]) -> Float[Tensor, "*shape S"]:
    """V R, one rotation for all of V or one for each item of its leading axes.

    Under early fusion S is 3 + d_A: the first D coordinates turn, the attributes stay, which is V times the block
    diagonal matrix of R and I (Lemma 1). Products are taken in float64 and rounded once, to V's own dtype.

    >>> x = torch.tensor([[1.0, 0.0, 0.0, 7.0]])
    >>> rotate(x, torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    tensor([[0., 1., 0., 7.]])
    """
    _require_real(V)
    D, batch = R.shape[-1], R.shape[:-2]
    if V.shape[-1] < D or V.shape[: len(batch)] != batch:
        raise ValueError(f"cannot turn {tuple(V.shape)} by rotations {tuple(R.shape)}")
    inner = V.ndim - 1 - len(batch)
    R = R.to(V.device, torch.float64).reshape(*batch, *[1] * inner, D, D)
    turned = (V[..., None, :D].double() @ R).squeeze(-2).to(V.dtype)
    return torch.cat([turned, V[..., D:]], -1)


def translate(x: Float[Tensor, "*shape S"], t: Float[Tensor, "*batch D"]) -> Float[Tensor, "*shape S"]:
    """x + t on the first D coordinates, one translation for all of x or one for each item of its leading axes."""
    _require_real(x)
    D, batch = t.shape[-1], t.shape[:-1]
    if x.shape[-1] < D or x.shape[: len(batch)] != batch:
        raise ValueError(f"cannot move {tuple(x.shape)} by translations {tuple(t.shape)}")
    t = t.to(x.device, torch.float64).reshape(*batch, *[1] * (x.ndim - 1 - len(batch)), D)
    return torch.cat([(x[..., :D].double() + t).to(x.dtype), x[..., D:]], -1)


def permute(x: Tensor, order: Int[Tensor, "N"], token_axis: int) -> Tensor:
    """The tokens of x in another order."""
    if not -x.ndim <= token_axis < x.ndim or x.shape[token_axis] != len(order):
        raise ValueError(f"cannot reorder axis {token_axis} of {tuple(x.shape)} by {len(order)} indices")
    return x.index_select(token_axis % x.ndim, order.to(x.device))


def _require_real(x: Tensor) -> None:
    """Whole numbers would be cut off to whole numbers again."""
    if not x.is_floating_point():
        raise ValueError(f"what turns and moves must be floating-point numbers, got {x.dtype}")
