"""VN-RMSNorm in one pass forward and one backward; the twin is `vnt.functional.rms_norm`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from vnt.kernels.launch import Settings, launch
from vnt.kernels.tiles import coordinates, programs, put_coordinates, tokens


@triton.jit
def _rms_norm(x, gain, out, T, eps, C: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    inside = t < T
    x0, x1, x2, r = tokens(x, t, inside, eps, C)
    scale = r[:, None] * tl.load(gain + tl.arange(0, C))[None, :]
    put_coordinates(out, x0 * scale, x1 * scale, x2 * scale, t, inside, 0, C, C)


@triton.jit
def _rms_norm_backward(x, gain, grad, dx, dgain, T, eps, C: tl.constexpr, BLOCK: tl.constexpr):
    """With d = gain · grad: dx = r d − x r³ ⟨d, x⟩ / C; one partial sum of dgain for each program."""
    gains = tl.load(gain + tl.arange(0, C))[None, :]
    sums = tl.zeros((BLOCK, C), tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(T, BLOCK), tl.num_programs(0)):
        t = block * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
        inside = t < T
        x0, x1, x2, r = tokens(x, t, inside, eps, C)
        g0, g1, g2 = coordinates(grad, t, inside, C)
        along = g0 * x0 + g1 * x1 + g2 * x2
        back = (tl.sum(along * gains, 1) * r * r * r / C)[:, None]
        sums += along * r[:, None]
        scale = r[:, None] * gains
        d0, d1, d2 = scale * g0 - back * x0, scale * g1 - back * x1, scale * g2 - back * x2
        put_coordinates(dx, d0, d1, d2, t, inside, 0, C, C)
    tl.store(dgain + tl.program_id(0) * C + tl.arange(0, C), tl.sum(sums, 0))


FORWARD: Settings = {"BLOCK": 16, "num_warps": 4}
BACKWARD: Settings = {"BLOCK": 16, "num_warps": 4}


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """(..., 3, C) -> (..., 3, C)."""
    C, out = x.shape[-1], torch.empty_like(x)
    T = x.numel() // (3 * C)
    launch(_rms_norm, (triton.cdiv(T, FORWARD["BLOCK"]),), x, gain, out, T, eps, C, **FORWARD)
    return out


def rms_norm_backward(grad: Tensor, x: Tensor, gain: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The gradients of x and of the gain."""
    C, dx = x.shape[-1], torch.empty_like(x)
    count = programs(x, BACKWARD["BLOCK"], waves=8)
    dgain = gain.new_empty(count, C, dtype=torch.float32)
    launch(_rms_norm_backward, (count,), x, gain, grad, dx, dgain, x.numel() // (3 * C), eps, C, **BACKWARD)
    return dx, dgain.sum(0)
