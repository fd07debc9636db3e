"""Scalar layers of the networks that the paper compares with, and their last MLP."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.models.heads import MaskedBatchNorm
from vnt.models.rivals.network_config import NetworkConfig


class DenseLayer(nn.Module):
    """Linear, batch norm, (leaky) ReLU, on each token by itself.

    Args:
        in_features, out_features: the widths.
        negative_slope: of the leaky ReLU.
        bias: of the linear map; the batch norm behind it has one anyway, so it only keeps to what was published.

    Shape:
        (..., in_features) -> (..., out_features), with ``mask`` (...) True where a token exists.

    Differences from the paper: not in the paper. Padding does not count in the batch norm.

    >>> DenseLayer(3, 8)(torch.randn(4, 100, 3)).shape
    torch.Size([4, 100, 8])
    """

    def __init__(self, in_features: int, out_features: int, *, negative_slope: float = 0.0, bias: bool = True):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.norm = MaskedBatchNorm(out_features)
        self.negative_slope = negative_slope

    def forward(
        self, x: Float[Tensor, "*tokens F"], mask: Bool[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens G"]:
        return self.activate(self.linear(x), mask)

    def activate(self, x: Float[Tensor, "*tokens G"], mask: Bool[Tensor, "*tokens"] | None) -> Tensor:
        """What follows the linear map."""
        return F.leaky_relu(self.norm(x, mask), self.negative_slope)


class ClassifierHead(nn.Module):
    """The MLP that ends all four networks: 512, 256, classes, with dropout behind the first two.

    Args:
        in_features: numbers that describe a cloud.
        config: gives width, dropout, classes, and whether the radius is told.
        negative_slope: of the leaky ReLU.
        first_bias: whether the first linear map has a bias.

    Shape:
        x (..., in_features), log_radius (...) -> (..., num_classes)

    Differences from the paper: not in the paper. Under scale "relative" the logarithm of the radius is one more input.

    >>> from vnt.models.rivals.network_config import PointNetConfig
    >>> head = ClassifierHead(64, PointNetConfig(num_classes=10))
    >>> head(torch.randn(4, 64), torch.zeros(4)).shape
    torch.Size([4, 10])
    """

    def __init__(
        self, in_features: int, config: NetworkConfig, *, negative_slope: float = 0.0, first_bias: bool = True
    ):
        super().__init__()
        self.tells_radius = config.scale == "relative"
        first, second = config.channels(512), config.channels(256)
        self.first = DenseLayer(in_features + self.tells_radius, first, negative_slope=negative_slope, bias=first_bias)
        self.second = DenseLayer(first, second, negative_slope=negative_slope)
        self.dropout = nn.Dropout(config.dropout)
        self.last = nn.Linear(second, config.num_classes)

    def forward(
        self, x: Float[Tensor, "*batch F"], log_radius: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch classes"]:
        if self.tells_radius:
            x = torch.cat([x, log_radius[..., None].to(x.dtype)], -1)
        x = self.dropout(self.first(x))
        return self.last(self.dropout(self.second(x)))
