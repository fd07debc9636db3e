"""Squared distances between points, and a few rows of them at a time."""

import torch
from jaxtyping import Float
from torch import Tensor

MOST_PAIRS = 2**20
"""Pairs of points that are held at once; a compiler holds all, as it needs one graph for any number."""


def squared_distances(a: Float[Tensor, "*batch M 3"], b: Float[Tensor, "*batch N 3"]) -> Float[Tensor, "*batch M N"]:
    """By differences, as exact as the coordinates are; `torch.cdist` has no second derivatives, and is no faster."""
    squares = [(p[..., :, None] - q[..., None, :]).square() for p, q in zip(a.unbind(-1), b.unbind(-1), strict=True)]
    return squares[0] + squares[1] + squares[2]


def a_few_rows(x: Float[Tensor, "*batch N 3"]) -> tuple[Tensor, ...]:
    """The points in parts, each of which makes no more than `MOST_PAIRS` pairs with all of them."""
    if torch.compiler.is_compiling():
        return (x,)
    return x.split(max(1, MOST_PAIRS // max(1, x[..., 0].numel())), -2)
