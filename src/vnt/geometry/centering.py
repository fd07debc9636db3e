"""Where a cloud is and how large it is, padding excluded.

The paper assumes mean-centred input (section 9); centring inside the model makes it translation-invariant, or
-equivariant, as a whole. The mean follows outliers; the geometric median, the point with the least sum of distances,
does not.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.geometry.masking import blank, masked_mean

Centering = Literal["mean", "median", "none"]


def center(
    points: Float[Tensor, "*batch N S"], mask: Bool[Tensor, "*batch N"] | None = None, method: Centering = "mean"
) -> tuple[Float[Tensor, "*batch N S"], Float[Tensor, "*batch S"]]:
    """The points relative to their centre (zero for padding), and the centre.

    The mean is taken twice: the second, over points that now lie near zero, removes the rounding error of the first,
    which grows with the distance of the cloud from the origin.

    >>> points = torch.tensor([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    >>> center(points)[1]
    tensor([2., 0., 0.])
    """
    if method not in get_args(Centering):
        raise ValueError(f"center must be one of {get_args(Centering)}, got {method!r}")
    points = blank(points, mask)
    if method == "none":
        return points, torch.zeros_like(points[..., 0, :])
    middle = masked_mean(points, mask, -2)
    points = points - middle[..., None, :]
    rest = masked_mean(points, mask, -2) if method == "mean" else geometric_median(points, mask)
    return blank(points - rest[..., None, :], mask), middle + rest


def geometric_median(
    points: Float[Tensor, "*batch N S"],
    mask: Bool[Tensor, "*batch N"] | None = None,
    *,
    num_iterations: int = 32,
    smoothing: float = 1e-3,
) -> Float[Tensor, "*batch S"]:
    """argmin_c Σₙ √(|xₙ − c|² + δ²) by Weiszfeld's iteration from the mean, δ = ``smoothing`` times the RMS radius.

    δ keeps the iteration and its gradient finite when c meets a point. A fixed number of steps keeps the function
    smooth, equivariant at every step and free of data-dependent control flow.
    """
    mean = masked_mean(points, mask, -2)
    x = points - mean[..., None, :]
    radius = rms_radius(x, mask)
    x = x / radius[..., None, None]
    c = torch.zeros_like(mean)
    for _ in range(num_iterations):
        weight = torch.rsqrt((x - c[..., None, :]).square().sum(-1, keepdim=True) + smoothing**2)
        c = masked_mean(weight * x, mask, -2) / masked_mean(weight, mask, -2)
    return mean + radius[..., None] * c


def rms_radius(
    points: Float[Tensor, "*batch N S"],
    mask: Bool[Tensor, "*batch N"] | None = None,
    *,
    resolution: Float[Tensor, "*batch"] | None = None,
) -> Float[Tensor, "*batch"]:
    """√(mean |xₙ|² + resolution²) of points that are already centred, or 1 where that is zero.

    ``resolution`` is the rounding of the coordinates that the points were made from: a cloud smaller than that is not
    blown up to size one. Lengths are taken in units of the largest coordinate, so no square over- or underflows.
    """
    unit = power_of_two(points, mask)
    mean_square = masked_mean((points / unit[..., None, None]).square().sum(-1), mask, -1)
    if resolution is not None:
        mean_square = mean_square + (resolution / unit).square()
    exists = mean_square > 0
    return torch.where(exists, torch.where(exists, mean_square, 1).sqrt() * unit, 1)


def power_of_two(
    points: Float[Tensor, "*batch N S"], mask: Bool[Tensor, "*batch N"] | None = None
) -> Float[Tensor, "*batch"]:
    """The power of two just below the largest coordinate of a cloud (1 where all are zero): dividing by it is exact."""
    largest = blank(points, mask).detach().abs().amax((-2, -1))
    return torch.where(largest > 0, torch.exp2(torch.where(largest > 0, largest, 1).log2().floor()), 1)
