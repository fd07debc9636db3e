"""The ordinary networks behind the invariants: on each point before the pool, and on what the pool leaves."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.layers import VNBatchNorm
from vnt.precision import at_least_float32
from vnt.processes import are_several, sum_over_processes

HeadNorm = Literal["layer", "batch"]


class MaskedBatchNorm(VNBatchNorm):
    r"""Batch norm of scalars, over the tokens that exist: `torch.nn.BatchNorm1d`, but for padding.

    $$x^{(c)} \leftarrow g^{(c)} \frac{x^{(c)} - \mu^{(c)}}{\sqrt{\sigma^{2 (c)} + \text{eps}}} + b^{(c)}$$

    Args:
        channels: C.
        momentum: weight of the newest batch in the running statistics that evaluation uses.
        eps: guards the variance.

    Shape:
        (..., C) -> (..., C), with ``mask`` (...) True where a token exists.

    Differences from the paper: not in the paper. A batch of a single token is normalised to zero, where torch refuses.

    >>> MaskedBatchNorm(8)(torch.randn(4, 100, 8)).shape
    torch.Size([4, 100, 8])
    """

    def __init__(self, channels: int, *, momentum: float = 0.1, eps: float = 1e-5):
        super().__init__(channels, momentum=momentum, eps=eps)

    def forward(
        self, V: Float[Tensor, "*tokens C"], mask: Bool[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens C"]:
        x = at_least_float32(V)
        if self.training:
            total = sum_over_processes if are_several() else None
            mean, variance, count = functional.moments(x, mask, total=total)
            self._track(mean.detach(), variance.detach(), count)
        else:
            mean, variance = self.running_mean, self.running_var
        return ((x - mean) * (torch.rsqrt(variance + self.eps) * self.gain) + self.shift).to(V.dtype)


class Perceptron(nn.Sequential):
    """Layers one after another; those that take statistics over tokens leave padding out."""

    def forward(  # type: ignore[bad-override]
        self, x: Float[Tensor, "*tokens F"], mask: Bool[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens G"]:
        for layer in self:
            x = layer(x, mask) if isinstance(layer, MaskedBatchNorm) else layer(x)
        return x


def make_point_mlp(width: int, channels: int, norm: HeadNorm = "layer") -> Perceptron:
    """An MLP on the invariant features of each point."""
    return Perceptron(nn.Linear(width, channels), _norm(channels, norm), nn.GELU(), nn.Linear(channels, channels))


def make_head(width: int, channels: int, num_classes: int, dropout: float, norm: HeadNorm = "layer") -> Perceptron:
    """From pooled features to logits."""
    return Perceptron(
        nn.Linear(width, channels),
        _norm(channels, norm),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(channels, num_classes),
    )


def _norm(channels: int, norm: HeadNorm) -> nn.Module:
    return MaskedBatchNorm(channels) if norm == "batch" else nn.LayerNorm(channels)
