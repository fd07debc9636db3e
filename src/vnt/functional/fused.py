"""Compositions that `vnt.kernels` knows as single operators: the sub-layers of a pre-norm block, and VN-Invariant.

Where its kernels cannot be used these are plain compositions of the other functions here, and the kernels' twins.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vnt.functional.activation import relu
from vnt.functional.attention import multihead_attention
from vnt.functional.invariant import invariant
from vnt.functional.linear import channels_innermost, linear
from vnt.functional.normalization import rms_norm
from vnt.geometry.packing import Packing
from vnt.kernels import half_precision

LARGEST_HEAD = 32
"""Channels of a head at the most."""
BLOCK = 32
"""Hidden channels come in blocks of so many."""


def residual_attention(
    V: Float[Tensor, "*batch N C S"],
    gain: Float[Tensor, "C"],
    W_Q: Float[Tensor, "C C"],
    W_K: Float[Tensor, "C C"],
    W_Z: Float[Tensor, "C C"],
    W_O: Float[Tensor, "C C"],
    num_heads: int,
    packing: Packing | None = None,
    *,
    norm_eps: float,
) -> Float[Tensor, "*batch N C S"]:
    """V + VN-MultiHeadAttn(V̂, V̂, V̂) with V̂ = VN-RMSNorm(V)."""
    dtype = half_precision(V)
    if dtype is None or V.shape[-2] > LARGEST_HEAD * num_heads:
        unit = rms_norm(V, gain, eps=norm_eps)
        heads = multihead_attention(linear(unit, W_Q), linear(unit, W_K), linear(unit, W_Z), num_heads, packing)
        return V + linear(heads, W_O)
    W = torch.cat([W_Q, W_K, W_Z]) * gain
    if packing is None:
        x, starts, longest = V.mT.reshape(-1, *V.mT.shape[-3:]), None, 0
    else:
        packing.require_packed(V)
        x, starts, longest = V.mT, packing.starts, max(packing.lengths)
    out = torch.ops.vnt.residual_attention(x, W, W_O, num_heads, norm_eps, dtype, starts, longest)[0]
    return out.view(V.mT.shape).mT


def residual_mlp(
    V: Float[Tensor, "*tokens C S"],
    gain: Float[Tensor, "C"],
    W: Float[Tensor, "hidden C"],
    U: Float[Tensor, "hidden C"],
    W_2: Float[Tensor, "C hidden"],
    *,
    negative_slope: float,
    relu_eps: float,
    norm_eps: float,
) -> Float[Tensor, "*tokens C S"]:
    """V + W_2 VN-ReLU(V̂; W, U) with V̂ = VN-RMSNorm(V)."""
    dtype = half_precision(V)
    if dtype is None or U.shape != W.shape or len(W) % BLOCK > 0:
        hidden = relu(rms_norm(V, gain, eps=norm_eps), W, U, negative_slope=negative_slope, eps=relu_eps)
        return V + linear(hidden, W_2)
    W = torch.cat([W, U]) * gain
    return torch.ops.vnt.residual_mlp(V.mT, W, W_2, negative_slope, relu_eps, norm_eps, dtype).mT


def framed_invariant(
    V: Float[Tensor, "*tokens C S"],
    W: Float[Tensor, "hidden C"],
    U: Float[Tensor, "hidden C"],
    W_2: Float[Tensor, "S hidden"],
    *,
    negative_slope: float,
    relu_eps: float,
) -> Float[Tensor, "*tokens C S"]:
    """V Tᵀ with the frame T = W_2 VN-ReLU(V; W, U)."""
    dtype = half_precision(V)
    if dtype is None or U.shape != W.shape or len(W) != V.shape[-2]:
        frame = linear(relu(channels_innermost(V), W, U, negative_slope=negative_slope, eps=relu_eps), W_2)
        return invariant(V, frame)
    return torch.ops.vnt.invariant(V.mT, torch.cat([W, U]), W_2, negative_slope, relu_eps, dtype).mT
