"""The classifier around the layers of a Tensor Field Network or an SE(3)-Transformer."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.geometry import masked_max, masked_mean
from vnt.models.heads import make_head, make_point_mlp
from vnt.models.rivals.e3nn_config import SteerableConfig
from vnt.models.rivals.equivariant_kernels import EPS, Fiber, SelfInteraction, find_edges
from vnt.models.rivals.steerable_layers import SteerableNorm
from vnt.models.tokens import InputTokens, normalized_tokens
from vnt.precision import full_precision


class SteerableClassifier(nn.Module):
    """Class logits from blocks of steerable layers: embed → blocks → norm → invariants → MLP → pool → MLP.

    A point starts with three scalars (a one, a function of its distance from the centre, the logarithm of the cloud's
    radius where the config tells it) and one vector, its position relative to the centre. Its invariants are its
    scalars and the lengths of its vectors; the pool is of means and maxima. Blocks take rows of features and edges. All
    in full precision under autocast: e3nn's products do not mix precisions.

    Shape:
        points (..., N, 3), mask (..., N) -> (..., num_classes)

    Differences from the paper: both papers start from constants or attributes; the position is what ours sees too, and
    the MLP on each point's invariants is ours.
    """

    def __init__(self, config: SteerableConfig, blocks: list[nn.Module]):
        super().__init__()
        self.config = config
        self.fiber = Fiber(config.width, config.num_type1)
        self.embed = SelfInteraction(Fiber(3, 1), self.fiber)
        self.blocks = nn.ModuleList(blocks)
        self.norm = SteerableNorm(self.fiber, config.norm_eps)
        self.point_mlp, width = None, sum(self.fiber)
        if config.point_channels > 0:
            self.point_mlp = make_point_mlp(width, config.point_channels)
            width = config.point_channels
        self.head = make_head(2 * width, config.head_channels, config.num_classes, config.dropout)

    def forward(
        self,
        points: Float[Tensor, "*batch N 3"],
        attributes: Float[Tensor, "*batch N d_A"] | None = None,
        mask: Bool[Tensor, "*batch N"] | None = None,
        vectors: Float[Tensor, "*batch N K 3"] | None = None,
    ) -> Float[Tensor, "*batch classes"]:
        config = self.config
        tokens = normalized_tokens(config, points, attributes, mask, vectors, scale_vectors=False)
        positions = tokens.positions.to(next(self.parameters()).dtype)
        with full_precision(positions):
            edges = find_edges(
                positions, config.num_neighbors, mask, max_degree=config.max_degree, resolution=tokens.resolution
            )
            x = self.embed(torch.cat([self._scalars(tokens).to(positions.dtype), positions], -1))
            for block in self.blocks:
                x = block(x, edges)
            scalars, channels = self.fiber.split(self.norm(x))
            x = torch.cat([scalars, (channels.square().sum(-1) + EPS).sqrt()], -1)
            x = x if self.point_mlp is None else self.point_mlp(x)
            return self.head(torch.cat([masked_mean(x, mask, -2), masked_max(x, mask, -2)], -1))

    def _scalars(self, tokens: InputTokens) -> Float[Tensor, "*batch N 3"]:
        distance = tokens.positions.square().sum(-1).log1p()
        told = tokens.log_radius if self.config.scale == "relative" else torch.zeros_like(tokens.radius)
        return torch.stack([torch.ones_like(distance), distance, told[..., None].expand_as(distance)], -1)
