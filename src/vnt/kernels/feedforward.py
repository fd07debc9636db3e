"""A whole feed-forward sub-layer, V + W₂ VN-ReLU(VN-RMSNorm(V)), in one pass over V; backward too, but for the weights.

The twin is the composition of `rms_norm`, `relu` and `linear` in `vnt.functional`. The hidden channels, q, k and what
the rectifier makes of them, live in registers, a few of them at a time, and are computed again in the backward pass.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from vnt.kernels.launch import Settings, launch
from vnt.kernels.tiles import coordinates, matrix, norm_backward, put_coordinates, tokens


@triton.jit
def rectified(q0, q1, q2, k0, k1, k2, beta, eps):
    """q + β min(⟨q, k⟩, 0)/(|k|² + eps) k."""
    factor = beta * tl.minimum(q0 * k0 + q1 * k1 + q2 * k2, 0.0) / (k0 * k0 + k1 * k1 + k2 * k2 + eps)
    return q0 + factor * k0, q1 + factor * k1, q2 + factor * k2


@triton.jit
def rectified_backward(q0, q1, q2, k0, k1, k2, g0, g1, g2, beta, eps):
    """The gradients of q and k, as in `vnt.kernels.rectify`."""
    along = q0 * k0 + q1 * k1 + q2 * k2
    inverse = 1 / (k0 * k0 + k1 * k1 + k2 * k2 + eps)
    pulled = beta * (g0 * k0 + g1 * k1 + g2 * k2) * inverse
    w = tl.minimum(along, 0.0) * inverse
    dm = tl.where(along <= 0, pulled, 0.0)
    dd = -2 * pulled * w
    bw = beta * w
    return (
        g0 + dm * k0, g1 + dm * k1, g2 + dm * k2,
        bw * g0 + dm * q0 + dd * k0, bw * g1 + dm * q1 + dd * k1, bw * g2 + dm * q2 + dd * k2,
    )  # fmt: skip


@triton.jit
def _mlp_forward(
    x, w, w2, out, T, beta, relu_eps, norm_eps,
    C: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    half = w.dtype.element_ty
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    inside = t < T
    y0, y1, y2, r = tokens(x, t, inside, norm_eps, C)
    n0, n1, n2 = (y0 * r[:, None]).to(half), (y1 * r[:, None]).to(half), (y2 * r[:, None]).to(half)
    for h in range(0, HIDDEN, BLOCK_H):
        wq, wk = tl.trans(matrix(w, h * C, BLOCK_H, C, C)), tl.trans(matrix(w, (HIDDEN + h) * C, BLOCK_H, C, C))
        h0, h1, h2 = rectified(
            tl.dot(n0, wq), tl.dot(n1, wq), tl.dot(n2, wq), tl.dot(n0, wk), tl.dot(n1, wk), tl.dot(n2, wk),
            beta, relu_eps,
        )  # fmt: skip
        wo = tl.trans(matrix(w2, h, C, BLOCK_H, HIDDEN))
        y0, y1, y2 = tl.dot(h0.to(half), wo, y0), tl.dot(h1.to(half), wo, y1), tl.dot(h2.to(half), wo, y2)
    put_coordinates(out, y0, y1, y2, t, inside, 0, C, C)


@triton.jit
def _mlp_backward(
    x, w, w2, grad, dx, unit, half_grad, hidden, dqk, T, beta, relu_eps, norm_eps,
    C: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """dx, and in half precision what the gradients of the weights are products of."""
    half = w.dtype.element_ty
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    inside = t < T
    x0, x1, x2, r = tokens(x, t, inside, norm_eps, C)
    n0, n1, n2 = (x0 * r[:, None]).to(half), (x1 * r[:, None]).to(half), (x2 * r[:, None]).to(half)
    put_coordinates(unit, n0, n1, n2, t, inside, 0, C, C)
    g0, g1, g2 = coordinates(grad, t, inside, C)
    g0, g1, g2 = g0.to(half), g1.to(half), g2.to(half)
    if half_grad is not None:  # the gradient is not in half precision already
        put_coordinates(half_grad, g0, g1, g2, t, inside, 0, C, C)
    d0 = tl.zeros((BLOCK, C), tl.float32)
    d1, d2 = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
    for h in range(0, HIDDEN, BLOCK_H):
        wq, wk = matrix(w, h * C, BLOCK_H, C, C), matrix(w, (HIDDEN + h) * C, BLOCK_H, C, C)
        wq_t, wk_t, wo = tl.trans(wq), tl.trans(wk), matrix(w2, h, C, BLOCK_H, HIDDEN)
        q0, q1, q2 = tl.dot(n0, wq_t), tl.dot(n1, wq_t), tl.dot(n2, wq_t)
        k0, k1, k2 = tl.dot(n0, wk_t), tl.dot(n1, wk_t), tl.dot(n2, wk_t)
        h0, h1, h2 = rectified(q0, q1, q2, k0, k1, k2, beta, relu_eps)
        put_coordinates(hidden, h0, h1, h2, t, inside, h, HIDDEN, BLOCK_H)
        dq0, dq1, dq2, dk0, dk1, dk2 = rectified_backward(
            q0, q1, q2, k0, k1, k2, tl.dot(g0, wo), tl.dot(g1, wo), tl.dot(g2, wo), beta, relu_eps
        )
        dq0, dq1, dq2 = dq0.to(half), dq1.to(half), dq2.to(half)
        dk0, dk1, dk2 = dk0.to(half), dk1.to(half), dk2.to(half)
        put_coordinates(dqk, dq0, dq1, dq2, t, inside, h, 2 * HIDDEN, BLOCK_H)
        put_coordinates(dqk, dk0, dk1, dk2, t, inside, HIDDEN + h, 2 * HIDDEN, BLOCK_H)
        d0 = tl.dot(dk0, wk, tl.dot(dq0, wq, d0))
        d1 = tl.dot(dk1, wk, tl.dot(dq1, wq, d1))
        d2 = tl.dot(dk2, wk, tl.dot(dq2, wq, d2))
    norm_backward(x, dx, r, d0, d1, d2, grad, t, inside, C)


FORWARD: Settings = {"BLOCK": 64, "BLOCK_H": 32, "num_warps": 4, "num_stages": 3}
BACKWARD: Settings = {"BLOCK": 16, "BLOCK_H": 32, "num_warps": 4, "num_stages": 3}


def feedforward(x: Tensor, w: Tensor, w2: Tensor, negative_slope: float, relu_eps: float, norm_eps: float) -> Tensor:
    """x + w2 rectify(w x̂): (..., 3, C), w (2·hidden, C) with features above directions, w2 (C, hidden)."""
    C, hidden, out = x.shape[-1], w2.shape[-1], torch.empty_like(x)
    T = x.numel() // (3 * C)
    launch(
        _mlp_forward,
        (triton.cdiv(T, FORWARD["BLOCK"]),),
        x,
        w,
        w2,
        out,
        T,
        negative_slope - 1,
        relu_eps,
        norm_eps,
        C,
        hidden,
        **FORWARD,
    )
    return out


def feedforward_backward(
    grad: Tensor, x: Tensor, w: Tensor, w2: Tensor, negative_slope: float, relu_eps: float, norm_eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, w and w2."""
    C, hidden, tokens_ = x.shape[-1], w2.shape[-1], x.shape[:-1]
    T, dx = x.numel() // (3 * C), torch.empty_like(x)
    unit, h, dqk = (w.new_empty(*tokens_, width) for width in (C, hidden, 2 * hidden))
    half_grad = None if grad.dtype == w.dtype else torch.empty_like(unit)
    launch(
        _mlp_backward,
        (triton.cdiv(T, BACKWARD["BLOCK"]),),
        x,
        w,
        w2,
        grad,
        dx,
        unit,
        half_grad,
        h,
        dqk,
        T,
        negative_slope - 1,
        relu_eps,
        norm_eps,
        C,
        hidden,
        **BACKWARD,
    )
    return dx, weight_gradient(dqk, unit), weight_gradient(grad if half_grad is None else half_grad, h)


def weight_gradient(d: Tensor, x: Tensor) -> Tensor:
    """Σ d xᵀ over all rows, in float32: one ordinary matrix product."""
    d, x = d.flatten(0, -2).T, x.flatten(0, -2)
    return torch.mm(d, x, out_dtype=torch.float32) if d.is_cuda else torch.mm(d, x)
