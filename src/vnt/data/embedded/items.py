"""One random stream for each item, and coordinates that come out the same on every machine."""

from typing import Literal, get_args

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

Split = Literal["train", "val", "test"]


def item_generator(seed: int, split: Split, kind: int, index: int) -> Generator:
    """The stream of one item. It depends on nothing else, so an item stays itself however many are drawn."""
    return Generator(PCG64(SeedSequence([seed, get_args(Split).index(split), kind, index])))


def on_grid(x: NDArray[np.float64], size: float) -> NDArray[np.float32]:
    """Numbers rounded to whole multiples of 2^-20 of ``size``, a power of two; float32 holds those up to 16 times it.

    Machines differ in the last bit of a sine or a sum. That is nine orders of magnitude below the grid, so what is left
    of it, one number in a billion that falls on the other side of a step, is in practice nothing.

    >>> on_grid(np.array([0.75, 1e-9]), 1.0).tolist()
    [0.75, 0.0]
    """
    step = size * 2.0**-20
    return (np.round(x / step) * step).astype(np.float32)


def check_draw(count: int, seed: int, split: str, *, name: str) -> None:
    """Refuse what the streams are not defined for."""
    if count < 1:
        raise ValueError(f"{name} must be at least 1, got {count}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    if split not in get_args(Split):
        raise ValueError(f"split must be one of {get_args(Split)}, got {split!r}")
