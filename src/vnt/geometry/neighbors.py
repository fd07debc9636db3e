"""Nearest neighbours that a symmetric cloud cannot fool.

On a lattice, on a cone with its apex, on any CAD model, many points lie at exactly the distance of the k-th neighbour.
An ordinary search picks among them by index or by rounding, and a rotation changes the rounding: the symmetry breaks.
Here the points tied at the k-th distance share the weight that is left, so that the result depends on distances alone.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def default_tie_tolerance(dtype: torch.dtype) -> float:
    """Relative difference below which two distances count as equal: well above rounding, well below geometry."""
    return 1e-10 if dtype == torch.float64 else 1e-5


def nearest_neighbors(
    positions: Float[Tensor, "*batch N D"],
    num_neighbors: int,
    mask: Bool[Tensor, "*batch N"] | None = None,
    *,
    tie_tolerance: float | None = None,
) -> tuple[Int[Tensor, "*batch N K"], Float[Tensor, "*batch N K"]]:
    """The ``num_neighbors`` nearest other points of each point, as indices and weights.

    A point closer than the k-th distance has weight 1; the t points tied at it share what is left of k: 1/t of it each.
    Weights sum to k, or to the number of other points where that is smaller. K is k plus as many slots as the largest
    tie needs; unused slots have weight 0. A compiled graph, which cannot ask how many that is, has 3k slots.

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
    # Columns of points infinitely far away, so that there are always enough to choose from.
    distance = F.pad(_distances(positions, mask), (0, most), value=torch.inf)
    exists = torch.isfinite(distance)
    k = exists.sum(-1, keepdim=True).clamp(max=num_neighbors)  # (..., N, 1): fewer where there are fewer others

    nearest = distance.topk(num_neighbors, dim=-1, largest=False).values
    kth = nearest.gather(-1, (k - 1).clamp(min=0))
    if tie_tolerance is None:
        tie_tolerance = default_tie_tolerance(distance.dtype)
    closer = distance < kth * (1 - tie_tolerance)
    tied = (distance <= kth * (1 + tie_tolerance)) & ~closer & exists
    remaining = (k - closer.sum(-1, keepdim=True)).to(distance.dtype)
    weight = closer + tied * (remaining / tied.sum(-1, keepdim=True).clamp(min=1))

    num_slots = most if torch.compiler.is_compiling() else max(1, int((closer | tied).sum(-1).max()))
    index = distance.topk(num_slots, dim=-1, largest=False).indices
    return index.clamp(max=N - 1), weight.gather(-1, index)


def _distances(positions: Float[Tensor, "*batch N D"], mask: Bool[Tensor, "*batch N"] | None) -> Tensor:
    """Distances (..., N, N), from differences (not from a Gram matrix); infinite to itself and to padding."""
    x = positions.detach()
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    if mask is not None:
        x = torch.where(mask[..., None], x, 0)
    if torch.compiler.is_compiling():  # cdist cannot be exported at any size; a compiler fuses the plain formula
        distance = (x[..., :, None, :] - x[..., None, :, :]).square().sum(-1).sqrt()
    else:
        distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    absent = torch.eye(x.shape[-2], dtype=torch.bool, device=x.device)
    if mask is not None:
        absent = absent | ~mask[..., None, :]
    return distance.masked_fill(absent, torch.inf)
