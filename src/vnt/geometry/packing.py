"""Ragged batches without their padding: the tokens that exist, one behind the other."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from vnt.checks import has_values

_wanted: ContextVar[bool] = ContextVar("packing_wanted", default=True)


@contextmanager
def padded() -> Generator[None]:
    """Within it ragged batches keep their padding, so that the first axis of every tensor counts items."""
    token = _wanted.set(False)
    try:
        yield
    finally:
        _wanted.reset(token)


@dataclass(frozen=True)
class Packing:
    """Where the tokens of a padded batch lie once they are packed.

    Attributes:
        index: (tokens,), the place of each token in the flattened batch.
        starts: (items + 1,), where each item begins among the packed tokens, and where the last one ends.
        lengths: how many tokens each item has.
        shape: (..., N), of the padded batch.

    >>> mask = torch.tensor([[True, True, False], [True, False, False]])
    >>> packing = Packing.of(mask)
    >>> x = packing.pack(torch.arange(6.0).reshape(2, 3))
    >>> x
    tensor([0., 1., 3.])
    >>> packing.unpack(x)
    tensor([[0., 1., 0.],
            [3., 0., 0.]])
    """

    index: Int[Tensor, "tokens"]
    starts: Int[Tensor, "items_and_one"]
    lengths: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, mask: Bool[Tensor, "*batch N"]) -> "Packing":
        """From a mask, True where a token exists. Waits for the device: sizes depend on what the mask says."""
        lengths = mask.flatten(0, -2).sum(-1) if mask.ndim > 1 else mask.sum()[None]
        starts = F.pad(lengths.cumsum(0), (1, 0)).int()
        return cls(mask.flatten().nonzero()[:, 0], starts, tuple(lengths.tolist()), tuple(mask.shape))

    def require_packed(self, x: Shaped[Tensor, "..."]) -> None:
        """Tokens that go with this packing are (tokens, C, S)."""
        if x.ndim != 3 or len(x) != len(self.index):
            raise ValueError(f"expected {len(self.index)} packed tokens (tokens, C, S), got {tuple(x.shape)}")

    def pack(self, x: Shaped[Tensor, "*batch_N_rest"]) -> Shaped[Tensor, "tokens *rest"]:
        """The tokens that exist."""
        return x.flatten(0, len(self.shape) - 1).index_select(0, self.index)

    def unpack(self, x: Shaped[Tensor, "tokens *rest"]) -> Shaped[Tensor, "*batch_N_rest"]:
        """Each token in its place again, and zeros where there is none."""
        padded = x.new_zeros(torch.Size(self.shape).numel(), *x.shape[1:])
        return padded.index_copy(0, self.index, x).unflatten(0, self.shape)


def pack_ragged(mask: Bool[Tensor, "*batch N"] | None) -> Packing | Bool[Tensor, "*batch N"] | None:
    """How to pack a batch, or None where it has no padding.

    The mask itself within `padded`, under `torch.func.vmap`, and in compiled and exported programs, whose shapes may
    not depend on values.
    """
    if mask is None or not has_values(mask) or not _wanted.get():  # in this order: a compiler cannot ask the latter
        return mask
    packing = Packing.of(mask)
    return packing if len(packing.index) < mask.numel() else None
