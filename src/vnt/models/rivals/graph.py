"""Who is near whom: the graphs that the edge-convolutions of VN-PointNet, VN-DGCNN and DGCNN run on."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vnt.geometry.masking import blank
from vnt.geometry.neighbors import SPARE, nearest_neighbors
from vnt.kernels import is_exporting
from vnt.precision import at_least_float32


@dataclass(frozen=True)
class Graph:
    """The edges of a cloud, from each point to itself and to its neighbours.

    Attributes:
        index: (..., N, K), where an edge leads.
        weight: (..., N, K), of an edge: 1, or less where neighbours tie; 0 for a slot that is not used.
        mask: (..., N) or None, of the points.
    """

    index: Int[Tensor, "*batch N K"]
    weight: Float[Tensor, "*batch N K"]
    mask: Bool[Tensor, "*batch N"] | None

    @property
    def used(self) -> Bool[Tensor, "*batch N K"]:
        """Which slots hold an edge: at least one of each point, also of those that are padding."""
        return self.weight > 0

    @property
    def counted(self) -> Bool[Tensor, "*batch E"]:
        """Which slots hold an edge of a point that exists, all in a row: what batch statistics run over."""
        edges = self.used if self.mask is None else self.used & self.mask[..., None]
        return edges.flatten(-2)

    def gather(self, x: Float[Tensor, "*batch N F"]) -> Float[Tensor, "*batch N K F"]:
        """What x holds at the far end of each edge."""
        N, K = self.index.shape[-2:]
        index = self.index.reshape(-1, N * K)
        first = N * torch.arange(index.shape[0], device=index.device)  # len() would fix it in an export
        rows = x.reshape(-1, x.shape[-1]).index_select(0, (index + first[:, None]).flatten())
        return rows.reshape(*self.index.shape, x.shape[-1])


def nearest_graph(
    places: Float[Tensor, "*batch N D"],
    num_neighbors: int,
    mask: Bool[Tensor, "*batch N"] | None,
    resolution: Float[Tensor, "*batch"],
    tie_tolerance: float | None = None,
) -> Graph:
    """Each point and its ``num_neighbors`` − 1 nearest others; those tied at the last place share what is left of it.

    Counting the point itself is Deng et al.'s and Wang et al.'s way, and leaves an edge to a point that is alone.

    Args:
        places: positions, or features.
        num_neighbors: k, at least 2.
        mask: of the points.
        resolution: rounding of the input's coordinates, in units of its radius. Features were made from those, so that
            theirs is taken to be as large, relative to the largest of them.
        tie_tolerance: where given, it says what is tied, whatever the resolution.
    """
    largest = blank(at_least_float32(places.detach()), mask).abs().amax((-2, -1))
    resolution = resolution * largest.clamp(min=1) if tie_tolerance is None else torch.zeros_like(largest)
    num_slots = None if is_exporting() else num_neighbors - 1 + SPARE
    index, weight = nearest_neighbors(
        places, num_neighbors - 1, mask, tie_tolerance=tie_tolerance, resolution=resolution, num_slots=num_slots
    )
    own = torch.arange(places.shape[-2], device=index.device).expand(index.shape[:-1])[..., None]
    return Graph(torch.cat([own, index], -1), torch.cat([torch.ones_like(weight[..., :1]), weight], -1), mask)
