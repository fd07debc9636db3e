"""VN-ReLU's rectifier in one pass over q and k, forward and backward.

The twin is `vnt.functional.activation.rectify`. A compiler reads each vector three times, once for each coordinate that
it writes; here a program holds whole vectors.
"""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from vnt.kernels.launch import launch

BLOCK_T, BLOCK_C = 16, 128


@triton.jit
def _forward(qk, out, T, C, beta, eps, S: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """out = q + β min(⟨q, k⟩, 0)/(|k|² + eps) k, with q and k side by side in rows of 2C."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)).to(tl.int64)[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (t < T) & (c < C)
    along = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    square = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for s in tl.static_range(S):
        at = (t * S + s) * 2 * C + c
        q = tl.load(qk + at, inside, 0.0).to(tl.float32)
        k = tl.load(qk + at + C, inside, 0.0).to(tl.float32)
        along += q * k
        square += k * k
    factor = beta * tl.minimum(along, 0.0) / (square + eps)
    for s in tl.static_range(S):
        at = (t * S + s) * 2 * C + c
        q = tl.load(qk + at, inside, 0.0).to(tl.float32)
        k = tl.load(qk + at + C, inside, 0.0).to(tl.float32)
        tl.store(out + (t * S + s) * C + c, q + factor * k, inside)


@triton.jit
def _backward(grad, qk, dqk, T, C, beta, eps, S: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """With m = min(⟨q, k⟩, 0), d = |k|² + eps, w = m/d: dm = β⟨g, k⟩/d where ⟨q, k⟩ ≤ 0, and d's own share."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)).to(tl.int64)[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (t < T) & (c < C)
    along = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    square = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    pulled = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for s in tl.static_range(S):
        at = (t * S + s) * 2 * C + c
        q = tl.load(qk + at, inside, 0.0).to(tl.float32)
        k = tl.load(qk + at + C, inside, 0.0).to(tl.float32)
        g = tl.load(grad + (t * S + s) * C + c, inside, 0.0).to(tl.float32)
        along += q * k
        square += k * k
        pulled += g * k
    d = square + eps
    w = tl.minimum(along, 0.0) / d
    dm = tl.where(along <= 0, beta * pulled / d, 0.0)
    dd = -2 * beta * pulled * w / d
    for s in tl.static_range(S):
        at = (t * S + s) * 2 * C + c
        q = tl.load(qk + at, inside, 0.0).to(tl.float32)
        k = tl.load(qk + at + C, inside, 0.0).to(tl.float32)
        g = tl.load(grad + (t * S + s) * C + c, inside, 0.0).to(tl.float32)
        tl.store(dqk + at, g + dm * k, inside)
        tl.store(dqk + at + C, beta * w * g + dm * q + dd * k, inside)


@torch.library.custom_op("vnt::rectify", mutates_args=())
def rectify(qk: Tensor, negative_slope: float, eps: float) -> Tensor:
    """(..., S, 2C) with features q and directions k side by side -> (..., S, C)."""
    qk = qk.contiguous()
    S, C = qk.shape[-2], qk.shape[-1] // 2
    out = qk.new_empty(*qk.shape[:-1], C)
    T = out.numel() // (S * C)
    grid = (triton.cdiv(T, BLOCK_T), triton.cdiv(C, BLOCK_C))
    launch(_forward, grid, qk, out, T, C, negative_slope - 1, eps, S, BLOCK_T, BLOCK_C)
    return out


@torch.library.custom_op("vnt::rectify_backward", mutates_args=())
def rectify_backward(grad: Tensor, qk: Tensor, negative_slope: float, eps: float) -> Tensor:
    """The gradient with respect to q and k, side by side."""
    grad, qk = grad.contiguous(), qk.contiguous()
    S, C = qk.shape[-2], qk.shape[-1] // 2
    T = grad.numel() // (S * C)
    dqk = torch.empty_like(qk)
    grid = (triton.cdiv(T, BLOCK_T), triton.cdiv(C, BLOCK_C))
    launch(_backward, grid, grad, qk, dqk, T, C, negative_slope - 1, eps, S, BLOCK_T, BLOCK_C)
    return dqk


@rectify.register_fake
def _(qk: Float[Tensor, "*tokens S CC"], negative_slope: float, eps: float) -> Tensor:
    return qk.new_empty(*qk.shape[:-1], qk.shape[-1] // 2)


@rectify_backward.register_fake
def _(grad: Tensor, qk: Tensor, negative_slope: float, eps: float) -> Tensor:
    return torch.empty_like(qk, memory_format=torch.contiguous_format)


def _remember(ctx, inputs, output) -> None:
    qk, ctx.negative_slope, ctx.eps = inputs
    ctx.save_for_backward(qk)


def _gradient(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
    return rectify_backward(grad, *ctx.saved_tensors, ctx.negative_slope, ctx.eps), None, None


rectify.register_autograd(_gradient, setup_context=_remember)
