"""VN-ReLU (appendix C.4, after Deng et al. 2021)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vnt.functional.linear import channels_innermost, linear
from vnt.kernels import usable
from vnt.precision import at_least_float32


def relu(
    V: Float[Tensor, "*tokens C S"],
    W: Float[Tensor, "C_out C"],
    U: Float[Tensor, "C_dir C"],
    *,
    negative_slope: float = 0.0,
    eps: float = 1e-12,
) -> Float[Tensor, "*tokens C_out S"]:
    """VN-ReLU(V; W, U): features q = W V, directions k = U V, and the part of q that points against k taken away.

    U has as many rows as W, or one: a direction that all channels share. On CUDA devices a kernel rectifies
    (`vnt.kernels`), from one product that gives q and k side by side.
    """
    if U.shape == W.shape and usable(V):
        qk = F.linear(channels_innermost(V).mT, torch.cat([W, U]))
        return torch.ops.vnt.rectify(qk, negative_slope, eps).mT
    return rectify(linear(V, W), linear(V, U), negative_slope=negative_slope, eps=eps)


def rectify(
    q: Float[Tensor, "*tokens C S"], k: Float[Tensor, "*tokens D S"], *, negative_slope: float, eps: float
) -> Float[Tensor, "*tokens C S"]:
    """q where ⟨q, k⟩ ≥ 0, and its projection onto the plane normal to k otherwise.

    q^(c) − (1 − negative_slope) · min(⟨q, k⟩, 0) / (|k|² + eps) · k^(c); slope 0 and eps 0 are the paper's formula.
    Written for transposed tokens, as they lie in memory: a compiler would lay the result out in the order it reads.
    """
    dtype = q.dtype
    q, k = at_least_float32(q).mT, at_least_float32(k).mT
    along = (q * k).sum(-2, keepdim=True).clamp(max=0) / (k.square().sum(-2, keepdim=True) + eps)
    return torch.addcmul(q, along, k, value=negative_slope - 1).to(dtype).mT
