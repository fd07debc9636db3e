"""Representative points, neighbourhoods and shells that depend on distances alone: not on pose, not on order.

A discrete choice between two points at the same distance falls to rounding, and a rotation changes the rounding. So no
such choice is made: points that tie are all taken, be it as representatives, as neighbours or into a shell.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vnt.geometry import masked_mean, nearest_neighbors
from vnt.geometry.neighbors import default_tie_tolerance


@dataclass(frozen=True)
class Neighborhoods:
    """The neighbourhoods of all M representatives of a batch; the first neighbour of each is the representative.

    Attributes:
        cloud: (M,), which cloud a representative belongs to.
        center: (M,), which point of it the representative is.
        index: (M, K), which points of it are the neighbours.
        weight: (M, K), 1, less where neighbours tie at the largest distance, 0 where there is none.
        exists: (M, K), where the weight is positive.
        relative: (M, K, 3), neighbours less representative; zero where there is none.
        distance: (M, K), the length of that.
        shells: (M, S, K), which neighbours each shell holds; never empty.
        slots: (B, R), where the M representatives stand in a padded batch: its True entries in order.
    """

    cloud: Int[Tensor, "M"]
    center: Int[Tensor, "M"]
    index: Int[Tensor, "M K"]
    weight: Float[Tensor, "M K"]
    exists: Bool[Tensor, "M K"]
    relative: Float[Tensor, "M K 3"]
    distance: Float[Tensor, "M K"]
    shells: Bool[Tensor, "M S K"]
    slots: Bool[Tensor, "B R"]

    def pad(self, rows: Float[Tensor, "M ..."]) -> Float[Tensor, "B R ..."]:
        """What is known of each representative as a padded batch, zero where there is none."""
        padded = rows.new_zeros(*self.slots.shape, *rows.shape[1:])
        return padded.index_put((self.slots,), rows)


def find_neighborhoods(
    positions: Float[Tensor, "B N 3"],
    mask: Bool[Tensor, "B N"],
    resolution: Float[Tensor, "B"],
    *,
    num_points: int,
    num_neighbors: int,
    num_shells: int,
) -> Neighborhoods:
    """Representatives of each cloud, their nearest neighbours (themselves included), and shells of equal count."""
    chosen, slots = farthest_points(positions, mask, num_points, resolution)
    cloud = slots.nonzero()[:, 0]
    center = chosen[slots]
    index, weight = nearest_neighbors(positions, num_neighbors - 1, mask, resolution=resolution)
    index = torch.cat([center[:, None], index[cloud, center]], -1)
    weight = torch.cat([torch.ones_like(weight[cloud, center, :1]), weight[cloud, center]], -1)
    exists = weight > 0
    relative = positions[cloud[:, None], index] - positions[cloud, center][:, None]
    relative = torch.where(exists[..., None], relative, 0)
    distance = length(relative)
    shells = divide_into_shells(distance.detach(), weight, num_shells, resolution[cloud])
    return Neighborhoods(cloud, center, index, weight, exists, relative, distance, shells, slots)


@torch.no_grad()
def farthest_points(
    positions: Float[Tensor, "B N 3"], mask: Bool[Tensor, "B N"], count: int, resolution: Float[Tensor, "B"]
) -> tuple[Int[Tensor, "B R"], Bool[Tensor, "B R"]]:
    """Farthest point sampling from the point that is farthest from the mean: indices, and which of them exist.

    Of points that tie, those with the largest sum of distances to the whole cloud count; if that ties too, as it does
    on a lattice, all of them are taken, so that R may exceed ``count`` by the size of the last tie. Of copies of a
    point one is taken: it does not matter which. A cloud that has no more than ``count`` distinct points keeps all.

    >>> corners = torch.tensor([[[0.0, 0, 0], [1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]]])
    >>> farthest_points(corners, torch.ones(1, 5, dtype=torch.bool), 1, torch.zeros(1))[0].tolist()
    [[1, 2, 3, 4]]
    """
    between = torch.cdist(positions, positions, compute_mode="donot_use_mm_for_euclid_dist")
    tolerance, least = default_tie_tolerance(positions.dtype), 4 * resolution[:, None]
    copies = (between <= least[..., None]) & mask[:, None, :]
    free = mask & ~copies.tril(-1).any(-1)
    count = min(count, int(free.sum(-1).max()))
    if count == int(free.sum(-1).max()):
        return torch.arange(positions.shape[1], device=positions.device).expand_as(free), free
    remoteness = torch.where(mask[:, None, :], between, 0).sum(-1)
    gap = length(positions - masked_mean(positions, mask, -2)[:, None])  # to the mean at first, then to those taken
    nearest = torch.full_like(gap, torch.inf)
    tied = torch.zeros_like(mask)
    indices, exist = [], []
    while len(indices) < count or bool(tied.any()):
        found = tied.any(-1, keepdim=True)
        tied = torch.where(found, tied, _largest(gap, free, tolerance, least))
        tied = torch.where(found, tied, _largest(remoteness, tied, tolerance, least))
        if len(indices) >= count:  # only what ties with a point already taken
            tied = tied & found
        pick = tied.int().argmax(-1, keepdim=True)
        there = tied.any(-1, keepdim=True)
        indices.append(pick)
        exist.append(there)
        taken = torch.zeros_like(tied).scatter(-1, pick, there)
        tied, free = tied & ~taken, free & ~taken
        away = length(positions - positions.gather(1, pick[..., None].expand(-1, -1, 3)))
        nearest = torch.where(there, torch.minimum(nearest, away), nearest)
        gap = nearest
    return torch.cat(indices, -1), torch.cat(exist, -1)


def _largest(
    value: Float[Tensor, "B N"], among: Bool[Tensor, "B N"], tolerance: float, least: Float[Tensor, "B 1"]
) -> Bool[Tensor, "B N"]:
    """Which of some points have the largest value, ties included."""
    value = torch.where(among, value, -torch.inf)
    most = value.amax(-1, keepdim=True)
    return among & (value >= most - (tolerance * most.abs() + least))


def divide_into_shells(
    distance: Float[Tensor, "M K"], weight: Float[Tensor, "M K"], num_shells: int, resolution: Float[Tensor, "M"]
) -> Bool[Tensor, "M S K"]:
    """Which neighbours belong to each shell: as many to each, by distance; those that tie at a border, to both.

    Where the number of shells does not divide that of neighbours, adjoining shells share a neighbour.
    """
    exists = weight > 0
    ordered = torch.where(exists, distance, torch.inf).sort(-1).values
    count = weight.sum(-1).round().long()[:, None]
    shell = torch.arange(num_shells, device=distance.device)
    first = (shell * count) // num_shells
    last = ((shell + 1) * count + num_shells - 1) // num_shells - 1
    inner, outer = ordered.gather(-1, first), ordered.gather(-1, last)
    tolerance = default_tie_tolerance(distance.dtype)
    inner = inner * (1 - tolerance) - 4 * resolution[:, None]
    outer = outer * (1 + tolerance) + 4 * resolution[:, None]
    held = (distance[:, None] >= inner[..., None]) & (distance[:, None] <= outer[..., None])
    return held & exists[:, None]


def length(x: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
    """|x|, whose gradient at zero is zero."""
    square = x.square().sum(-1)
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1).sqrt(), 0)
