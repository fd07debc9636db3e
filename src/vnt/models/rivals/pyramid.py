"""What RI-Conv and GC-Conv share: layers on ever fewer points, shells in each neighbourhood, a max pool and an MLP."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.geometry import masked_max
from vnt.models.heads import MaskedBatchNorm
from vnt.models.rivals.invariant_config import InvariantConfig
from vnt.models.rivals.sampling import Neighborhoods, find_neighborhoods
from vnt.models.tokens import normalized_tokens
from vnt.precision import at_least_float32, full_precision


@dataclass(frozen=True)
class Level:
    """The points that a layer sees, padded with anything, and what the layer before knows of each.

    Attributes:
        positions: (B, N, 3), centred and scaled.
        mask: (B, N), True where a point exists.
        resolution: (B,), the rounding of positions.
        features: (B, N, C), or None before the first layer.
    """

    positions: Float[Tensor, "B N 3"]
    mask: Bool[Tensor, "B N"]
    resolution: Float[Tensor, "B"]
    features: Float[Tensor, "B N C"] | None = None


def row_mlp(*channels: int, dropout: float = 0.0) -> nn.Sequential:
    """Linear, batch norm, ReLU and dropout for each pair of widths, on rows."""
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(channels):
        layers += [nn.Linear(width_in, width_out, bias=False), MaskedBatchNorm(width_out, eps=1e-3), nn.ReLU()]
        if dropout > 0:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)


class ShellLayer(nn.Module):
    """Representatives → neighbourhoods → an MLP on each neighbour → max in each shell → convolution over the shells.

    A subclass says what is known of a neighbour, and may say more of each shell. The convolution's kernel is as long as
    there are shells: one linear map of all of them.

    Args:
        in_channels: of the layer before; 0 for none.
        out_channels: of this one.
        num_points, num_neighbors, num_shells: see `InvariantConfig`.

    Shape:
        Level of (B, N, 3) and (B, N, in_channels) -> Level of (B, R, 3) and (B, R, out_channels)
    """

    num_neighbor_features: int
    num_shell_features: int = 0

    def __init__(self, in_channels: int, out_channels: int, num_points: int, num_neighbors: int, num_shells: int):
        super().__init__()
        self.counts = {"num_points": num_points, "num_neighbors": num_neighbors, "num_shells": num_shells}
        lifted = max(4, out_channels // 2)
        self.lift = row_mlp(self.num_neighbor_features, max(4, lifted // 2), lifted)
        width = in_channels + lifted
        self.shell_lift = None
        if self.num_shell_features > 0:
            self.shell_lift = row_mlp(self.num_shell_features, max(4, lifted // 2))
            width += max(4, lifted // 2)
        self.mix = row_mlp(num_shells * width, out_channels)

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next(self.parameters()).dtype

    def describe(
        self, around: Neighborhoods, level: Level, whole: Level
    ) -> tuple[Float[Tensor, "M K F"], Float[Tensor, "M S G"] | None]:
        """Rotation-invariant numbers of each neighbour, and of each shell; ``whole`` is what the first layer sees."""
        raise NotImplementedError

    def forward(self, level: Level, whole: Level) -> Level:
        with full_precision(level.positions):
            around = find_neighborhoods(level.positions, level.mask, level.resolution, **self.counts)
            known, of_shells = self.describe(around, level, whole)
        dtype = self.dtype
        rows = self.lift(known[around.exists].to(dtype))
        if level.features is not None:
            before = level.features[around.cloud[:, None], around.index][around.exists]
            rows = torch.cat([before, rows], -1)
        pooled = pool_shells(rows, around)
        if self.shell_lift is not None and of_shells is not None:
            extra = self.shell_lift(of_shells.flatten(0, 1).to(dtype))
            pooled = torch.cat([pooled, extra.unflatten(0, of_shells.shape[:2])], -1)
        features = self.mix(pooled.flatten(1))
        positions = around.pad(level.positions[around.cloud, around.center])
        return Level(positions, around.slots, level.resolution, around.pad(features))


def pool_shells(rows: Float[Tensor, "E C"], around: Neighborhoods) -> Float[Tensor, "M S C"]:
    """The largest value in each shell, of rows that belong to the neighbours that exist, in order."""
    spread = rows.new_full((*around.exists.shape, rows.shape[-1]), -torch.inf).index_put((around.exists,), rows)
    shells = [torch.where(held[..., None], spread, -torch.inf).amax(-2) for held in around.shells.unbind(1)]
    return torch.stack(shells, 1)


class PyramidClassifier(nn.Module):
    """Layers of one kind on ever fewer points, the largest value of each channel over the last, and an MLP.

    How many points tie decides the sizes of tensors, so `torch.compile` cannot make one graph of it.

    Args:
        config: an `InvariantConfig`.
        layer: the kind of layers.

    Shape:
        points (B, N, 3), mask (B, N) True where a point exists -> (B, num_classes)
    """

    def __init__(self, config: InvariantConfig, layer: type[ShellLayer]):
        super().__init__()
        self.config = config
        channels = [0, *map(config.scaled, config.channels)]
        sizes = zip(pairwise(channels), config.num_points, config.num_neighbors, config.num_shells, strict=True)
        self.layers = nn.ModuleList(layer(*widths, *counts) for widths, *counts in sizes)
        head = [channels[-1] + (config.scale == "relative"), *map(config.scaled, config.head_channels)]
        self.head = nn.Sequential(row_mlp(*head, dropout=config.dropout), nn.Linear(head[-1], config.num_classes))

    def forward(
        self,
        points: Float[Tensor, "B N 3"],
        attributes: Float[Tensor, "B N d"] | None = None,
        mask: Bool[Tensor, "B N"] | None = None,
        vectors: Float[Tensor, "B N K 3"] | None = None,
    ) -> Float[Tensor, "B classes"]:
        if points.ndim != 3:
            raise ValueError(f"{type(self).__name__} expects points (B, N, 3), got {tuple(points.shape)}")
        tokens = normalized_tokens(self.config, points, attributes, mask, vectors, scale_vectors=False)
        exists = torch.ones(points.shape[:2], dtype=torch.bool, device=points.device) if mask is None else mask
        whole = Level(at_least_float32(tokens.positions), exists, at_least_float32(tokens.resolution))
        level = whole
        for layer in self.layers:
            level = layer(level, whole)
        assert level.features is not None
        pooled = masked_max(level.features, level.mask, -2)
        if self.config.scale == "relative":
            pooled = torch.cat([pooled, tokens.log_radius[:, None].to(pooled.dtype)], -1)
        return self.head(pooled)
