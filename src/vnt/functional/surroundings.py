"""What a point sees around it: local means and second moments as vectors (ours, not in the paper)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.geometry.masking import blank
from vnt.precision import at_least_float32

VECTORS = 4
"""Vectors that each scale gives."""

GUARD = 0.1
"""Of the division by the trace of a second moment, in squared scales; on a densely sampled surface that is two."""

MOST_PAIRS = 2**20
"""Pairs of points whose weights are held at once; a compiler holds all, as it needs one graph for any number."""


def surroundings(
    x: Float[Tensor, "*batch N 3"], scales: tuple[float, ...], mask: Bool[Tensor, "*batch N"] | None = None
) -> Float[Tensor, "*batch N K 3"]:
    r"""Four vectors for each point and each scale σ: o, M x, M o and M² x.

    $$w_{ij} = e^{-|x_i - x_j|^2 / 2σ^2}, \quad m_i = \frac{\sum_j w_{ij} x_j}{\sum_j w_{ij}}, \quad
      C_i = \frac{\sum_j w_{ij} (x_j - m_i)(x_j - m_i)^T}{\sum_j w_{ij}}$$

    $$o_i = \frac{m_i - x_i}{σ}, \quad M_i = \frac{C_i}{\text{tr}\,C_i + σ^2 / 10}$$

    Attention gathers first moments of what is around a point; a network of vectors alone cannot form second ones, which
    say how its surroundings lie: on a surface with normal n, M ≈ ½ (1 − n nᵀ), so that x − 2 M x ≈ n ⟨n, x⟩. They turn
    with the cloud, and unlike neighbours or eigenvectors they never jump. Zero where there is no point.

    Sums are taken in float64: C is a small difference of large numbers.
    """
    if not scales:
        return x.new_zeros(*x.shape[:-1], 0, 3)
    dtype, x = x.dtype, at_least_float32(x)
    wide = x.double()
    ones = torch.ones_like(wide[..., :1])
    powers = blank(torch.cat([ones, wide, (wide[..., :, None] * wide[..., None, :]).flatten(-2)], -1), mask)
    parts = [x] if torch.compiler.is_compiling() else x.split(max(1, MOST_PAIRS // max(1, ones.numel())), -2)
    return blank(torch.cat([_look(rows, x, powers, scales) for rows in parts], -3), mask).to(dtype)


def _look(
    rows: Float[Tensor, "*batch M 3"],
    all_points: Float[Tensor, "*batch N 3"],
    powers: Float[Tensor, "*batch N 13"],
    scales: tuple[float, ...],
) -> Float[Tensor, "*batch M K 3"]:
    """The vectors of some of the points."""
    dtype, squared = rows.dtype, squared_distances(rows, all_points)
    rows, found = rows.double(), []
    for scale in scales:
        w = (squared * (-0.5 / scale**2)).exp()
        sums = w.double() @ powers
        sums = sums[..., 1:] / sums[..., :1].clamp(min=torch.finfo(dtype).tiny)
        mean = sums[..., :3]
        C = sums[..., 3:].unflatten(-1, (3, 3)) - mean[..., :, None] * mean[..., None, :]
        trace = C.diagonal(dim1=-2, dim2=-1).sum(-1)
        M = C / (trace + GUARD * scale**2)[..., None, None]
        offset = (mean - rows) / scale
        Mx, Mo = _times(M, rows), _times(M, offset)
        found += [offset, Mx, Mo, _times(M, Mx)]
    return torch.stack(found, -2).to(dtype)


def squared_distances(a: Float[Tensor, "*batch M 3"], b: Float[Tensor, "*batch N 3"]) -> Float[Tensor, "*batch M N"]:
    """By differences, as exact as the coordinates are; `torch.cdist` has no second derivatives, and is no faster."""
    squares = [(p[..., :, None] - q[..., None, :]).square() for p, q in zip(a.unbind(-1), b.unbind(-1), strict=True)]
    return squares[0] + squares[1] + squares[2]


def _times(M: Float[Tensor, "*tokens 3 3"], x: Float[Tensor, "*tokens 3"]) -> Float[Tensor, "*tokens 3"]:
    return (M * x[..., None, :]).sum(-1)
