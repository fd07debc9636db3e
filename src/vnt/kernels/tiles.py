"""What the kernels of sub-layers read and write: blocks of tokens, coordinate by coordinate, and whole matrices."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def coordinates(x, t, inside, C: tl.constexpr):
    """The three coordinates of a block of tokens (..., 3, C), (block, C) each, in float32."""
    at = t[:, None] * (3 * C) + tl.arange(0, C)[None, :]
    x0 = tl.load(x + at, inside[:, None], 0.0).to(tl.float32)
    x1 = tl.load(x + at + C, inside[:, None], 0.0).to(tl.float32)
    return x0, x1, tl.load(x + at + 2 * C, inside[:, None], 0.0).to(tl.float32)


@triton.jit
def put_coordinates(x, v0, v1, v2, t, inside, first, stride: tl.constexpr, COLUMNS: tl.constexpr):
    """The other way round, from column ``first`` of rows of ``stride`` numbers on."""
    at = t[:, None] * (3 * stride) + first + tl.arange(0, COLUMNS)[None, :]
    kind = x.dtype.element_ty
    tl.store(x + at, v0.to(kind), inside[:, None])
    tl.store(x + at + stride, v1.to(kind), inside[:, None])
    tl.store(x + at + 2 * stride, v2.to(kind), inside[:, None])


@triton.jit
def tokens(x, t, inside, eps, C: tl.constexpr):
    """A block of tokens, and 1/√(mean squared length + eps) of each."""
    x0, x1, x2 = coordinates(x, t, inside, C)
    return x0, x1, x2, tl.rsqrt(tl.sum(x0 * x0 + x1 * x1 + x2 * x2, 1) / C + eps)


@triton.jit
def norm_backward(x, dx, r, d0, d1, d2, grad, t, inside, C: tl.constexpr):
    """dx = r d − x r³ ⟨d, x⟩ / C + grad: from the gradient d of x r, and that of the residual connection.

    x is read once more, rather than held in registers all the while, and grad one coordinate at a time.
    """
    at = t[:, None] * (3 * C) + tl.arange(0, C)[None, :]
    x0, x1, x2 = coordinates(x, t, inside, C)
    back = (tl.sum(d0 * x0 + d1 * x1 + d2 * x2, 1) * r * r * r / C)[:, None]
    r = r[:, None]
    kind = dx.dtype.element_ty
    g0 = tl.load(grad + at, inside[:, None], 0.0).to(tl.float32)
    tl.store(dx + at, (r * d0 - back * x0 + g0).to(kind), inside[:, None])
    g1 = tl.load(grad + at + C, inside[:, None], 0.0).to(tl.float32)
    tl.store(dx + at + C, (r * d1 - back * x1 + g1).to(kind), inside[:, None])
    g2 = tl.load(grad + at + 2 * C, inside[:, None], 0.0).to(tl.float32)
    tl.store(dx + at + 2 * C, (r * d2 - back * x2 + g2).to(kind), inside[:, None])


@triton.jit
def matrix(w, first, rows: tl.constexpr, columns: tl.constexpr, stride: tl.constexpr):
    """(rows, columns) numbers of a matrix with ``stride`` numbers to a row, from number ``first`` on."""
    return tl.load(w + first + tl.arange(0, rows)[:, None] * stride + tl.arange(0, columns)[None, :])


@triton.jit
def put_matrix(w, value, first, rows: tl.constexpr, columns: tl.constexpr, stride: tl.constexpr):
    """The other way round."""
    tl.store(w + first + tl.arange(0, rows)[:, None] * stride + tl.arange(0, columns)[None, :], value)


def programs(x: Tensor, tokens_each: int, *, waves: int = 2) -> int:
    """How many programs share the tokens of x where each keeps sums of its own."""
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 2
    return max(1, min(waves * processors, triton.cdiv(x.numel() // (3 * x.shape[-1]), tokens_each)))
