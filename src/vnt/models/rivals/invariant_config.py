"""Configs of the rotation-invariant rivals, RI-Conv and GC-Conv. No torch."""

import math
from dataclasses import dataclass
from typing import Literal

from vnt.configuration import Config
from vnt.models.config import require_dropout

LAYERS = ("num_points", "num_neighbors", "num_shells", "channels")


@dataclass(frozen=True, kw_only=True)
class InvariantConfig(Config):
    """What both rivals share: layers of ever fewer points with ever more channels, a max pool and an MLP.

    Attributes:
        num_classes: of the logits.
        num_points: representative points of each layer, chosen from those of the layer before; a cloud that has fewer
            keeps them all.
        num_neighbors: points in a neighbourhood of each layer, the representative included; fewer where there are not
            so many, more where points tie at the largest distance.
        num_shells: into how many shells each layer divides a neighbourhood.
        channels: what each layer makes of it.
        head_channels: widths of the MLP behind the pool.
        width: multiplies all channels, for runs on a CPU; none goes below 4.
        dropout: in the MLP behind the pool.
        num_attributes: scalars per point. These networks take none: it must be 0.
        num_vectors: extra vectors per point. It must be 0 too.
        center, scale: as in `vnt.ClassifierConfig`; under "relative" the MLP is told the logarithm of the radius.
    """

    num_classes: int
    num_points: tuple[int, ...] = (512, 128, 32)
    num_neighbors: tuple[int, ...] = (64, 32, 16)
    num_shells: tuple[int, ...] = (4, 2, 1)
    channels: tuple[int, ...] = (128, 256, 512)
    head_channels: tuple[int, ...] = (256, 128)
    width: float = 1.0
    dropout: float = 0.5
    num_attributes: int = 0
    num_vectors: int = 0
    center: Literal["mean", "median", "none"] = "mean"
    scale: Literal["relative", "invariant", "raw"] = "relative"

    def __post_init__(self) -> None:
        for name in (*LAYERS, "head_channels"):
            if isinstance(getattr(self, name), list):  # what JSON makes of a tuple
                object.__setattr__(self, name, tuple(getattr(self, name)))
        super().__post_init__()
        self._require_at_least(1, "num_classes")
        for name in (*LAYERS, "head_channels"):
            self._require_counts(name, least=2 if name == "num_neighbors" else 1)
        if len({len(getattr(self, name)) for name in LAYERS}) != 1 or not self.channels:
            given = ", ".join(f"{name}={getattr(self, name)}" for name in LAYERS)
            raise ValueError(f"points, neighbors, shells and channels need one entry per layer each, got {given}")
        for shells, neighbors in zip(self.num_shells, self.num_neighbors, strict=True):
            if shells > neighbors:
                raise ValueError(f"num_shells must not exceed num_neighbors, got {shells} shells of {neighbors} points")
        if not 0 < self.width < math.inf:
            raise ValueError(f"width must be positive and finite, got {self.width}")
        require_dropout(self.dropout)
        for name in ("num_attributes", "num_vectors"):
            value = getattr(self, name)
            if value != 0:
                raise ValueError(f"{type(self).__name__} takes points alone: {name} must be 0, got {value}")

    def scaled(self, channels: int) -> int:
        """A number of channels times the width, and at least 4."""
        return max(4, round(self.width * channels))

    def _require_counts(self, name: str, least: int) -> None:
        for value in getattr(self, name):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be whole numbers of at least {least}, got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class RIConvConfig(InvariantConfig):
    """RI-Conv (Zhang, Hua, Rosen and Yeung, 3DV 2019), by default of the published size, 0.7M parameters.

    >>> RIConvConfig(num_classes=40, width=0.25).scaled(128)
    32
    """


@dataclass(frozen=True, kw_only=True)
class GCConvConfig(InvariantConfig):
    """GC-Conv (Zhang, Hua, Chen, Tian and Yeung, 3DV 2020) on the layers of RI-Conv.

    >>> GCConvConfig.from_json(GCConvConfig(num_classes=40).to_json()).num_points
    (512, 128, 32)
    """
