"""Frobenius inner product (Definition 3), VN-Attn (eq. f_attn) and VN-MultiHeadAttn (eq. f_MHA), section 4.

A token is a matrix, but its Frobenius inner product with another is the ordinary inner product of the two written out
as rows of C·S numbers. So VN attention *is* scaled dot-product attention on flattened tokens, and runs on its kernels.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.geometry.packing import Packing
from vnt.precision import at_least_float32, full_precision

SHORT = 32
"""Tokens of an item up to which attention to all items at once, padding and all, is faster than to one at a time."""


def frobenius_inner_product(A: Float[Tensor, "*batch C S"], B: Float[Tensor, "*batch C S"]) -> Float[Tensor, "*batch"]:
    """⟨A, B⟩_F = Σ_c Σ_s A^(c,s) B^(c,s): invariant when both are turned by the same rotation (Proposition 1)."""
    return (at_least_float32(A) * at_least_float32(B)).sum((-2, -1))


def attention_weights(
    Q: Float[Tensor, "*batch M C S"], K: Float[Tensor, "*batch N C S"], mask: Bool[Tensor, "*batch N"] | None = None
) -> Float[Tensor, "*batch M N"]:
    """A(Q, K)^(m) = softmax over n of ⟨Q^(m), K^(n)⟩_F / √(S·C) (eq. cross_attn): for looking at, not for speed."""
    q, k = (at_least_float32(x).flatten(-2) for x in (Q, K))
    with full_precision(q):
        scores = q @ k.mT * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[..., None, :], float("-inf"))
    return scores.softmax(-1)


def attention(
    Q: Float[Tensor, "*batch M C S"],
    K: Float[Tensor, "*batch N C S"],
    Z: Float[Tensor, "*batch N D S"],
    mask: Bool[Tensor, "*batch N"] | None = None,
) -> Float[Tensor, "*batch M D S"]:
    """VN-Attn(Q, K, Z)^(m) = Σₙ A(Q, K)^(m,n) Z^(n); equivariant when Q, K and Z turn together (Proposition 2).

    The scale is 1/√(S·C), the paper's 1/√(3C) for any S; ``mask`` (..., N) is True where a key exists.
    """
    return multihead_attention(Q, K, Z, 1, mask)


def read_scalars(
    Q: Float[Tensor, "*batch M C S"],
    K: Float[Tensor, "*batch N C S"],
    scalars: Float[Tensor, "*batch N F"],
    mask: Bool[Tensor, "*batch N"] | None = None,
) -> Float[Tensor, "*batch M F"]:
    """Σₙ A(Q, K)^(m,n) s^(n): VN-Attn whose values are scalars, and so invariant (ours)."""
    weights = attention_weights(Q, K, mask)
    with full_precision(weights):  # autocast would round the scalars
        return (weights @ scalars.to(weights.dtype)).to(scalars.dtype)


def multihead_attention(
    Q: Float[Tensor, "*batch M C S"],
    K: Float[Tensor, "*batch N C S"],
    Z: Float[Tensor, "*batch N D S"],
    num_heads: int,
    mask: Bool[Tensor, "*batch N"] | Packing | None = None,
) -> Float[Tensor, "*batch M D S"]:
    """VN-Attn on each of H groups of channels of projected Q, K, Z, side by side: the bracket of eq. f_MHA.

    With a `Packing` the tokens of all items lie in one row, (tokens, C, S), and each attends to those of its own item.
    """
    if isinstance(mask, Packing):
        return _packed_attention(Q, K, Z, num_heads, mask)
    _require_alike(Q, K, Z)
    q, k, z = (_split_heads(x, num_heads) for x in (Q, K, Z))
    out = _scaled_dot_product_attention(q, k, z, mask)  # (..., H, M, S·P)
    out = out.unflatten(-1, (Z.shape[-1], -1)).movedim(-4, -2)  # (..., M, S, H, P)
    return out.flatten(-2).mT


def _require_alike(Q: Tensor, K: Tensor, Z: Tensor) -> None:
    """Every key has a value, and all three are of the same items: kernels would read on past the end."""
    if K.shape[:-2] != Z.shape[:-2] or Q.shape[:-3] != K.shape[:-3]:
        shapes = ", ".join(str(tuple(x.shape)) for x in (Q, K, Z))
        raise ValueError(f"attention expects Q (..., M, C, S), K (..., N, C, S) and Z (..., N, D, S), got {shapes}")


def _packed_attention(
    Q: Float[Tensor, "T C S"], K: Float[Tensor, "T C S"], Z: Float[Tensor, "T D S"], num_heads: int, packing: Packing
) -> Float[Tensor, "T D S"]:
    """Item by item on a CPU; under a mask where items are short, and on a GPU, which would wait for so many starts."""
    packing.require_packed(Q)
    if not Q.is_cuda and max(packing.lengths, default=0) > SHORT:
        items = zip(*(x.split(packing.lengths) for x in (Q, K, Z)), strict=True)
        return torch.cat([multihead_attention(q, k, z, num_heads) for q, k, z in items if len(q) > 0])
    mask = packing.unpack(torch.ones_like(packing.index, dtype=torch.bool))
    q, k, z = (packing.unpack(x) for x in (Q, K, Z))
    return packing.pack(multihead_attention(q, k, z, num_heads, mask))


def _split_heads(V: Float[Tensor, "*batch N C S"], num_heads: int) -> Float[Tensor, "*batch H N SP"]:
    """(..., N, H·P, S) -> (..., H, N, S·P)."""
    return V.mT.unflatten(-1, (num_heads, -1)).movedim(-2, -4).flatten(-2)


def _scaled_dot_product_attention(
    q: Float[Tensor, "*batch H M E"],
    k: Float[Tensor, "*batch H N E"],
    z: Float[Tensor, "*batch H N F"],
    mask: Bool[Tensor, "*batch N"] | None,
) -> Float[Tensor, "*batch H M F"]:
    """SDPA with any number of leading axes: its fused kernels take exactly one."""
    batch = q.shape[:-3]
    q, k, z = (x.reshape(-1, *x.shape[-3:]) for x in (q, k, z))
    if mask is not None:
        mask = mask.reshape(-1, 1, 1, mask.shape[-1])
    return F.scaled_dot_product_attention(q, k, z, attn_mask=mask).reshape(*batch, *q.shape[-3:-1], z.shape[-1])
