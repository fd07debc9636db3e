"""What a point sees around it: local means and second moments, and vectors made of them (ours, not in the paper)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.geometry.distances import a_few_rows, squared_distances
from vnt.geometry.masking import blank
from vnt.precision import at_least_float32

VECTORS = 4
"""Vectors that each scale gives."""

GUARD = 0.1
"""Of the division by the trace of a second moment, in squared scales; on a densely sampled surface that is two."""


class LocalMoments(NamedTuple):
    """How a cloud lies around each of its points, through windows of S widths; zero where there is no point.

    Attributes:
        offset: (..., N, S, 3), from the point to the mean of what it sees, in widths.
        spread: (..., N, S, 3, 3), the second moment of it, divided by its trace and a guard.
    """

    offset: Float[Tensor, "*batch N S 3"]
    spread: Float[Tensor, "*batch N S 3 3"]


def local_moments(
    x: Float[Tensor, "*batch N 3"], scales: tuple[float, ...], mask: Bool[Tensor, "*batch N"] | None = None
) -> LocalMoments:
    r"""The offset o and the spread M of what each point sees through a window of each width σ.

    $$w_{ij} = e^{-|x_i - x_j|^2 / 2σ^2}, \quad m_i = \frac{\sum_j w_{ij} x_j}{\sum_j w_{ij}}, \quad
      C_i = \frac{\sum_j w_{ij} (x_j - m_i)(x_j - m_i)^T}{\sum_j w_{ij}}$$

    $$o_i = \frac{m_i - x_i}{σ}, \quad M_i = \frac{C_i}{\text{tr}\,C_i + σ^2 / 10}$$

    On a surface with normal n, M ≈ ½ (1 − n nᵀ). They turn with the cloud, and unlike neighbours or eigenvectors they
    never jump. In float64: C is a small difference of large numbers.
    """
    x = blank(at_least_float32(x), mask)
    wide = x.double()
    squares = (wide[..., :, None] * wide[..., None, :]).flatten(-2)
    powers = blank(torch.cat([torch.ones_like(wide[..., :1]), wide, squares], -1), mask)
    parts = [_look(rows, x, powers, scales) for rows in a_few_rows(x)]
    offsets, spreads = (torch.cat(each, axis) for each, axis in zip(zip(*parts, strict=True), (-3, -4), strict=True))
    return LocalMoments(blank(offsets, mask), blank(spreads, mask))


def surroundings(
    x: Float[Tensor, "*batch N 3"], scales: tuple[float, ...], mask: Bool[Tensor, "*batch N"] | None = None
) -> Float[Tensor, "*batch N K 3"]:
    """Four vectors for each point and each scale: o, M x, M o and M² x of `local_moments`.

    Attention gathers first moments of what is around a point; a network of vectors alone cannot form second ones, which
    say how its surroundings lie: x − 2 M x ≈ n ⟨n, x⟩ on a surface with normal n. Zero where there is no point.
    """
    if not scales:
        return x.new_zeros(*x.shape[:-1], 0, 3)
    return vectors_around(blank(x, mask), local_moments(x, scales, mask))


def vectors_around(x: Float[Tensor, "*batch N 3"], around: LocalMoments) -> Float[Tensor, "*batch N K 3"]:
    """What `surroundings` gives, where the moments are known already."""
    o, M = around
    Mx = _times(M, x[..., None, :].double())
    return torch.stack([o, Mx, _times(M, o), _times(M, Mx)], -2).flatten(-3, -2).to(x.dtype)


def _look(
    rows: Float[Tensor, "*batch M 3"],
    all_points: Float[Tensor, "*batch N 3"],
    powers: Float[Tensor, "*batch N 13"],
    scales: tuple[float, ...],
) -> tuple[Float[Tensor, "*batch M S 3"], Float[Tensor, "*batch M S 3 3"]]:
    """The moments of some of the points."""
    dtype, squared = rows.dtype, squared_distances(rows, all_points)
    rows, offsets, spreads = rows.double(), [], []
    for scale in scales:
        w = (squared * (-0.5 / scale**2)).exp()
        sums = w.double() @ powers
        sums = sums[..., 1:] / sums[..., :1].clamp(min=torch.finfo(dtype).tiny)
        mean = sums[..., :3]
        C = sums[..., 3:].unflatten(-1, (3, 3)) - mean[..., :, None] * mean[..., None, :]
        trace = C[..., 0, 0] + C[..., 1, 1] + C[..., 2, 2]
        offsets.append((mean - rows) / scale)
        spreads.append(C / (trace + GUARD * scale**2)[..., None, None])
    return torch.stack(offsets, -2), torch.stack(spreads, -3)


def _times(M: Float[Tensor, "*tokens 3 3"], x: Float[Tensor, "*#tokens 3"]) -> Float[Tensor, "*tokens 3"]:
    return (M * x[..., None, :]).sum(-1)
