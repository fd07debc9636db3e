"""Nearest neighbours that a symmetric cloud cannot fool.

On a lattice, on a cone with its apex, on any CAD model, many points lie at exactly the distance of the k-th neighbour.
An ordinary search picks among them by index or by rounding, and a rotation changes the rounding: the symmetry breaks.
There are two ways out. In `nearest_neighbors` the points tied at the k-th distance share the weight that is left; in
`fading_neighbors` weights fade to zero towards the first point that is no neighbour, so that it does not matter which
it is, and nothing jumps when points move. Either way the result depends on distances alone.
"""

from itertools import accumulate

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vnt.checks import has_values
from vnt.geometry.distances import a_few_rows, squared_distances
from vnt.geometry.masking import blank
from vnt.kernels import is_exporting
from vnt.precision import at_least_float32

FEW = 8
"""Coordinates up to which differences are worth taking; `torch.cdist` takes them quickly on the CPU alone."""

SPARE = 4
"""Slots for ties where a graph is compiled to train; others have as many as it takes."""

LEAST = 4
"""Neighbours that fade, where there are so many points."""

EDGE = 0.1
"""Share of the squared distance within which they fade."""


def default_tie_tolerance(dtype: torch.dtype) -> float:
    """Relative difference below which two numbers count as equal: well above rounding, well below geometry."""
    return 1e-10 if dtype == torch.float64 else max(1e-5, 4 * torch.finfo(dtype).eps)


def nearest_neighbors(
    positions: Float[Tensor, "*batch N D"],
    num_neighbors: int,
    mask: Bool[Tensor, "*batch N"] | None = None,
    *,
    tie_tolerance: float | None = None,
    resolution: Float[Tensor, "*batch"] | None = None,
    num_slots: int | None = None,
) -> tuple[Int[Tensor, "*batch N K"], Float[Tensor, "*batch N K"]]:
    """The ``num_neighbors`` nearest other points of each point, as indices and weights.

    A point closer than the k-th distance has weight 1; the t points tied at it share what is left of k: 1/t of it each.
    Weights sum to k, or to the number of other points where that is smaller. K is k plus as many slots as the largest
    tie needs; unused slots have weight 0. (Many copies of one point are a tie: they cost as much as they are.) A
    compiled graph, or `torch.func.vmap`, which cannot ask how many that is, has ``num_slots``, 3k by default, and ties
    beyond that fall to index order.

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
    num_slots = 3 * num_neighbors if num_slots is None else num_slots
    if num_slots < num_neighbors:
        raise ValueError(f"num_slots must be at least the {num_neighbors} neighbours, got {num_slots}")
    x = blank(at_least_float32(positions.detach()), mask)
    # Columns of points infinitely far away, so that there are always enough to choose from.
    distances = F.pad(_distances(x, mask), (0, num_slots), value=torch.inf)
    near, index = distances.topk(num_slots, dim=-1, largest=False)  # nearest first
    k = torch.isfinite(near[..., :num_neighbors]).sum(-1, keepdim=True)  # (..., N, 1): less than k if there are fewer
    kth = near.gather(-1, (k - 1).clamp(min=0))
    if tie_tolerance is None:
        tie_tolerance = default_tie_tolerance(positions.dtype)
    if resolution is None:
        resolution = _rounding(positions.dtype, x)
    band = torch.where(torch.isfinite(kth), kth, 0) * tie_tolerance + 4 * resolution[..., None, None]
    if has_values(distances):
        num_used = _most(near, kth + band)
        if num_used == num_slots:  # perhaps there are more
            num_used = _most(distances, kth + band)
            near, index = distances.topk(num_used, dim=-1, largest=False)
        near, index = near[..., :num_used], index[..., :num_used]

    closer = near < kth - band
    tied = (near <= kth + band) & ~closer & torch.isfinite(near)
    remaining = (k - closer.sum(-1, keepdim=True)).to(near.dtype)
    weight = closer + tied * (remaining / tied.sum(-1, keepdim=True).clamp(min=1))
    return index.clamp(max=positions.shape[-2] - 1), weight


def fading_neighbors(
    positions: Float[Tensor, "*batch N 3"],
    divisor: int,
    mask: Bool[Tensor, "*batch N"] | None = None,
    *,
    resolution: Float[Tensor, "*batch"] | None = None,
) -> tuple[Int[Tensor, "*batch N K"], Float[Tensor, "*batch N K"]]:
    r"""The nearest N/divisor other points of each point, at least four, as indices and weights.

    $$w_{ij} = \min\Bigl(1, 10 \, \frac{r_i^2 - |x_i - x_j|^2}{r_i^2}\Bigr)$$

    where r_i is the distance of the first point that is one too many. A share of the cloud is equally wide however
    densely it is sampled. Weights are 1 but for the last few, continuous in the positions, and have gradients; slots
    beyond the points that there are have weight 0, and so has padding. N counts the points that exist.

    Points tied with that first one, as `nearest_neighbors` counts ties, have weight 0, not what rounding leaves of it:
    a point of a lattice may have fewer than four neighbours, or none.

    >>> x = torch.tensor([0.0, 1, 2, 3, 4, 4.1])[:, None] * torch.tensor([1.0, 0, 0])
    >>> index, weight = fading_neighbors(x, 100)
    >>> index[0], weight[0]
    (tensor([1, 2, 3, 4]), tensor([1.0000, 1.0000, 1.0000, 0.4819]))
    """
    if divisor < 1:
        raise ValueError(f"divisor must be at least 1, got {divisor}")
    x = blank(at_least_float32(positions), mask)
    N = x.shape[-2]
    num_slots: int = torch.sym_max(N // divisor, LEAST)  # type: ignore[bad-assignment]
    with torch.no_grad():
        found = [_nearest_of(rows, x, first, num_slots + 1, mask) for first, rows in _numbered(x)]
        index, exists = (torch.cat(each, -2) for each in zip(*found, strict=True))
    squared = (at_neighbors(x, index) - x[..., None, :]).square().sum(-1)
    far = torch.where(exists, squared, torch.inf)
    if mask is None:
        end = far[..., -1:]
    else:  # each cloud by the number of its own points
        last = (mask.sum(-1) // divisor).clamp(min=LEAST)
        end = far.gather(-1, last[..., None, None].expand(*far.shape[:-1], 1))
    if resolution is None:
        resolution = _rounding(positions.dtype, x)
    if not is_exporting():  # where that slot stays, of weight 0: N max(4, N/divisor) is more than it can take apart
        index, exists, squared = index[..., :-1], exists[..., :-1], squared[..., :-1]
    counts = exists & (end > 0)
    end = end.clamp(min=torch.finfo(x.dtype).tiny)
    tied = 2 * default_tie_tolerance(positions.dtype) + 8 * resolution[..., None, None] * end.detach().rsqrt()
    share = 1 - squared / end
    weight = (share / EDGE).clamp(0, 1) * (share / tied - 1).clamp(0, 1)  # the latter is 1 but beside what is tied
    return index, blank(torch.where(counts, weight, 0), mask)


def at_neighbors(x: Float[Tensor, "*batch N F"], index: Int[Tensor, "*batch N K"]) -> Float[Tensor, "*batch N K F"]:
    """The rows of x at each point's neighbours."""
    rows = index.flatten(-2)[..., None].expand(*index.shape[:-2], -1, x.shape[-1])
    return x.gather(-2, rows).unflatten(-2, index.shape[-2:])


