"""VN-LayerNorm (section 4.3, eq. f_LayerNorm), VN-BatchNorm (Deng et al. 2021) and VN-RMSNorm (ours).

The first two split a vector into direction and length, normalise the lengths, and put them together again. That is
the paper's way, and it is ill-conditioned: a vector of length 1e-4 comes out as long as any other, and its rounding
error with it. VN-RMSNorm divides all channels of a token by one number, so short vectors stay short.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.geometry.masking import blank, masked_mean
from vnt.kernels import half_precision
from vnt.precision import at_least_float32


def lengths(V: Float[Tensor, "*tokens C S"], eps: float) -> Float[Tensor, "*tokens C"]:
    """√(|V^(c)|² + eps) of each channel, in float32 or better; eps > 0 keeps the gradient finite at zero."""
    return (at_least_float32(V).square().sum(-1) + eps).sqrt()


def layer_norm(
    V: Float[Tensor, "*tokens C S"], gain: Float[Tensor, "C"], shift: Float[Tensor, "C"], *, eps: float = 1e-12
) -> Float[Tensor, "*tokens C S"]:
    """VN-LayerNorm: V^(c) / |V^(c)| · LayerNorm(|V^(1)|, ..., |V^(C)|)^(c)."""
    length = lengths(V, eps)
    normal = F.layer_norm(length, length.shape[-1:], gain.to(length.dtype), shift.to(length.dtype), eps)
    return (V * (normal / length)[..., None]).to(V.dtype)


def batch_statistics(
    V: Float[Tensor, "*tokens C S"],
    mask: Bool[Tensor, "*tokens"] | None = None,
    *,
    eps: float = 1e-12,
    total: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "C"], Float[Tensor, "C"], Tensor]:
    """Mean and (biased) variance of each channel's length over all tokens that exist, and how many those are.

    ``total`` sums a tensor over all processes, where a batch is spread over several.
    """
    return moments(lengths(V, eps), mask, total=total)


def moments(
    x: Float[Tensor, "*tokens C"],
    mask: Bool[Tensor, "*tokens"] | Float[Tensor, "*tokens"] | None = None,
    *,
    total: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "C"], Float[Tensor, "C"], Tensor]:
    """Mean and (biased) variance of each channel over all tokens that exist, and how many those are.

    Instead of a mask there may be weights: tokens that fade out then take part in the statistics as much as they exist.
    """
    x = x.reshape(-1, x.shape[-1])
    kept, weight = None if mask is None else mask.flatten(), None
    if kept is not None and kept.dtype != torch.bool:
        kept, weight = kept > 0, at_least_float32(kept)
    count = torch.tensor(x.shape[0], device=x.device) if kept is None else (kept if weight is None else weight).sum()
    if total is None and weight is None:
        mean = masked_mean(x, kept, 0)
        return mean, masked_mean((x - mean).square(), kept, 0), count
    total = total or (lambda sums: sums)
    count = total(count)

    def mean_of(values: Tensor) -> Tensor:
        values = blank(values, kept) if weight is None else blank(values, kept) * weight[:, None]
        return total(values.sum(0)) / count.clamp(min=1)

    mean = mean_of(x)
    return mean, mean_of((x - mean).square()), count


def batch_norm(
    V: Float[Tensor, "*tokens C S"],
    mean: Float[Tensor, "C"],
    variance: Float[Tensor, "C"],
    gain: Float[Tensor, "C"],
    shift: Float[Tensor, "C"],
    *,
    eps: float = 1e-12,
) -> Float[Tensor, "*tokens C S"]:
    """VN-BatchNorm: V^(c) / |V^(c)| · BatchNorm(|V^(c)|), given the statistics of the lengths."""
    length = lengths(V, eps)
    normal = (length - mean) * torch.rsqrt(variance + eps) * gain + shift
    return (V * (normal / length)[..., None]).to(V.dtype)


def rms_norm(
    V: Float[Tensor, "*tokens C S"], gain: Float[Tensor, "C"], *, eps: float = 1e-6
) -> Float[Tensor, "*tokens C S"]:
    """VN-RMSNorm: gain^(c) · V^(c) / √(mean over channels of |V^(c)|² + eps).

    Where products with it are taken in half precision, on a CUDA device, a kernel does it.
    """
    if half_precision(V) is not None:
        return torch.ops.vnt.rms_norm(V.mT, gain, eps).mT
    V = V.mT  # as it lies in memory: a compiler would lay the result out in the order it reads
    mean_square = at_least_float32(V).square().sum((-2, -1), keepdim=True) / V.shape[-1]
    return (V * (torch.rsqrt(mean_square + eps) * gain)).to(V.dtype).mT
