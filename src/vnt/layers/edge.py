"""Edge-convolution as a module."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels, require_mask, require_spatial_dim
from vnt.geometry.neighbors import SPARE, nearest_neighbors
from vnt.kernels import is_exporting
from vnt.layers.activation import VNReLU
from vnt.layers.linear import VNLinear


class VNEdgeConv(nn.Module):
    r"""Each token from its differences to the k nearest ones (Deng et al. 2021; Fig. 7 of the paper).

    $$\text{VN-EdgeConv}(V)^{(i)} = \frac{1}{\sum_j w_{ij}} \sum_j w_{ij} \,
      \text{VN-ReLU}\bigl([V^{(j)} - V^{(i)}; V^{(i)}]\bigr)$$

    where $w_{ij}$ is 1 for the neighbours closer than the k-th, and the points tied at the k-th distance share the
    weight that is left: a lattice does not break the symmetry. A point is not its own neighbour.

    Args:
        in_channels: C.
        out_channels: C'.
        num_neighbors: k; 0 means no edge-convolution, only a VN-Linear from C to C'.
        negative_slope: of the VN-ReLU.
        spatial_dim: S.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., N, C', S). Neighbours are nearest in ``positions`` (..., N, D)
        where given, otherwise in Frobenius distance between tokens; ``resolution`` (...) is the rounding of positions
        that were computed from larger numbers.

    A compiled training step has four slots for ties beside the k (a compiled model in evaluation 2k), and those beyond
    fall to index order; what is not compiled has as many as it takes.

    Differences from the paper: the sharing of ties; Deng et al. count a point as its own nearest neighbour.

    >>> import torch
    >>> VNEdgeConv(1, 8, num_neighbors=4)(torch.randn(2, 100, 1, 3)).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_neighbors: int,
        *,
        negative_slope: float = 0.0,
        spatial_dim: int = 3,
    ):
        super().__init__()
        if not isinstance(num_neighbors, int) or num_neighbors < 0:
            raise ValueError(f"num_neighbors must be a whole number of at least 0, got {num_neighbors!r}")
        self.in_channels, self.out_channels, self.num_neighbors = in_channels, out_channels, num_neighbors
        self.spatial_dim = spatial_dim
        if num_neighbors == 0:
            self.lift = VNLinear(in_channels, out_channels, spatial_dim=spatial_dim)
        else:
            self.message = VNReLU(2 * in_channels, out_channels=out_channels, negative_slope=negative_slope)

    def forward(
        self,
        V: Float[Tensor, "*batch N C S"],
        mask: Bool[Tensor, "*batch N"] | None = None,
        positions: Float[Tensor, "*batch N D"] | None = None,
        resolution: Float[Tensor, "*batch"] | None = None,
    ) -> Float[Tensor, "*batch N C_out S"]:
        require_channels(V, self.in_channels, "VNEdgeConv")
        require_spatial_dim(V, self.spatial_dim, "VNEdgeConv")
        require_mask(mask, V.shape[:-2], "VNEdgeConv")
        if positions is not None and positions.shape[:-1] != V.shape[:-2]:
            expected = (*V.shape[:-2], "D")
            raise ValueError(f"VNEdgeConv expects positions of shape {expected}, got {tuple(positions.shape)}")
        if self.num_neighbors == 0:
            return self.lift(V)
        places = V.flatten(-2) if positions is None else positions
        num_slots = self.num_neighbors + SPARE if self.training and not is_exporting() else None
        index, weight = nearest_neighbors(places, self.num_neighbors, mask, resolution=resolution, num_slots=num_slots)
        relu = self.message
        return functional.edge_convolution(
            V, index, weight, relu.weight, relu.direction, negative_slope=relu.negative_slope, eps=relu.eps
        )

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, num_neighbors={self.num_neighbors}"
