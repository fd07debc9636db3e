"""VN-MeanProject and attention over a cloud in chunks of points (section 6): each chunk's part, and how parts add up.

Both are sums over points, so a cloud need never be held whole. For attention let L = log Σₙ exp(scoreₙ) over the points
of a chunk. Softmax over all points is softmax inside each chunk, times the softmax of the L over chunks: exact, stable
at any size of scores, and with gradients that are exact too.

Points are many and queries few, so it is the queries that are projected: ⟨q, W^K V⟩ = ⟨W^Kᵀ q, V⟩ (`fold_keys`), and
W^Z comes behind the sum, Σₙ Aₙ W^Z V^(n) = W^Z Σₙ Aₙ V^(n) (`pick_heads`). Tokens are read as they are.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from vnt.geometry.masking import blank
from vnt.precision import at_least_float32, full_precision

BLOCK = 1024
"""Points in one matrix product: a GPU does many of them side by side, but a single long one on few of its cores."""


class TokenSum(NamedTuple):
    """Σₙ V^(n) over the tokens of a chunk that exist, in float32 or better, and how many those are."""

    total: Float[Tensor, "*batch C S"]
    count: Int[Tensor, "*batch"]


def token_sum(V: Float[Tensor, "*batch n C S"], mask: Bool[Tensor, "*batch n"] | None = None) -> TokenSum:
    """What a chunk contributes to the mean of all tokens."""
    if mask is None:
        count = torch.full(V.shape[:-3], V.shape[-3], device=V.device)
    else:
        count = mask.sum(-1)
    return TokenSum(blank(V, mask).sum(-3, dtype=torch.promote_types(V.dtype, torch.float32)), count)


def merge_sums(parts: Sequence[TokenSum]) -> Float[Tensor, "*batch C S"]:
    """The mean of all tokens: `mean_pool`."""
    total, count = (torch.stack(x).sum(0) for x in zip(*parts, strict=True))
    return total / count.clamp(min=1)[..., None, None]


class ChunkAttention(NamedTuple):
    """VN-Attn to the points of one chunk alone, and L, the logarithm of the chunk's weight."""

    value: Float[Tensor, "*batch M D S"]
    log_weight: Float[Tensor, "*batch M"]


def attend_to_chunk(
    Q: Float[Tensor, "*batch M C S"],
    K: Float[Tensor, "*batch n C S"],
    Z: Float[Tensor, "*batch n D S_out"],
    mask: Bool[Tensor, "*batch n"] | None = None,
    offset: Float[Tensor, "*batch M"] | None = None,
) -> ChunkAttention:
    """What a chunk contributes to the attention with scores ⟨Q^(m), K^(n)⟩_F + offset^(m).

    Scores and all sums are in float32 or better; autocast rounds the factors of Σₙ Aₙ Z^(n), as fused attention does.
    Values may be scalars, Z of S_out = 1: those it does not round. A chunk without any point has a weight of zero
    beside one that has.
    """
    n = K.shape[-3]
    size = min(BLOCK, n)
    if mask is None and n % size > 0:
        mask = torch.ones(K.shape[:-2], dtype=torch.bool, device=K.device)
    q, k = _rows(Q), _blocks(_rows(K), size, -2)
    z = k if Z is K else _blocks(_rows(Z), size, -2)
    with full_precision(q):
        scores = q[..., None, :, :] @ k.mT  # (..., blocks, M, points of a block)
        if offset is not None:
            scores = scores + offset[..., None, :, None]
        if mask is not None:
            absent = ~_blocks(mask, size, -1)[..., None, :]
            scores = scores.masked_fill(absent, torch.finfo(scores.dtype).min)
        largest = scores.detach().amax((-3, -1))  # cancels, and so does its gradient
        largest = largest + 0.5 * math.log(BLOCK)  # neither weights, at most 1/32, nor their sums leave float16
        weight = (scores - largest[..., None, :, None]).exp_()
        total = weight.sum((-3, -1))
    with full_precision(q) if Z.shape[-1] == 1 else nullcontext():
        if weight.dtype != z.dtype and torch.float64 in (weight.dtype, z.dtype):  # what autocast does not make alike
            weight, z = weight.double(), z.double()
        value = at_least_float32(weight @ z).sum(-3) / total[..., None]
    return ChunkAttention(value.unflatten(-1, (Z.shape[-1], -1)).mT, largest + total.log())


def merge_attention(parts: Sequence[ChunkAttention]) -> Float[Tensor, "*batch M D S"]:
    """Attention to all points: the chunks' results, each by the share that its points have of the whole weight."""
    value, log_weight = (torch.stack(x) for x in zip(*parts, strict=True))
    return (log_weight.softmax(0)[..., None, None] * value).sum(0)


def fold_keys(
    q: Float[Tensor, "*batch M HP S"],
    W: Float[Tensor, "HP C"],
    num_heads: int,
    bias: Float[Tensor, "HP S"] | None = None,
) -> tuple[Float[Tensor, "*batch HM C S"], Float[Tensor, "*batch HM"] | None]:
    """Queries for tokens V that stand for the keys W V + bias, one for each head and query, and the scores' offset.

    ⟨q_h, W_h V + b_h⟩ = ⟨W_hᵀ q_h, V⟩ + ⟨q_h, b_h⟩; both are divided by √(S·P), as the scores of each head are.
    """
    with full_precision(q):
        q = at_least_float32(q).unflatten(-2, (num_heads, -1))
        q = q * (q.shape[-1] * q.shape[-2]) ** -0.5
        W_h = W.to(q.dtype).unflatten(0, (num_heads, -1))
        Q = torch.einsum("...mhps,hpc->...hmcs", q, W_h).flatten(-4, -3)
        if bias is None:
            return Q, None
        b_h = bias.to(q.dtype).unflatten(0, (num_heads, -1))
        return Q, torch.einsum("...mhps,hps->...hm", q, b_h).flatten(-2)


def pick_heads(Z: Float[Tensor, "*batch HM HP S"], num_heads: int) -> Float[Tensor, "*batch M HP S"]:
    """From what each head's attention is under all of W^Z, the head's own P channels, side by side."""
    Z = Z.unflatten(-2, (num_heads, -1)).unflatten(-4, (num_heads, -1))  # (..., H, M, H, P, S)
    return Z.diagonal(0, -5, -3).movedim(-1, -3).flatten(-3, -2)


def _rows(V: Float[Tensor, "*tokens C S"]) -> Float[Tensor, "*tokens SC"]:
    """A token as one row of numbers, in the order that it has in memory."""
    return at_least_float32(V).mT.flatten(-2)


def _blocks(x: Shaped[Tensor, "..."], size: int, axis: int) -> Shaped[Tensor, "..."]:
    """The axis of points split in two, blocks and points of a block, with zeros to fill the last."""
    if padding := -x.shape[axis] % size:
        x = F.pad(x, (0, 0) * (-1 - axis) + (0, padding))
    return x.unflatten(axis, (-1, size))
