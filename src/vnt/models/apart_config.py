"""Configs of models that judge shape and attributes apart. No torch."""

from dataclasses import dataclass
from typing import Literal

from vnt.configuration import Config
from vnt.models.config import ClassifierConfig, require_dropout, require_scales


@dataclass(frozen=True, kw_only=True)
class ScanConfig(Config):
    """A classifier that sees of a cloud only within which radius its attributes gather.

    Attributes:
        num_classes: of the logits.
        num_attributes: d_A, scalars per point, at least one. What counts is their square.
        num_radii: of the balls, evenly up to the cloud's diameter: twice the distance of its farthest point.
        hidden_channels: width of the MLP on what the balls say.
        dropout: in that MLP.
        num_vectors: extra vectors per point, which it does not look at.
        attribute_scales, center: as in `vnt.ClassifierConfig`.
        scale: the cloud's size does not matter.
    """

    num_classes: int
    num_attributes: int = 1
    num_radii: int = 64
    hidden_channels: int = 128
    dropout: float = 0.2
    num_vectors: int = 0
    attribute_scales: tuple[float, ...] = ()
    center: Literal["mean", "median", "none"] = "mean"
    scale: Literal["invariant"] = "invariant"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_classes", "num_attributes", "num_radii", "hidden_channels")
        self._require_at_least(0, "num_vectors")
        require_dropout(self.dropout)
        require_scales(self.attribute_scales, self.num_attributes)


@dataclass(frozen=True, kw_only=True)
class ApartConfig(Config):
    """Two classifiers that were trained apart, whose logits are added.

    Attributes:
        num_classes, num_attributes, num_vectors: of both.
        shape: of the VN-Transformer, which sees no attributes.
        evidence: of what sees the attributes.
        weight: of the second one's logits. Where the two know some of the same, less than 1 is best.
    """

    num_classes: int
    num_attributes: int = 1
    num_vectors: int = 0
    shape: ClassifierConfig
    evidence: ScanConfig
    weight: float = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(0, "weight")
        if self.shape.num_attributes:
            raise ValueError(f"shape is judged without attributes, got num_attributes={self.shape.num_attributes}")
        if self.evidence.num_attributes != self.num_attributes:
            raise ValueError(
                f"the evidence is for {self.evidence.num_attributes} attributes, got {self.num_attributes}"
            )
        for name in ("num_classes", "num_vectors"):
            parts = {getattr(part, name) for part in (self, self.shape, self.evidence)}
            if len(parts) > 1:
                raise ValueError(f"both parts must have the same {name}, got {', '.join(map(str, sorted(parts)))}")
