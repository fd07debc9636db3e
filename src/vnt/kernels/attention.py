"""Scaled dot-product attention for small heads, forward and backward, over whole batches or packed ones.

The twin is `torch.nn.functional.scaled_dot_product_attention`, whose own kernels begin at heads of 32 numbers and work
on the next power of two; here a head is one block of 16 numbers or more, or two blocks (48 is 32 + 16). Rows are
tokens, (tokens, H, E), so that heads need no copy. Item b has the rows starts[b] to starts[b + 1].
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from vnt.kernels.launch import Settings, launch

LOG2_E = 1.4426950408889634


@triton.jit
def _rows(x, rows, inside, stride, FIRST: tl.constexpr, E: tl.constexpr, BLOCK: tl.constexpr):
    """Numbers FIRST to FIRST + BLOCK of each row, zero beyond E."""
    e = FIRST + tl.arange(0, BLOCK)
    return tl.load(x + rows[:, None] * stride + e[None, :], inside[:, None] & (e < E)[None, :], 0.0)


@triton.jit
def _put(x, value, rows, inside, stride, FIRST: tl.constexpr, E: tl.constexpr, BLOCK: tl.constexpr):
    e = FIRST + tl.arange(0, BLOCK)
    tl.store(x + rows[:, None] * stride + e[None, :], value.to(x.dtype.element_ty), inside[:, None] & (e < E)[None, :])


@triton.jit
def _place(length, H, BLOCK: tl.constexpr):
    """Item, head and first row of this program; blocks of a head lie side by side, on the one axis without a limit."""
    blocks = tl.cdiv(length, BLOCK)
    head = tl.program_id(0) // blocks
    return head // H, head % H, (tl.program_id(0) % blocks) * BLOCK


@triton.jit
def _extent(starts, b, length, PACKED: tl.constexpr):
    """First row and number of rows of item b."""
    if PACKED:
        first = tl.load(starts + b).to(tl.int64)
        count = (tl.load(starts + b + 1) - first).to(tl.int32)
    else:
        first = b.to(tl.int64) * length
        count = length
    return first, count


@triton.jit
def _attend(
    q, k, v, out, lse, q_starts, k_starts, M, N, H, rows, scale,
    E: tl.constexpr, E0: tl.constexpr, E1: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    PACKED: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Online softmax: a block of queries against all keys. ``scale`` is in powers of two, and so is ``lse``."""
    b, h, begin = _place(M, H, BLOCK_M)
    first_q, m = _extent(q_starts, b, M, PACKED)
    first_k, n = _extent(k_starts, b, N, PACKED)
    if begin >= m:
        return
    stride = H * E
    q += first_q * stride + h * E
    k += first_k * stride + h * E
    v += first_k * stride + h * E
    row = begin + tl.arange(0, BLOCK_M)
    here = row < m
    q0 = _rows(q, row, here, stride, 0, E, E0)
    acc0 = tl.zeros((BLOCK_M, E0), tl.float32)
    if E1 > 0:
        q1 = _rows(q, row, here, stride, E0, E, E1)
        acc1 = tl.zeros((BLOCK_M, E1), tl.float32)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, n, BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        there = col < n
        k0 = _rows(k, col, there, stride, 0, E, E0)
        s = tl.dot(q0, tl.trans(k0))
        if E1 > 0:
            s = tl.dot(q1, tl.trans(_rows(k, col, there, stride, E0, E, E1)), s)
        if not EVEN:
            s = tl.where(there[None, :], s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(p, 1)
        top = higher
        p = p.to(q0.dtype)
        acc0 = tl.dot(p, _rows(v, col, there, stride, 0, E, E0), acc0 * shrink[:, None])
        if E1 > 0:
            acc1 = tl.dot(p, _rows(v, col, there, stride, E0, E, E1), acc1 * shrink[:, None])
    out += first_q * stride + h * E
    _put(out, acc0 / total[:, None], row, here, stride, 0, E, E0)
    if E1 > 0:
        _put(out, acc1 / total[:, None], row, here, stride, E0, E, E1)
    tl.store(lse + h * rows + first_q + row, top + tl.log2(total), here)


@triton.jit
def _attend_inner(grad, out, inner, rows, H, E: tl.constexpr, BLOCK: tl.constexpr, BLOCK_E: tl.constexpr):
    """⟨grad, out⟩ of each head and query; a program takes heads of neighbouring rows as they lie in memory."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    inside = place < rows * H
    g = _rows(grad, place, inside, E, 0, E, BLOCK_E).to(tl.float32)
    o = _rows(out, place, inside, E, 0, E, BLOCK_E).to(tl.float32)
    tl.store(inner + (place % H) * rows + place // H, tl.sum(g * o, 1), inside)


@triton.jit
def _attend_backward_queries(
    q, k, v, lse, inner, grad, dq, q_starts, k_starts, M, N, H, rows, scale, natural_scale,
    E: tl.constexpr, E0: tl.constexpr, E1: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    PACKED: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """dq of a block of queries: over all keys."""
    b, h, begin = _place(M, H, BLOCK_M)
    first_q, m = _extent(q_starts, b, M, PACKED)
    first_k, n = _extent(k_starts, b, N, PACKED)
    if begin >= m:
        return
    stride = H * E
    at_q, at_k = first_q * stride + h * E, first_k * stride + h * E
    row = begin + tl.arange(0, BLOCK_M)
    here = row < m
    top = tl.load(lse + h * rows + first_q + row, here, 0.0)[:, None]
    along = tl.load(inner + h * rows + first_q + row, here, 0.0)[:, None]
    q0, g0 = _rows(q + at_q, row, here, stride, 0, E, E0), _rows(grad + at_q, row, here, stride, 0, E, E0)
    dq0 = tl.zeros((BLOCK_M, E0), tl.float32)
    if E1 > 0:
        q1, g1 = _rows(q + at_q, row, here, stride, E0, E, E1), _rows(grad + at_q, row, here, stride, E0, E, E1)
        dq1 = tl.zeros((BLOCK_M, E1), tl.float32)
    for start in range(0, n, BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        there = col < n
        k0, v0 = _rows(k + at_k, col, there, stride, 0, E, E0), _rows(v + at_k, col, there, stride, 0, E, E0)
        s, dp = tl.dot(q0, tl.trans(k0)), tl.dot(g0, tl.trans(v0))
        if E1 > 0:
            k1, v1 = _rows(k + at_k, col, there, stride, E0, E, E1), _rows(v + at_k, col, there, stride, E0, E, E1)
            s, dp = tl.dot(q1, tl.trans(k1), s), tl.dot(g1, tl.trans(v1), dp)
        p = tl.exp2(s * scale - top)
        if not EVEN:
            p = tl.where(there[None, :], p, 0.0)
        ds = (p * (dp - along)).to(q0.dtype)
        dq0 = tl.dot(ds, k0, dq0)
        if E1 > 0:
            dq1 = tl.dot(ds, k1, dq1)
    _put(dq + at_q, dq0 * natural_scale, row, here, stride, 0, E, E0)
    if E1 > 0:
        _put(dq + at_q, dq1 * natural_scale, row, here, stride, E0, E, E1)


@triton.jit
def _attend_backward_keys(
    q, k, v, lse, inner, grad, dk, dv, q_starts, k_starts, M, N, H, rows, scale, natural_scale,
    E: tl.constexpr, E0: tl.constexpr, E1: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    PACKED: tl.constexpr,
):  # fmt: skip
    """dk and dv of a block of keys: over all queries. A query beyond the last has no gradient and adds nothing."""
    b, h, begin = _place(N, H, BLOCK_N)
    first_q, m = _extent(q_starts, b, M, PACKED)
    first_k, n = _extent(k_starts, b, N, PACKED)
    if begin >= n:
        return
    stride = H * E
    at_q, at_k = first_q * stride + h * E, first_k * stride + h * E
    lse += h * rows + first_q
    inner += h * rows + first_q
    col = begin + tl.arange(0, BLOCK_N)
    there = col < n
    k0, v0 = _rows(k + at_k, col, there, stride, 0, E, E0), _rows(v + at_k, col, there, stride, 0, E, E0)
    dk0, dv0 = tl.zeros((BLOCK_N, E0), tl.float32), tl.zeros((BLOCK_N, E0), tl.float32)
    if E1 > 0:
        k1, v1 = _rows(k + at_k, col, there, stride, E0, E, E1), _rows(v + at_k, col, there, stride, E0, E, E1)
        dk1, dv1 = tl.zeros((BLOCK_N, E1), tl.float32), tl.zeros((BLOCK_N, E1), tl.float32)
    for start in range(0, m, BLOCK_M):
        row = start + tl.arange(0, BLOCK_M)
        here = row < m
        q0, g0 = _rows(q + at_q, row, here, stride, 0, E, E0), _rows(grad + at_q, row, here, stride, 0, E, E0)
        s, dp = tl.dot(k0, tl.trans(q0)), tl.dot(v0, tl.trans(g0))  # (keys, queries)
        if E1 > 0:
            q1, g1 = _rows(q + at_q, row, here, stride, E0, E, E1), _rows(grad + at_q, row, here, stride, E0, E, E1)
            s, dp = tl.dot(k1, tl.trans(q1), s), tl.dot(v1, tl.trans(g1), dp)
        p = tl.exp2(s * scale - tl.load(lse + row, here, float("inf"))[None, :])
        ds = (p * (dp - tl.load(inner + row, here, 0.0)[None, :])).to(q0.dtype)
        p = p.to(q0.dtype)
        dv0, dk0 = tl.dot(p, g0, dv0), tl.dot(ds, q0, dk0)
        if E1 > 0:
            dv1, dk1 = tl.dot(p, g1, dv1), tl.dot(ds, q1, dk1)
    _put(dk + at_k, dk0 * natural_scale, col, there, stride, 0, E, E0)
    _put(dv + at_k, dv0, col, there, stride, 0, E, E0)
    if E1 > 0:
        _put(dk + at_k, dk1 * natural_scale, col, there, stride, E0, E, E1)
        _put(dv + at_k, dv1, col, there, stride, E0, E, E1)


def blocks(E: int) -> tuple[int, int]:
    """One or two powers of two, of at least 16, that hold E numbers."""
    first = 1 << (E.bit_length() - 1)
    if first == E or E <= 32:
        return max(16, triton.next_power_of_2(E)), 0
    return first, max(16, triton.next_power_of_2(E - first))


FORWARD: Settings = {"BLOCK_M": 128, "BLOCK_N": 32, "num_warps": 4, "num_stages": 3}
BACKWARD_QUERIES: Settings = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
BACKWARD_KEYS: Settings = {"BLOCK_M": 32, "BLOCK_N": 128, "num_warps": 4, "num_stages": 3}
BACKWARD_KEYS_OF_TWO_BLOCKS: Settings = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}


def attend(q: Tensor, k: Tensor, v: Tensor, starts: Tensor | None = None, longest: int = 0) -> tuple[Tensor, Tensor]:
    """(B, M, H, E), or (tokens, H, E) with ``starts``: the result, and log2 of the softmax's sums, (H, tokens)."""
    H, E = q.shape[-2:]
    items, M, N = _sizes(q, k, starts, longest)
    out = torch.empty_like(q)
    rows = q.numel() // (H * E)
    lse = q.new_empty(H, rows, dtype=torch.float32)
    packed = starts is not None
    even = not packed and N % FORWARD["BLOCK_N"] == 0
    grid, size = (triton.cdiv(M, FORWARD["BLOCK_M"]) * items * H,), (M, N, H, rows, E**-0.5 * LOG2_E, E, *blocks(E))
    launch(_attend, grid, q, k, v, out, lse, starts, starts, *size, PACKED=packed, EVEN=even, **FORWARD)
    return out, lse


def attend_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    starts: Tensor | None = None,
    longest: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    H, E = q.shape[-2:]
    items, M, N = _sizes(q, k, starts, longest)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    inner, rows = torch.empty_like(lse), lse.shape[-1]
    launch(_attend_inner, (triton.cdiv(rows * H, 128),), grad, out, inner, rows, H, E, 128, triton.next_power_of_2(E))
    given, size = (q, k, v, lse, inner, grad), (starts, starts, M, N, H, rows, E**-0.5 * LOG2_E, E**-0.5, E, *blocks(E))
    packed = starts is not None
    even = not packed and N % BACKWARD_QUERIES["BLOCK_N"] == 0
    launch(
        _attend_backward_queries,
        (triton.cdiv(M, BACKWARD_QUERIES["BLOCK_M"]) * items * H,),
        *given,
        dq,
        *size,
        PACKED=packed,
        EVEN=even,
        **BACKWARD_QUERIES,
    )
    settings = BACKWARD_KEYS if blocks(E)[1] == 0 else BACKWARD_KEYS_OF_TWO_BLOCKS
    launch(
        _attend_backward_keys,
        (triton.cdiv(N, settings["BLOCK_N"]) * items * H,),
        *given,
        dk,
        dv,
        *size,
        PACKED=packed,
        **settings,
    )
    return dq, dk, dv


def _sizes(q: Tensor, k: Tensor, starts: Tensor | None, longest: int) -> tuple[int, int, int]:
    """Items, and the most queries and keys that one has."""
    return (q.shape[0], q.shape[1], k.shape[1]) if starts is None else (len(starts) - 1, longest, longest)
