"""The kernels as operators that autograd and the compiler know: an encoder block's two sub-layers, and VN-Invariant.

Tokens are (..., 3, C), float32 or half; products are taken in ``dtype``, half precision, and summed in float32. Weights
come in float32, with the gain of the norm before them multiplied in, and their gradients are float32.
"""

import torch
from torch import Tensor

from vnt.kernels import attention as small_heads
from vnt.kernels import feedforward as hidden
from vnt.kernels import invariant as frame
from vnt.kernels import projection
from vnt.kernels import rms_norm as norm

LARGEST_SMALL_HEAD = 32
"""Numbers in a head up to which our attention is faster than cuDNN's."""


def _by_cudnn(x: Tensor, E: int, starts: Tensor | None) -> bool:
    """cuDNN's attention sums dq in any order, knows no packed items and takes rows of whole 16 bytes."""
    there = x.is_cuda and torch.version.hip is None and torch.backends.cuda.cudnn_sdp_enabled()
    exact = torch.are_deterministic_algorithms_enabled()
    return there and E > LARGEST_SMALL_HEAD and E % 8 == 0 and x.shape[1] > 1 and starts is None and not exact


def _full(*weights: Tensor) -> list[Tensor]:
    """Room for gradients, which are float32 whatever the weights are."""
    return [torch.empty_like(w, dtype=torch.float32) for w in weights]


@torch.library.custom_op("vnt::residual_attention", mutates_args=())
def residual_attention(
    x: Tensor,
    w: Tensor,
    w_out: Tensor,
    num_heads: int,
    eps: float,
    dtype: torch.dtype,
    starts: Tensor | None,
    longest: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x + w_out Attn(w x̂): (B, N, 3, C), or (tokens, 3, C) with ``starts``; w (3C, C). Then what backward needs."""
    x = x.contiguous()
    qkv = projection.project(x, w.to(dtype), num_heads, eps)
    if _by_cudnn(x, qkv.shape[-1], starts):
        q, k, v = (part.transpose(1, 2) for part in qkv)
        a, lse = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True)[:2]
        a = a.transpose(1, 2).contiguous()
    else:
        a, lse = small_heads.attend(qkv[0], qkv[1], qkv[2], starts, longest)
    return projection.merge(x, a, w_out.to(dtype)), qkv, a, lse


@torch.library.custom_op("vnt::residual_attention_backward", mutates_args=())
def residual_attention_backward(
    grad: Tensor,
    x: Tensor,
    w: Tensor,
    w_out: Tensor,
    qkv: Tensor,
    a: Tensor,
    lse: Tensor,
    eps: float,
    starts: Tensor | None,
    longest: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, w and w_out."""
    x, grad, num_heads = x.contiguous(), grad.contiguous(), qkv.shape[-2]
    da, dw_out = projection.merge_backward(grad, a, w_out.to(a.dtype))
    if lse.ndim == 4:  # cuDNN's
        q, k, v, da, a = (part.transpose(1, 2) for part in (*qkv, da, a))
        seed = torch.zeros((), dtype=torch.int64, device=x.device)
        d = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            da, q, k, v, a, lse, seed, seed, None, None, None, q.shape[2], q.shape[2], 0.0, False
        )
        dqkv = tuple(part.transpose(1, 2).contiguous() for part in d)
    else:
        dqkv = small_heads.attend_backward(da, qkv[0], qkv[1], qkv[2], a, lse, starts, longest)
    dx, dw = projection.project_backward(x, w.to(a.dtype), dqkv, grad, num_heads, eps)
    return dx, dw, dw_out


