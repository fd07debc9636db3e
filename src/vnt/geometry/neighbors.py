"""Nearest neighbours that a symmetric cloud cannot fool.

On a lattice, on a cone with its apex, on any CAD model, many points lie at exactly the distance of the k-th neighbour.
An ordinary search picks among them by index or by rounding, and a rotation changes the rounding: the symmetry breaks.
Here the points tied at the k-th distance share the weight that is left, so that the result depends on distances alone.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vnt.geometry.masking import blank
from vnt.precision import at_least_float32


def default_tie_tolerance(dtype: torch.dtype) -> float:
    """Relative difference below which two numbers count as equal: well above rounding, well below geometry."""
    return 1e-10 if dtype == torch.float64 else 1e-5


def nearest_neighbors(
    positions: Float[Tensor, "*batch N D"],
    num_neighbors: int,
    mask: Bool[Tensor, "*batch N"] | None = None,
    *,
    tie_tolerance: float | None = None,
    resolution: Float[Tensor, "*batch"] | None = None,
) -> tuple[Int[Tensor, "*batch N K"], Float[Tensor, "*batch N K"]]:
    """The ``num_neighbors`` nearest other points of each point, as indices and weights.

    A point closer than the k-th distance has weight 1; the t points tied at it share what is left of k: 1/t of it each.
    Weights sum to k, or to the number of other points where that is smaller. K is k plus as many slots as the largest
    tie needs; unused slots have weight 0. (Many copies of one point are a tie: they cost as much as they are.) A
    compiled graph, which cannot ask how many that is, has 3k slots, and ties beyond that fall to index order.

    Two distances are tied if they differ by less than ``tie_tolerance`` of themselves (1e-5, or 1e-10 in float64), or
    by less than four times ``resolution``, the rounding of the coordinates; by default that of ``positions``, more if
    they were computed from larger numbers.

    >>> corners = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    >>> nearest_neighbors(corners, 1)[1]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000],
            [0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    if num_neighbors < 1:
        raise ValueError(f"num_neighbors must be at least 1, got {num_neighbors}")
    N, most = positions.shape[-2], 3 * num_neighbors
    x = blank(at_least_float32(positions.detach()), mask)
    # Columns of points infinitely far away, so that there are always enough to choose from.
    distance = F.pad(_distances(x, mask), (0, most), value=torch.inf)
    exists = torch.isfinite(distance)
    k = exists.sum(-1, keepdim=True).clamp(max=num_neighbors)  # (..., N, 1): fewer where there are fewer others

    nearest = distance.topk(num_neighbors, dim=-1, largest=False).values
    kth = nearest.gather(-1, (k - 1).clamp(min=0))
    band = _band(x, kth, tie_tolerance, resolution)
    closer = distance < kth - band
    tied = (distance <= kth + band) & ~closer & exists
    remaining = (k - closer.sum(-1, keepdim=True)).to(distance.dtype)
    weight = closer + tied * (remaining / tied.sum(-1, keepdim=True).clamp(min=1))

    num_slots = most if torch.compiler.is_compiling() else _largest(closer | tied)
    index = distance.topk(num_slots, dim=-1, largest=False).indices
    return index.clamp(max=N - 1), weight.gather(-1, index)


def _band(
    x: Float[Tensor, "*batch N D"],
    kth: Float[Tensor, "*batch N 1"],
    tie_tolerance: float | None,
    resolution: Float[Tensor, "*batch"] | None,
) -> Float[Tensor, "*batch N 1"]:
    """How far from the k-th distance a tie reaches."""
    if tie_tolerance is None:
        tie_tolerance = default_tie_tolerance(x.dtype)
    if resolution is None:
        resolution = torch.finfo(x.dtype).eps * x.abs().amax((-2, -1))
    return torch.where(torch.isfinite(kth), kth, 0) * tie_tolerance + 4 * resolution[..., None, None]


def _largest(used: Bool[Tensor, "*batch N M"]) -> int:
    """The most slots that any point uses, and at least one."""
    return max(1, int(used.sum(-1).max())) if used.numel() > 0 else 1


def _distances(x: Float[Tensor, "*batch N D"], mask: Bool[Tensor, "*batch N"] | None) -> Float[Tensor, "*batch N N"]:
    """Distances, from differences (not from a Gram matrix); infinite to itself and to padding."""
    if torch.compiler.is_compiling():  # cdist cannot be exported at any size; a compiler fuses the plain formula
        distance = (x[..., :, None, :] - x[..., None, :, :]).square().sum(-1).sqrt()
    else:
        distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    absent = torch.eye(x.shape[-2], dtype=torch.bool, device=x.device)
    if mask is not None:
        absent = absent | ~mask[..., None, :]
    return distance.masked_fill(absent, torch.inf)
