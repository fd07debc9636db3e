"""PointNet (Qi et al. 2017): a control that knows nothing of rotations but what its alignment networks learn."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.geometry import masked_max
from vnt.models.rivals.dense import ClassifierHead, DenseLayer
from vnt.models.rivals.network_config import NetworkConfig, PointNetConfig
from vnt.models.tokens import normalized_tokens


class PointNet(nn.Module):
    """An MLP on each point's coordinates, a maximum over the points, and an MLP on that. Not invariant to rotations.

    Coordinates, turned by a 3×3 matrix that an alignment network makes of the cloud → 64, 64, times a 64×64 matrix made
    likewise → 64, 128, 1024 → max over the points → MLP of 512, 256 and the classes.

    Args:
        config: a `PointNetConfig`.

    Shape:
        points (..., N, 3), mask (..., N) True where a point exists, vectors (..., N, num_vectors, 3)
        -> (..., num_classes)

    Differences from the paper: Qi et al. normalise clouds before they come in, and add to the loss a term that keeps
    the 64×64 matrix near an orthogonal one; here the network is all there is. Extra vectors are theirs no more than
    ours: they are appended to the coordinates, and the 3×3 matrix turns them too. 3,480,049 parameters for 40 classes
    under scale "invariant"; Qi et al. say 3.5M.

    >>> PointNet(PointNetConfig(num_classes=5, width=0.25))(torch.randn(2, 50, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, config: PointNetConfig):
        super().__init__()
        self.config = config
        inputs = 3 * (1 + config.num_vectors)
        narrow, middle, wide = map(config.channels, (64, 128, 1024))
        self.align_input = AlignmentNetwork(inputs, 3, config)
        self.before = nn.ModuleList([DenseLayer(inputs, narrow), DenseLayer(narrow, narrow)])
        self.align_features = AlignmentNetwork(narrow, narrow, config)
        widths = (narrow, narrow, middle, wide)
        self.after = nn.ModuleList(DenseLayer(*pair) for pair in pairwise(widths))
        self.head = ClassifierHead(wide, config)

    def forward(
        self,
        points: Float[Tensor, "*batch N 3"],
        attributes: Float[Tensor, "*batch N d"] | None = None,
        mask: Bool[Tensor, "*batch N"] | None = None,
        vectors: Float[Tensor, "*batch N K 3"] | None = None,
    ) -> Float[Tensor, "*batch classes"]:
        tokens = normalized_tokens(self.config, points, attributes, mask, vectors, scale_vectors=False)
        rows = tokens.vectors.to(self.head.last.weight.dtype)
        x = (rows @ self.align_input(rows.flatten(-2), mask)[..., None, :, :]).flatten(-2)
        for layer in self.before:
            x = layer(x, mask)
        x = x @ self.align_features(x, mask)
        for layer in self.after:
            x = layer(x, mask)
        return self.head(masked_max(x, mask, -2), tokens.log_radius)


class AlignmentNetwork(nn.Module):
    """A matrix made of the whole cloud, which is to put it upright (Qi et al.'s T-Net); the identity to begin with.

    64, 128 and 1024 channels on each point, max over the points, 512, 256 and the entries of the matrix.

    Args:
        in_features: of each point.
        size: rows and columns of the matrix.
        config: gives the width.

    Shape:
        (..., N, in_features) with ``mask`` (..., N) -> (..., size, size)

    Differences from the paper: none.

    >>> torch.equal(AlignmentNetwork(3, 3, PointNetConfig(num_classes=5))(torch.randn(2, 50, 3))[0], torch.eye(3))
    True
    """

    def __init__(self, in_features: int, size: int, config: NetworkConfig):
        super().__init__()
        self.size = size
        widths = [in_features, *map(config.channels, (64, 128, 1024, 512, 256))]
        layers = [DenseLayer(*pair) for pair in pairwise(widths)]
        self.on_points, self.on_clouds = nn.ModuleList(layers[:3]), nn.ModuleList(layers[3:])
        self.last = nn.Linear(widths[-1], size * size)
        with torch.no_grad():
            self.last.weight.zero_()
            self.last.bias.copy_(torch.eye(size).flatten())

    def forward(
        self, x: Float[Tensor, "*batch N F"], mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch size size"]:
        for layer in self.on_points:
            x = layer(x, mask)
        x = masked_max(x, mask, -2)
        for layer in self.on_clouds:
            x = layer(x)
        return self.last(x).unflatten(-1, (self.size, self.size))