@residual_attention.register_fake
def _(x, w, w_out, num_heads, eps, dtype, starts, longest):
    C = x.shape[-1]
    tokens = x.shape[:-2]
    a = x.new_empty(*tokens, num_heads, 3 * C // num_heads, dtype=dtype)
    by_cudnn = _by_cudnn(x, a.shape[-1], starts)
    lse_shape = (tokens[0], num_heads, tokens[1], 1) if by_cudnn else (num_heads, tokens.numel())
    lse = x.new_empty(lse_shape, dtype=torch.float32)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    return out, x.new_empty(3, *a.shape, dtype=dtype), a, lse


@residual_attention_backward.register_fake
def _(grad, x, w, w_out, qkv, a, lse, eps, starts, longest):
    return torch.empty_like(x, memory_format=torch.contiguous_format), *_full(w, w_out)


def _remember_attention(ctx, inputs, output) -> None:
    x, w, w_out, _, ctx.eps, _, starts, ctx.longest = inputs
    _, qkv, a, lse = output
    ctx.save_for_backward(x, w, w_out, qkv, a, lse, *([] if starts is None else [starts]))
    ctx.mark_non_differentiable(qkv, a, lse)
    ctx.set_materialize_grads(False)


def _attention_gradients(ctx, grad: Tensor, *_: None):
    *saved, starts = (*ctx.saved_tensors, None)[:7]
    d = residual_attention_backward(grad, *saved, ctx.eps, starts, ctx.longest)
    return *d, None, None, None, None, None


residual_attention.register_autograd(_attention_gradients, setup_context=_remember_attention)


@torch.library.custom_op("vnt::residual_mlp", mutates_args=())
def residual_mlp(
    x: Tensor, w: Tensor, w2: Tensor, negative_slope: float, relu_eps: float, norm_eps: float, dtype: torch.dtype
) -> Tensor:
    """x + w2 rectify(w x̂): (..., 3, C), w (2·hidden, C) with features above directions, w2 (C, hidden)."""
    return hidden.feedforward(x.contiguous(), w.to(dtype), w2.to(dtype), negative_slope, relu_eps, norm_eps)


@torch.library.custom_op("vnt::residual_mlp_backward", mutates_args=())
def residual_mlp_backward(
    grad: Tensor,
    x: Tensor,
    w: Tensor,
    w2: Tensor,
    negative_slope: float,
    relu_eps: float,
    norm_eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, w and w2."""
    given = (grad.contiguous(), x.contiguous(), w.to(dtype), w2.to(dtype), negative_slope, relu_eps, norm_eps)
    return hidden.feedforward_backward(*given)


@torch.library.custom_op("vnt::invariant", mutates_args=())
def invariant(
    x: Tensor, w: Tensor, w2: Tensor, negative_slope: float, eps: float, dtype: torch.dtype
) -> Tensor:  # fmt: skip
    """x's coordinates in the frame w2 rectify(w x): (..., 3, C) -> (..., 3, C), by frame vectors."""
    return frame.invariant(x.contiguous(), w.to(dtype), w2.to(dtype), negative_slope, eps)


@torch.library.custom_op("vnt::invariant_backward", mutates_args=())
def invariant_backward(
    grad: Tensor, x: Tensor, w: Tensor, w2: Tensor, negative_slope: float, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, w and w2."""
    return frame.invariant_backward(grad, x.contiguous(), w.to(dtype), w2.to(dtype), negative_slope, eps)


@residual_mlp.register_fake
def _(x, *_):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@invariant.register_fake
def _(x, w, w2, negative_slope, eps, dtype):
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


@residual_mlp_backward.register_fake
@invariant_backward.register_fake
def _(grad, x, w, w2, *_):
    return torch.empty_like(x, memory_format=torch.contiguous_format), *_full(w, w2)


def _remember(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.settings = inputs[3:]


def _mlp_gradients(ctx, grad: Tensor):
    return *residual_mlp_backward(grad, *ctx.saved_tensors, *ctx.settings), None, None, None, None


def _invariant_gradients(ctx, grad: Tensor):
    return *invariant_backward(grad.contiguous(), *ctx.saved_tensors, *ctx.settings), None, None, None


residual_mlp.register_autograd(_mlp_gradients, setup_context=_remember)
invariant.register_autograd(_invariant_gradients, setup_context=_remember)


@torch.library.custom_op("vnt::rms_norm", mutates_args=())
def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """(..., 3, C) -> (..., 3, C)."""
    return norm.rms_norm(x.contiguous(), gain, eps)


@torch.library.custom_op("vnt::rms_norm_backward", mutates_args=())
def rms_norm_backward(grad: Tensor, x: Tensor, gain: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The gradients of x and of the gain."""
    return norm.rms_norm_backward(grad.contiguous(), x.contiguous(), gain, eps)


@rms_norm.register_fake
def _(x, gain, eps):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@rms_norm_backward.register_fake
def _(grad, x, gain, eps):
    return torch.empty_like(x, memory_format=torch.contiguous_format), *_full(gain)


def _remember_norm(ctx, inputs, output) -> None:
    x, gain, ctx.eps = inputs
    ctx.save_for_backward(x, gain)


def _norm_gradients(ctx, grad: Tensor):
    return *rms_norm_backward(grad, *ctx.saved_tensors, ctx.eps), None


rms_norm.register_autograd(_norm_gradients, setup_context=_remember_norm)
