"""The two matrix products around attention: norm and projection into heads before it, projection and residual behind.

Each reads and writes its activations once. The backward kernels also sum up the gradients of the weights, one partial
sum for each program, so that the order of summation is always the same.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from vnt.kernels.launch import Settings, launch
from vnt.kernels.tiles import matrix, norm_backward, programs, put_matrix, tokens


@triton.jit
def _in_heads(t, C: tl.constexpr, P: tl.constexpr):
    """Where channel c of a token's first coordinate lies in (H, 3, P); the others follow P and 2P later."""
    c = tl.arange(0, C)
    return t[:, None] * (3 * C) + ((c // P) * (3 * P) + c % P)[None, :]


@triton.jit
def _project(x, w, qkv, T, eps, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    inside = t < T
    x0, x1, x2, r = tokens(x, t, inside, eps, C)
    half = qkv.dtype.element_ty
    n0, n1, n2 = (x0 * r[:, None]).to(half), (x1 * r[:, None]).to(half), (x2 * r[:, None]).to(half)
    for j in tl.static_range(3):
        wt = tl.trans(matrix(w, j * C * C, C, C, C))
        part = qkv + _in_heads(t + j * T, C, P)
        tl.store(part, tl.dot(n0, wt).to(half), inside[:, None])
        tl.store(part + P, tl.dot(n1, wt).to(half), inside[:, None])
        tl.store(part + 2 * P, tl.dot(n2, wt).to(half), inside[:, None])


@triton.jit
def _project_one(g, at, inside, w, n0, n1, n2, d0, d1, d2, dw, P: tl.constexpr):
    """What one of query, key and value adds to the gradients of the normed token and of its own weight."""
    g0 = tl.load(g + at, inside[:, None], 0.0)
    g1 = tl.load(g + at + P, inside[:, None], 0.0)
    g2 = tl.load(g + at + 2 * P, inside[:, None], 0.0)
    d0, d1, d2 = tl.dot(g0, w, d0), tl.dot(g1, w, d1), tl.dot(g2, w, d2)
    dw = tl.dot(tl.trans(g0), n0, dw)
    dw = tl.dot(tl.trans(g1), n1, dw)
    return d0, d1, d2, tl.dot(tl.trans(g2), n2, dw)


@triton.jit
def _project_backward(
    x, w, dq, dk, dv, grad, dx, dw, T, eps, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    half = w.dtype.element_ty
    wq, wk, wv = matrix(w, 0, C, C, C), matrix(w, C * C, C, C, C), matrix(w, 2 * C * C, C, C, C)
    dwq, dwk, dwv = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(T, BLOCK), tl.num_programs(0)):
        t = block * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
        inside = t < T
        x0, x1, x2, r = tokens(x, t, inside, eps, C)
        n0, n1, n2 = (x0 * r[:, None]).to(half), (x1 * r[:, None]).to(half), (x2 * r[:, None]).to(half)
        at = _in_heads(t, C, P)
        d0 = tl.zeros((BLOCK, C), tl.float32)
        d1, d2 = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
        d0, d1, d2, dwq = _project_one(dq, at, inside, wq, n0, n1, n2, d0, d1, d2, dwq, P)
        d0, d1, d2, dwk = _project_one(dk, at, inside, wk, n0, n1, n2, d0, d1, d2, dwk, P)
        d0, d1, d2, dwv = _project_one(dv, at, inside, wv, n0, n1, n2, d0, d1, d2, dwv, P)
        norm_backward(x, dx, r, d0, d1, d2, grad, t, inside, C)
    first = tl.program_id(0) * 3 * C * C
    put_matrix(dw, dwq, first, C, C, C)
    put_matrix(dw, dwk, first + C * C, C, C, C)
    put_matrix(dw, dwv, first + 2 * C * C, C, C, C)


@triton.jit
def _merge(x, a, w, out, T, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    """out = x + w a, with a in heads."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    inside = t < T
    wt = tl.trans(matrix(w, 0, C, C, C))
    at, heads = t[:, None] * (3 * C) + tl.arange(0, C)[None, :], _in_heads(t, C, P)
    for s in tl.static_range(3):
        y = tl.load(x + at + s * C, inside[:, None], 0.0).to(tl.float32)
        y = tl.dot(tl.load(a + heads + s * P, inside[:, None], 0.0), wt, y)
        tl.store(out + at + s * C, y.to(out.dtype.element_ty), inside[:, None])


@triton.jit
def _merge_backward(grad, a, w, da, dw, T, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    half = w.dtype.element_ty
    whole = matrix(w, 0, C, C, C)
    sums = tl.zeros((C, C), tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(T, BLOCK), tl.num_programs(0)):
        t = block * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
        inside = t < T
        at, heads = t[:, None] * (3 * C) + tl.arange(0, C)[None, :], _in_heads(t, C, P)
        for s in tl.static_range(3):
            g = tl.load(grad + at + s * C, inside[:, None], 0.0).to(half)
            tl.store(da + heads + s * P, tl.dot(g, whole).to(half), inside[:, None])
            sums = tl.dot(tl.trans(g), tl.load(a + heads + s * P, inside[:, None], 0.0), sums)
    put_matrix(dw, sums, tl.program_id(0) * C * C, C, C, C)


PROJECT: Settings = {"BLOCK": 64, "num_warps": 4, "num_stages": 1}
PROJECT_BACKWARD: Settings = {"BLOCK": 32, "num_warps": 4, "num_stages": 2}
MERGE: Settings = {"BLOCK": 32, "num_warps": 4, "num_stages": 1}
MERGE_BACKWARD: Settings = {"BLOCK": 64, "num_warps": 4, "num_stages": 2}


def project(x: Tensor, w: Tensor, num_heads: int, eps: float) -> Tensor:
    """(..., 3, C), w (3C, C) -> q, k and v, (3, ..., H, E)."""
    C = x.shape[-1]
    T = x.numel() // (3 * C)
    qkv = x.new_empty(3, *x.shape[:-2], num_heads, 3 * C // num_heads, dtype=w.dtype)
    launch(_project, (triton.cdiv(T, PROJECT["BLOCK"]),), x, w, qkv, T, eps, C, C // num_heads, **PROJECT)
    return qkv


def project_backward(
    x: Tensor, w: Tensor, dqkv: tuple[Tensor, Tensor, Tensor], grad: Tensor, num_heads: int, eps: float
) -> tuple[Tensor, Tensor]:
    """The gradients of x, with ``grad`` of the residual connection added, and of w."""
    C = x.shape[-1]
    count = programs(x, PROJECT_BACKWARD["BLOCK"])
    dx, dw = torch.empty_like(x), x.new_empty(count, 3 * C, C, dtype=torch.float32)
    launch(
        _project_backward,
        (count,),
        x,
        w,
        *dqkv,
        grad,
        dx,
        dw,
        x.numel() // (3 * C),
        eps,
        C,
        C // num_heads,
        **PROJECT_BACKWARD,
    )
    return dx, dw.sum(0)


def merge(x: Tensor, a: Tensor, w: Tensor) -> Tensor:
    """x + w a: (..., 3, C), a (..., H, E) -> (..., 3, C)."""
    C, out = x.shape[-1], torch.empty_like(x)
    T = x.numel() // (3 * C)
    launch(_merge, (triton.cdiv(T, MERGE["BLOCK"]),), x, a, w, out, T, C, C // a.shape[-2], **MERGE)
    return out


def merge_backward(grad: Tensor, a: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of a and of w."""
    C = grad.shape[-1]
    count = programs(grad, MERGE_BACKWARD["BLOCK"], waves=4)
    da, dw = torch.empty_like(a), grad.new_empty(count, C, C, dtype=torch.float32)
    launch(
        _merge_backward, (count,), grad, a, w, da, dw, grad.numel() // (3 * C), C, C // a.shape[-2], **MERGE_BACKWARD
    )
    return da, dw.sum(0)
