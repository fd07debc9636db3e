"""Where, and within which radius, an attribute gathers: Kulldorff's scan statistic (ours, not in the paper)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.geometry.distances import a_few_rows, squared_distances
from vnt.geometry.masking import blank, masked_max
from vnt.precision import at_least_float32

LEAST = 1e-6
"""Shares are kept this far from 0 and from 1, so that their logarithms and the slopes of these are finite."""


def scan(
    x: Float[Tensor, "*batch N 3"],
    masses: Float[Tensor, "*batch N d"],
    spacing: float,
    num_radii: int,
    mask: Bool[Tensor, "*batch N"] | None = None,
) -> Float[Tensor, "*batch d num_radii"]:
    r"""How much more of a mass than of the points the best ball holds, for radii r = spacing, 2 spacing, …

    $$S_i(r) = \max_n D\bigl(F_i^{(n)}(r) \,\|\, F_0^{(n)}(r)\bigr), \qquad
      D(p \| q) = p \log \frac{p}{q} + (1 - p) \log \frac{1 - p}{1 - q}$$

    where F_i is the share of mass i within r of point n, and F_0 that of the points; D counts where p > q. It is what a
    likelihood ratio says for "the mass lies evenly within this ball" against "it lies evenly", for each unit of mass
    (Kulldorff, *A spatial scan statistic*, 1997). Masses must not be negative; one that is zero everywhere has S = 0.

    Balls have a soft edge, as wide as the radii are apart, so that the shares do not jump when rounding moves a point;
    and they are made of distances alone, so that nothing changes when the cloud is turned or moved.
    """
    if spacing <= 0 or num_radii < 1:
        raise ValueError(f"radii must be positive, got {num_radii} of them, {spacing} apart")
    dtype, x, masses = x.dtype, at_least_float32(x), at_least_float32(blank(masses, mask))
    x = blank(x, mask)
    weights = torch.cat([blank(torch.ones_like(x[..., :1]), mask), masses], -1)
    weights = weights / weights.sum(-2, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    shares = torch.cat([_shares(rows, x, weights, spacing, num_radii) for rows in a_few_rows(x)], -3)
    of_points, of_mass = shares[..., :1, :], shares[..., 1:, :]
    return masked_max(_divergence(of_mass, of_points), mask, -3).to(dtype)


def _shares(
    rows: Float[Tensor, "*batch M 3"],
    x: Float[Tensor, "*batch N 3"],
    weights: Float[Tensor, "*batch N w"],
    spacing: float,
    num_radii: int,
) -> Float[Tensor, "*batch M w num_radii"]:
    """The share of each weight within each radius of some of the points.

    A pair at distance d adds nothing to balls with k ≤ u = d / spacing − ½, all of its weight to those with k ≥ u + 1,
    and what lies between to the one between: two entries of a histogram, whose running sum is the share.
    """
    tiny = torch.finfo(x.dtype).tiny
    u = squared_distances(rows, x).clamp(min=tiny).sqrt() / spacing - 0.5
    whole = u.floor()
    first = (whole + 1).clamp(max=num_radii + 1).long()
    second = (first + 1).clamp(max=num_radii + 1)
    part, found = u - whole, []
    for weight in weights.unbind(-1):
        counts = torch.zeros(*u.shape[:-1], num_radii + 2, dtype=u.dtype, device=u.device)
        weight = weight[..., None, :]
        counts = counts.scatter_add(-1, first, (1 - part) * weight).scatter_add(-1, second, part * weight)
        found.append(counts.cumsum(-1)[..., 1:-1])
    return torch.stack(found, -2)


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """D(p ‖ q) where p > q, else 0."""
    p, q = p.clamp(LEAST, 1 - LEAST), q.clamp(LEAST, 1 - LEAST)
    D = p * (p.log() - q.log()) + (1 - p) * ((1 - p).log() - (1 - q).log())
    return torch.where(p > q, D, torch.zeros_like(D))
