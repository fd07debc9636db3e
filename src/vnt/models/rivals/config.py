"""Configs of the plain Transformers: the control that knows nothing of rotations."""

from dataclasses import dataclass
from typing import Literal

from vnt.configuration import Config
from vnt.models.config import require_dropout, require_motions, require_scales


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """What both plain Transformers share. They see the same centred and scaled points as ours.

    Attributes:
        channels: width of a token.
        num_heads, depth, hidden_channels: of the encoder; hidden None means 2 × channels.
        block_dropout: in each block: of attention's weights, and of what attention and MLP add.
        num_attributes: scalars per point, appended to its coordinates.
        num_vectors: extra vectors per point, appended too.
        attribute_scales, center, scale: as in `vnt.ClassifierConfig`.
    """

    channels: int = 96
    num_heads: int = 8
    depth: int = 2
    hidden_channels: int | None = None
    block_dropout: float = 0.0
    num_attributes: int = 0
    attribute_scales: tuple[float, ...] = ()
    num_vectors: int = 0
    center: Literal["mean", "median", "none"] = "mean"
    scale: Literal["relative", "invariant", "raw"] = "relative"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "channels", "num_heads", "depth")
        self._require_at_least(0, "num_attributes", "num_vectors")
        if self.hidden_channels is not None:
            self._require_at_least(1, "hidden_channels")
        require_dropout(self.block_dropout)
        require_scales(self.attribute_scales, self.num_attributes)
        if self.channels % self.num_heads:
            raise ValueError(f"num_heads must divide channels, got {self.num_heads} heads for {self.channels} channels")


@dataclass(frozen=True, kw_only=True)
class TransformerClassifierConfig(TransformerConfig):
    """A plain Transformer that classifies clouds.

    Attributes:
        num_classes: of the logits.
        head_channels: width of the MLP behind the pool.
        dropout: in that MLP.
    """

    num_classes: int
    head_channels: int = 256
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_classes", "head_channels")
        require_dropout(self.dropout)


@dataclass(frozen=True, kw_only=True)
class TransformerForecasterConfig(TransformerConfig):
    """A plain Transformer that forecasts tracks.

    Attributes:
        num_future: steps to predict.
        num_motions: as in `vnt.ForecasterConfig`.
        dropout: of what is pooled.
    """

    num_future: int = 80
    num_motions: int = 0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_future")
        require_motions(self.num_motions, self.num_future)
        require_dropout(self.dropout)
