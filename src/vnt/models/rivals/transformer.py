"""Plain Transformers on raw coordinates: good where training and test poses agree, lost where they do not."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.geometry import masked_max, masked_mean
from vnt.models.forecaster import TIME_FREQUENCIES, last_observed, smooth_motions, step_differences, time_features
from vnt.models.rivals.config import TransformerClassifierConfig, TransformerConfig, TransformerForecasterConfig
from vnt.models.tokens import normalized_tokens


class TransformerClassifier(nn.Module):
    """Coordinates -> linear -> pre-norm Transformer encoder -> mean and max pool -> MLP.

    Shape:
        points (B, N, 3), attributes (B, N, d), mask (B, N), vectors (B, N, K, 3) -> (B, num_classes)

    >>> TransformerClassifier(TransformerClassifierConfig(num_classes=5))(torch.randn(2, 20, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, config: TransformerClassifierConfig):
        super().__init__()
        self.config = config
        self.encoder = _Encoder(config, num_scalars=0)
        self.head = nn.Sequential(
            nn.Linear(2 * config.channels, config.head_channels),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.head_channels, config.num_classes),
        )

    def forward(
        self,
        points: Float[Tensor, "B N 3"],
        attributes: Float[Tensor, "B N d"] | None = None,
        mask: Bool[Tensor, "B N"] | None = None,
        vectors: Float[Tensor, "B N K 3"] | None = None,
    ) -> Float[Tensor, "B classes"]:
        x, _ = self.encoder(points, attributes, mask, vectors, None)
        return self.head(torch.cat([masked_mean(x, mask, -2), masked_max(x, mask, -2)], -1))


class TransformerForecaster(nn.Module):
    """Positions, differences and time -> pre-norm Transformer encoder -> mean pool -> MLP to displacements.

    What comes in, and what a forecast is made of, is as in ours.

    Shape:
        past (B, T, 3), attributes (B, T, d), mask (B, T), vectors (B, T, K, 3) -> (B, num_future, 3)

    >>> TransformerForecaster(TransformerForecasterConfig(num_future=30))(torch.randn(2, 11, 3)).shape
    torch.Size([2, 30, 3])
    """

    motions: Tensor | None

    def __init__(self, config: TransformerForecasterConfig):
        super().__init__()
        self.config = config
        self.encoder = _Encoder(config, num_scalars=2 * TIME_FREQUENCIES, tracks=True)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Sequential(
            nn.Linear(config.channels, 2 * config.channels),
            nn.ReLU(),
            nn.Linear(2 * config.channels, 3 * (config.num_motions or config.num_future)),
        )
        motions = smooth_motions(config.num_future, config.num_motions) if config.num_motions > 0 else None
        self.register_buffer("motions", motions, persistent=False)

    def forward(
        self,
        past: Float[Tensor, "B T 3"],
        attributes: Float[Tensor, "B T d"] | None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        vectors: Float[Tensor, "B T K 3"] | None = None,
    ) -> Float[Tensor, "B T_out 3"]:
        x, radius = self.encoder(past, attributes, mask, vectors, time_features(past, mask))
        displacement = self.head(self.dropout(masked_mean(x, mask, -2))).unflatten(-1, (-1, 3))
        if self.motions is not None:
            displacement = self.motions @ displacement
        return last_observed(past, mask)[:, None] + displacement * radius[:, None, None]


class _Encoder(nn.Module):
    """Centre and scale the points, embed all that is known of each, and let them attend to one another.

    Of ``tracks`` differences between steps are known too, and vectors have units of length, as they have for ours.
    """

    def __init__(self, config: TransformerConfig, *, num_scalars: int, tracks: bool = False):
        super().__init__()
        self.config, self.tracks = config, tracks
        inputs = (
            3 + 3 * tracks + 3 * config.num_vectors + config.num_attributes + num_scalars + (config.scale == "relative")
        )
        self.embed = nn.Linear(inputs, config.channels)
        block = nn.TransformerEncoderLayer(
            config.channels,
            config.num_heads,
            config.hidden_channels or 2 * config.channels,
            dropout=config.block_dropout,
            batch_first=True,
            norm_first=True,
        )
        norm = nn.LayerNorm(config.channels)
        self.blocks = nn.TransformerEncoder(block, config.depth, norm, enable_nested_tensor=False)

    def forward(
        self,
        points: Tensor,
        attributes: Tensor | None,
        mask: Tensor | None,
        vectors: Tensor | None,
        scalars: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        tokens = normalized_tokens(self.config, points, attributes, mask, vectors, scale_vectors=self.tracks)
        parts = [tokens.vectors.flatten(-2)]
        if self.tracks:
            parts.append(step_differences(tokens.positions, mask))
        if tokens.scalars is not None:
            parts.append(tokens.scalars)
        if scalars is not None:
            parts.append(scalars)
        if self.config.scale == "relative":
            parts.append(tokens.log_radius[..., None, None].expand(*points.shape[:-1], 1))
        padding = None if mask is None else ~mask
        return self.blocks(self.embed(torch.cat(parts, -1)), src_key_padding_mask=padding), tokens.radius
