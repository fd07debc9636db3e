"""VN-Invariant with the small VN-MLP that makes its frame, V · (W₂ VN-ReLU(V))ᵀ, in one pass forward and one backward.

The twin is `vnt.functional.invariant` of V and the frame. A compiler makes some ten passes of it over tensors whose
innermost axis is 3 long.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from vnt.kernels.feedforward import rectified, rectified_backward, weight_gradient
from vnt.kernels.launch import Settings, launch
from vnt.kernels.tiles import coordinates, matrix, put_coordinates


@triton.jit
def _hidden(x0, x1, x2, w, half: tl.constexpr, C: tl.constexpr, HIDDEN: tl.constexpr):
    """q and k of the VN-ReLU."""
    n0, n1, n2 = x0.to(half), x1.to(half), x2.to(half)
    wq, wk = tl.trans(matrix(w, 0, HIDDEN, C, C)), tl.trans(matrix(w, HIDDEN * C, HIDDEN, C, C))
    return tl.dot(n0, wq), tl.dot(n1, wq), tl.dot(n2, wq), tl.dot(n0, wk), tl.dot(n1, wk), tl.dot(n2, wk)


@triton.jit
def _vector(h0, h1, h2, w2, d: tl.constexpr, HIDDEN: tl.constexpr):
    """The three coordinates of the d-th vector of the frame, (block, 1) each, and its row of W₂."""
    row = tl.load(w2 + d * HIDDEN + tl.arange(0, HIDDEN)).to(tl.float32)[None, :]
    f0, f1, f2 = tl.sum(h0 * row, 1), tl.sum(h1 * row, 1), tl.sum(h2 * row, 1)
    return f0[:, None], f1[:, None], f2[:, None], row


@triton.jit
def _invariant_forward(
    x, w, w2, out, T, beta, eps, C: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out^(d,c) = Σ_s x_s^(c) f_s^(d)."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    inside = t < T
    at = t[:, None] * (3 * C) + tl.arange(0, C)[None, :]
    x0, x1, x2 = coordinates(x, t, inside, C)
    q0, q1, q2, k0, k1, k2 = _hidden(x0, x1, x2, w, w.dtype.element_ty, C, HIDDEN)
    h0, h1, h2 = rectified(q0, q1, q2, k0, k1, k2, beta, eps)
    for d in tl.static_range(3):
        f0, f1, f2, _ = _vector(h0, h1, h2, w2, d, HIDDEN)
        tl.store(out + at + d * C, (x0 * f0 + x1 * f1 + x2 * f2).to(out.dtype.element_ty), inside[:, None])


@triton.jit
def _along(g, at, inside, x0, x1, x2, h0, h1, h2, w2, dx0, dx1, dx2, dh0, dh1, dh2, df, t, d: tl.constexpr,
           C: tl.constexpr, HIDDEN: tl.constexpr):  # fmt: skip
    """What the products with the d-th vector of the frame add to the gradients of V and of the hidden channels."""
    f0, f1, f2, row = _vector(h0, h1, h2, w2, d, HIDDEN)
    gd = tl.load(g + at + d * C, inside[:, None], 0.0).to(tl.float32)
    df0, df1, df2 = tl.sum(gd * x0, 1), tl.sum(gd * x1, 1), tl.sum(gd * x2, 1)
    kind = df.dtype.element_ty
    tl.store(df + t * 24 + d, df0.to(kind), inside)
    tl.store(df + t * 24 + 8 + d, df1.to(kind), inside)
    tl.store(df + t * 24 + 16 + d, df2.to(kind), inside)
    df0, df1, df2 = df0[:, None], df1[:, None], df2[:, None]
    return dx0 + gd * f0, dx1 + gd * f1, dx2 + gd * f2, dh0 + df0 * row, dh1 + df1 * row, dh2 + df2 * row


@triton.jit
def _invariant_backward(
    x, w, w2, g, dx, half_x, hidden, df, dqk, T, beta, eps, C: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """dx, and in half precision what the gradients of the weights are products of."""
    half = w.dtype.element_ty
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    inside = t < T
    at = t[:, None] * (3 * C) + tl.arange(0, C)[None, :]
    x0, x1, x2 = coordinates(x, t, inside, C)
    put_coordinates(half_x, x0, x1, x2, t, inside, 0, C, C)
    q0, q1, q2, k0, k1, k2 = _hidden(x0, x1, x2, w, half, C, HIDDEN)
    h0, h1, h2 = rectified(q0, q1, q2, k0, k1, k2, beta, eps)
    put_coordinates(hidden, h0, h1, h2, t, inside, 0, HIDDEN, HIDDEN)
    dx0, dx1, dx2 = tl.zeros_like(x0), tl.zeros_like(x0), tl.zeros_like(x0)
    dh0, dh1, dh2 = tl.zeros_like(h0), tl.zeros_like(h0), tl.zeros_like(h0)
    dx0, dx1, dx2, dh0, dh1, dh2 = _along(
        g, at, inside, x0, x1, x2, h0, h1, h2, w2, dx0, dx1, dx2, dh0, dh1, dh2, df, t, 0, C, HIDDEN
    )
    dx0, dx1, dx2, dh0, dh1, dh2 = _along(
        g, at, inside, x0, x1, x2, h0, h1, h2, w2, dx0, dx1, dx2, dh0, dh1, dh2, df, t, 1, C, HIDDEN
    )
    dx0, dx1, dx2, dh0, dh1, dh2 = _along(
        g, at, inside, x0, x1, x2, h0, h1, h2, w2, dx0, dx1, dx2, dh0, dh1, dh2, df, t, 2, C, HIDDEN
    )
    dq0, dq1, dq2, dk0, dk1, dk2 = rectified_backward(q0, q1, q2, k0, k1, k2, dh0, dh1, dh2, beta, eps)
    dq0, dq1, dq2 = dq0.to(half), dq1.to(half), dq2.to(half)
    dk0, dk1, dk2 = dk0.to(half), dk1.to(half), dk2.to(half)
    put_coordinates(dqk, dq0, dq1, dq2, t, inside, 0, 2 * HIDDEN, HIDDEN)
    put_coordinates(dqk, dk0, dk1, dk2, t, inside, HIDDEN, 2 * HIDDEN, HIDDEN)
    wq, wk = matrix(w, 0, HIDDEN, C, C), matrix(w, HIDDEN * C, HIDDEN, C, C)
    dx0 = tl.dot(dk0, wk, tl.dot(dq0, wq, dx0))
    dx1 = tl.dot(dk1, wk, tl.dot(dq1, wq, dx1))
    dx2 = tl.dot(dk2, wk, tl.dot(dq2, wq, dx2))
    put_coordinates(dx, dx0, dx1, dx2, t, inside, 0, C, C)


FORWARD: Settings = {"BLOCK": 32, "num_warps": 2, "num_stages": 1}
BACKWARD: Settings = {"BLOCK": 16, "num_warps": 2, "num_stages": 1}


def invariant(x: Tensor, w: Tensor, w2: Tensor, negative_slope: float, eps: float) -> Tensor:
    """(..., 3, C), w (2·hidden, C) with features above directions, w2 (3, hidden) -> (..., 3, C), by frame vectors."""
    C, out = x.shape[-1], torch.empty_like(x, dtype=w.dtype)
    T = x.numel() // (3 * C)
    launch(
        _invariant_forward,
        (triton.cdiv(T, FORWARD["BLOCK"]),),
        x,
        w,
        w2,
        out,
        T,
        negative_slope - 1,
        eps,
        C,
        w2.shape[-1],
        **FORWARD,
    )
    return out


def invariant_backward(
    grad: Tensor, x: Tensor, w: Tensor, w2: Tensor, negative_slope: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, w and w2."""
    C, hidden, T = x.shape[-1], w2.shape[-1], x.numel() // (3 * x.shape[-1])
    dx = torch.empty_like(x)
    half_x, h, dqk = (w.new_empty(*x.shape[:-1], width) for width in (C, hidden, 2 * hidden))
    df = w.new_zeros(*x.shape[:-1], 8)  # of the frame, in rows that are long enough for a matrix product
    launch(
        _invariant_backward,
        (triton.cdiv(T, BACKWARD["BLOCK"]),),
        x,
        w,
        w2,
        grad,
        dx,
        half_x,
        h,
        df,
        dqk,
        T,
        negative_slope - 1,
        eps,
        C,
        hidden,
        **BACKWARD,
    )
    return dx, weight_gradient(dqk, half_x), weight_gradient(df, h)[:3]
