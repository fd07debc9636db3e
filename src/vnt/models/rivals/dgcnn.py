"""DGCNN (Wang et al. 2019): a control that knows nothing of rotations."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.geometry import masked_max, masked_mean
from vnt.models.rivals.dense import ClassifierHead, DenseLayer
from vnt.models.rivals.graph import Graph, nearest_graph
from vnt.models.rivals.network_config import DGCNNConfig
from vnt.models.tokens import normalized_tokens


class DGCNN(nn.Module):
    """Edge-convolutions on coordinates. Not invariant to rotations.

    Four edge-convolutions of 64, 64, 128 and 256 channels, the first among neighbours in space, the others among
    neighbours in the features of the one before; all four side by side → 1024 channels → max and mean over the points
    → MLP of 512, 256 and the classes.

    Args:
        config: a `DGCNNConfig`.

    Shape:
        points (..., N, 3), mask (..., N) True where a point exists, vectors (..., N, num_vectors, 3)
        -> (..., num_classes)

    Differences from the paper: Wang et al. normalise clouds before they come in; ties at the k-th distance all take
    part in the maximum, they fall to index order there. As in their program for classification, there is no alignment
    network. 1,809,576 parameters for 40 classes under scale "invariant"; Wang et al. say 1.8M.

    >>> DGCNN(DGCNNConfig(num_classes=5, width=0.25))(torch.randn(2, 50, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, config: DGCNNConfig):
        super().__init__()
        self.config = config
        widths = [3 * (1 + config.num_vectors), *map(config.channels, (64, 64, 128, 256))]
        self.edges = nn.ModuleList(EdgeLayer(*pair) for pair in pairwise(widths))
        last = config.channels(1024)
        self.join = DenseLayer(sum(widths[1:]), last, negative_slope=0.2, bias=False)
        self.head = ClassifierHead(2 * last, config, negative_slope=0.2, first_bias=False)

    def forward(
        self,
        points: Float[Tensor, "*batch N 3"],
        attributes: Float[Tensor, "*batch N d"] | None = None,
        mask: Bool[Tensor, "*batch N"] | None = None,
        vectors: Float[Tensor, "*batch N K 3"] | None = None,
    ) -> Float[Tensor, "*batch classes"]:
        tokens = normalized_tokens(self.config, points, attributes, mask, vectors, scale_vectors=False)
        x = tokens.vectors.to(self.head.last.weight.dtype).flatten(-2)
        places, levels = tokens.positions, []
        for edges in self.edges:
            graph = nearest_graph(places, self.config.num_neighbors, mask, tokens.resolution)
            x = places = masked_max(edges(x, graph), graph.used, -2)
            levels.append(x)
        x = self.join(torch.cat(levels, -1), mask)
        return self.head(torch.cat([masked_max(x, mask, -2), masked_mean(x, mask, -2)], -1), tokens.log_radius)


class EdgeLayer(nn.Module):
    r"""Linear, batch norm and leaky ReLU on the edges [x_j − x_i; x_i] of a graph.

    $$W [x_j - x_i; x_i] = A x_j + (B - A) x_i, \qquad W = [A, B]$$

    so the products are taken once for each point, not for each edge.

    Args:
        in_features: of a point; an edge has twice as many.
        out_features: of an edge.

    Shape:
        x (..., N, in_features), a graph of K slots -> (..., N, K, out_features)

    Differences from the paper: in the batch statistics each edge of points that tie counts as one.

    >>> graph = nearest_graph(torch.randn(2, 100, 3), 4, None, torch.zeros(2))
    >>> EdgeLayer(3, 8)(torch.randn(2, 100, 3), graph).shape
    torch.Size([2, 100, 4, 8])
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.layer = DenseLayer(2 * in_features, out_features, negative_slope=0.2, bias=False)

    def forward(self, x: Float[Tensor, "*batch N F"], graph: Graph) -> Float[Tensor, "*batch N K G"]:
        there, here = self.layer.linear.weight.chunk(2, -1)
        far, near = nn.functional.linear(x, there), nn.functional.linear(x, here - there)
        edges = graph.gather(far) + near[..., None, :]
        return self.layer.activate(edges.flatten(-3, -2), graph.counted).unflatten(-2, graph.index.shape[-2:])
