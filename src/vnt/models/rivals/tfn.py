"""Tensor Field Network (Thomas et al. 2018) as a classifier, by e3nn."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnt.models.rivals.e3nn_config import TFNConfig
from vnt.models.rivals.equivariant_kernels import (
    Edges,
    Fiber,
    SelfInteraction,
    SteerableKernel,
)
from vnt.models.rivals.steerable import SteerableClassifier
from vnt.models.rivals.steerable_layers import Gate, SteerableNorm


class TFNLayer(nn.Module):
    r"""x + self-interaction(gate(point convolution(norm(x)) + self-interaction(norm(x)))).

    $$\text{conv}(f)^{(i)} = \frac{1}{\sum_j w_{ij}} \sum_j w_{ij} \, W(x_j - x_i) f^{(j)}$$

    over the nearest neighbours, whose weights $w_{ij}$ are 1, and shared where neighbours tie.

    Shape:
        (..., N, D), edges -> (..., N, D)

    Differences from the paper: a mean over nearest neighbours instead of a sum over all points, a norm, a gate, and a
    residual connection.

    >>> from vnt.models.rivals.equivariant_kernels import find_edges
    >>> layer = TFNLayer(Fiber(8, 4))
    >>> layer(torch.randn(2, 30, 20), find_edges(torch.randn(2, 30, 3), 6)).shape
    torch.Size([2, 30, 20])
    """

    def __init__(self, fiber: Fiber, *, radial_channels: int = 32, max_degree: int = 1, norm_eps: float = 1e-2):
        super().__init__()
        self.norm, self.gate = SteerableNorm(fiber, norm_eps), Gate(fiber)
        self.kernel = SteerableKernel(
            fiber, self.gate.inputs, radial_channels=radial_channels, max_degree=max_degree, radial="channel"
        )
        self.own = SelfInteraction(fiber, self.gate.inputs, bias=True)
        self.output = SelfInteraction(fiber, fiber)

    def forward(self, x: Float[Tensor, "*batch N D"], edges: Edges) -> Float[Tensor, "*batch N D"]:
        y = self.norm(x)
        total = edges.weight.sum(-1, keepdim=True)
        share = edges.weight / torch.where(total > 0, total, 1)
        messages = self.kernel.messages(edges.gather(y), edges)
        messages = (share[..., None, :].to(messages.dtype) @ messages).squeeze(-2)
        return x + self.output(self.gate(self.kernel.mixed(messages) + self.own(y)))


class TFNClassifier(SteerableClassifier):
    """Tensor Field Network with scalars and vectors on nearest neighbours, pooled to class logits.

    Args:
        config: a `TFNConfig`.

    Shape:
        points (..., N, 3), mask (..., N) True where a point exists -> (..., num_classes). Attributes and vectors are
        refused.

    Differences from the paper: those of `TFNLayer` and of `SteerableClassifier`.

    >>> TFNClassifier(TFNConfig(num_classes=5, width=8))(torch.randn(2, 20, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, config: TFNConfig):
        fiber = Fiber(config.width, config.num_type1)
        layers: list[nn.Module] = [
            TFNLayer(
                fiber,
                radial_channels=config.radial_channels,
                max_degree=config.max_degree,
                norm_eps=config.norm_eps,
            )
            for _ in range(config.depth)
        ]
        super().__init__(config, layers)
