"""A cloud too large to hold as tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vnt.layers.edge import VNEdgeConv
from vnt.layers.normalization import VNBatchNorm

T = TypeVar("T")


@dataclass(frozen=True)
class Chunks:
    """A cloud in chunks of points, whose tokens are made when they are wanted and never kept.

    Where gradients are wanted, each chunk is made once more in the backward pass: whatever the size of the cloud, no
    more than one chunk's tokens are held at once. What makes them must look at each point by itself (`mixes_points`).

    Args:
        makers: for each chunk a function that makes its tokens (..., n, C, S).
        size: points in a chunk; the last may have fewer.
        axis: the number of leading axes, and so the axis of points in any tensor that has one.

    >>> x = torch.randn(2, 100, 4, 3)
    >>> chunks = Chunks([lambda part=part: 2 * part for part in x.split(30, 1)], size=30, axis=1)
    >>> len(chunks.map(lambda V: V.sum(1)))
    4
    """

    makers: Sequence[Callable[[], Tensor]]
    size: int
    axis: int

    def through(self, layer: nn.Module, *others: Tensor) -> "Chunks":
        """The same cloud behind a layer, which takes each chunk's tokens as they are made, and others as they are."""
        if mixes_points(layer):
            raise ValueError(f"{layer} needs all points at once, and got a cloud in chunks of {self.size}")
        return Chunks([lambda make=make: layer(make(), *others) for make in self.makers], self.size, self.axis)

    def map(self, function: Callable[..., T], *others: Tensor | None) -> list[T]:
        """``function(tokens, *parts)`` of each chunk, with its part of other tensors that have an axis of points."""

        def run(make: Callable[[], Tensor], *parts: Tensor | None) -> T:
            return function(make(), *parts)

        rows = zip(self.makers, *(self._split(x) for x in others), strict=True)
        if not torch.is_grad_enabled():
            return [run(*row) for row in rows]
        # Nothing here is random, and autocast is restored.
        return [checkpoint(run, *row, use_reentrant=False, preserve_rng_state=False) for row in rows]

    def whole(self) -> Tensor:
        """All tokens at once."""
        return torch.cat(self.map(lambda V: V), self.axis)

    def _split(self, x: Tensor | None) -> Sequence[Tensor | None]:
        return [None] * len(self.makers) if x is None else x.split(self.size, self.axis)


def mixes_points(layer: nn.Module) -> bool:
    """Whether a token that the layer makes depends on other points: on neighbours, or on statistics of a batch."""
    return any(
        (isinstance(part, VNEdgeConv) and part.num_neighbors > 0) or (isinstance(part, VNBatchNorm) and part.training)
        for part in layer.modules()
    )