def _numbered(x: Float[Tensor, "*batch N 3"]) -> list[tuple[int, Tensor]]:
    """A few rows at a time, with the number of the first."""
    parts = a_few_rows(x)
    firsts = accumulate((part.shape[-2] for part in parts), initial=0)
    return list(zip(firsts, parts, strict=False))  # one number more: where they end


def _nearest_of(
    rows: Float[Tensor, "*batch M 3"], x: Float[Tensor, "*batch N 3"], first: int, count: int, mask: Tensor | None
) -> tuple[Int[Tensor, "*batch M K"], Bool[Tensor, "*batch M K"]]:
    """The points nearest to some of them, those from number ``first`` on, and whether there are as many."""
    squared = squared_distances(rows, x)
    places = torch.arange(x.shape[-2], device=x.device)
    absent = places == places[first : first + rows.shape[-2], None]
    if mask is not None:
        absent = absent | ~mask[..., None, :]
    squared = F.pad(squared.masked_fill(absent, torch.inf), (0, count), value=torch.inf)
    near, index = squared.topk(count, dim=-1, largest=False)
    return index.clamp(max=x.shape[-2] - 1), torch.isfinite(near)


def _most(distances: Float[Tensor, "*batch N M"], end: Float[Tensor, "*batch N 1"]) -> int:
    """The most neighbours that any point has up to that distance, and at least one."""
    used = (distances <= end) & torch.isfinite(distances)
    return max(1, int(used.sum(-1).max())) if used.numel() > 0 else 1


def _rounding(dtype: torch.dtype, x: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*batch"]:
    """Of coordinates that came in that dtype."""
    return torch.finfo(dtype).eps * x.detach().abs().amax((-2, -1))


def _distances(x: Float[Tensor, "*batch N D"], mask: Bool[Tensor, "*batch N"] | None) -> Float[Tensor, "*batch N N"]:
    """Distances as exact as the coordinates are; infinite to itself and to padding."""
    few = x.shape[-1] <= FEW
    if torch.compiler.is_compiling() and (few or x.dtype == torch.float64):  # a compiler fuses the plain formula
        distance = (x[..., :, None, :] - x[..., None, :, :]).square().sum(-1).sqrt()
    elif x.dtype != torch.float64 and not (few and x.device.type == "cpu"):
        distance = _distances_by_product(x)
    else:
        distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    absent = torch.eye(x.shape[-2], dtype=torch.bool, device=x.device)
    if mask is not None:
        absent = absent | ~mask[..., None, :]
    return distance.masked_fill(absent, torch.inf)


def _distances_by_product(x: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*batch N N"]:
    """√(|a|² + |b|² − 2 ⟨a, b⟩) in float64: off by 1e-16 of the squares, less than what float32 rounds away in x."""
    wide = x.double()
    squares = wide.square().sum(-1)
    return (
        torch.matmul(-2 * wide, wide.mT)
        .add_(squares[..., None])
        .add_(squares[..., None, :])
        .clamp_(min=0)
        .sqrt_()
        .to(x.dtype)
    )
