"""VN-PointNet (Deng et al. 2021)."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.geometry import masked_max
from vnt.layers import VNLinear, VNMaxPool, VNMeanPool
from vnt.models.rivals.dense import ClassifierHead
from vnt.models.rivals.graph import Graph, nearest_graph
from vnt.models.rivals.network_config import VNPointNetConfig
from vnt.models.rivals.vector import EdgePool, VNFrame, VNLayer, make_batch_norm
from vnt.models.tokens import append_attributes, normalized_tokens


class VNPointNet(nn.Module):
    """PointNet of vector neurons; the logits do not change when the cloud is turned, moved or reordered.

    Edges [x_j − x_i; x_i; x_j × x_i] to the nearest neighbours → 21 vector channels, pooled over the neighbours → 21,
    beside what `VNFeatureTransform` says of the whole cloud → 42 → 341 → beside their mean, in a frame that turns with
    the cloud → max of these invariants over the points → MLP of 512, 256 and the classes. By the cross products it can
    tell mirror images apart.

    Args:
        config: a `VNPointNetConfig`.

    Shape:
        points (..., N, 3), attributes (..., N, d_A), mask (..., N) True where a point exists,
        vectors (..., N, num_vectors, 3) -> (..., num_classes)

    Differences from the paper: Deng et al. do not centre and scale inside; ties at the k-th distance are shared, they
    fall to index order there; guards as in `VNPointNetConfig`; dropout stands behind both hidden layers of the MLP,
    theirs in the second one, before its batch norm. The paper says 2.20M parameters. Layer by layer, Deng et al.'s
    program has 1,972,745 for 40 classes with mean pooling, and so has this network under scale "invariant": 19,708 in
    the layers of edges and points, 179,233 in the feature transform, 582,596 in the frame, 1,049,088 in the first layer
    of the MLP, 131,840 in the second and 10,280 in the last. Max pooling adds directions of 21² + 341² = 116,722
    numbers, to 2,089,467; no gradient reaches them, and here they are no parameters.

    >>> VNPointNet(VNPointNetConfig(num_classes=5, width=0.25))(torch.randn(2, 50, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, config: VNPointNetConfig):
        super().__init__()
        self.config = config
        narrow, middle, wide = map(config.vector_channels, (64, 128, 1024))
        self.edges = VNLayer(3 * (1 + config.num_vectors), narrow, config)
        self.pool = EdgePool(narrow, config.pooling, tie_tolerance=config.tie_tolerance)
        self.first = VNLayer(narrow, narrow, config)
        self.transform = VNFeatureTransform(narrow, config)
        self.second = VNLayer(2 * narrow, middle, config)
        self.third = VNLinear(middle, wide, spatial_dim=config.spatial_dim)
        self.norm = make_batch_norm(wide, config)
        self.frame = VNFrame(wide, config)
        self.head = ClassifierHead(6 * wide, config)

    def forward(
        self,
        points: Float[Tensor, "*batch N 3"],
        attributes: Float[Tensor, "*batch N d"] | None = None,
        mask: Bool[Tensor, "*batch N"] | None = None,
        vectors: Float[Tensor, "*batch N K 3"] | None = None,
    ) -> Float[Tensor, "*batch classes"]:
        tokens = normalized_tokens(self.config, points, attributes, mask, vectors, scale_vectors=False)
        ties = self.config.tie_tolerance
        graph = nearest_graph(tokens.positions, self.config.num_neighbors, mask, tokens.resolution, ties)
        V = tokens.vectors
        if tokens.scalars is not None:
            V = append_attributes(V, tokens.scalars, anchored=False)
        edges = _edges_with_cross_products(V.to(self.third.weight.dtype), graph)
        edges = self.edges(edges.flatten(-4, -3), graph.counted).unflatten(-3, graph.index.shape[-2:])
        V = self.first(self.pool(edges, graph), mask)
        V = self.second(V, mask, self.transform(V, mask))
        x = self.frame(self.norm(self.third(V), mask), mask)
        return self.head(masked_max(x, mask, -2), tokens.log_radius)


class VNFeatureTransform(nn.Module):
    """What the whole cloud has to say to each point, as so many vectors (Deng et al.'s STNkd).

    21, 42 and 341 vector channels on each point, pooled over the points, then 170, 85 and as many as come in.

    Args:
        channels: C.
        config: gives width, slope and pooling.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., C, S)

    Differences from the paper: none but those of `VNLayer` and `VNMaxPool`.

    >>> VNFeatureTransform(8, VNPointNetConfig(num_classes=5))(torch.randn(2, 50, 8, 3)).shape
    torch.Size([2, 8, 3])
    """

    def __init__(self, channels: int, config: VNPointNetConfig):
        super().__init__()
        widths = [channels, *map(config.vector_channels, (64, 128, 1024, 512, 256))]
        layers = [VNLayer(*pair, config) for pair in pairwise(widths)]
        self.on_points, self.on_clouds = nn.ModuleList(layers[:3]), nn.ModuleList(layers[3:])
        self.pool = VNMeanPool()
        if config.pooling == "max":
            self.pool = VNMaxPool(widths[3], tie_tolerance=config.tie_tolerance)
        self.last = VNLinear(widths[-1], channels, spatial_dim=config.spatial_dim)

    def forward(
        self, V: Float[Tensor, "*batch N C S"], mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch C S"]:
        for layer in self.on_points:
            V = layer(V, mask)
        V = self.pool(V, mask)
        for layer in self.on_clouds:
            V = layer(V)
        return self.last(V)


def _edges_with_cross_products(V: Float[Tensor, "*batch N C S"], graph: Graph) -> Float[Tensor, "*batch N K 3*C S"]:
    """[V^(j) − V^(i); V^(i); V^(j) × V^(i)] for each edge."""
    pairs = functional.edge_features(V, graph.index)
    difference, center = pairs.chunk(2, -2)
    return torch.cat([pairs, functional.cross_product(difference, center)], -2)  # V_i × V_i is zero
