"""Configs of the forecasters that ours is compared with."""

from dataclasses import dataclass
from typing import Literal

from vnt.configuration import Config


@dataclass(frozen=True, kw_only=True)
class TrackConfig(Config):
    """What they share.

    Attributes:
        num_future: steps to predict.
        num_attributes, num_vectors: of each step; these forecasters take positions alone, so 0.
    """

    num_future: int = 80
    num_attributes: int = 0
    num_vectors: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_future")
        for name in ("num_attributes", "num_vectors"):
            if getattr(self, name) != 0:
                raise ValueError(f"a {type(self).__name__} takes positions alone, got {name}={getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class ConstantVelocityConfig(TrackConfig):
    """Going on as in the last step."""


@dataclass(frozen=True, kw_only=True)
class LinearForecasterConfig(TrackConfig):
    """The best linear map that turns with its input.

    Attributes:
        num_past: steps of a past.
        ridge: weight of the squared coefficients, in units of the inputs' mean square.
    """

    num_past: int = 11
    ridge: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(2, "num_past")
        self._require_at_least(0, "ridge")


@dataclass(frozen=True, kw_only=True)
class GRUForecasterConfig(TrackConfig):
    """A recurrent network on coordinates.

    Attributes:
        channels: width of its state.
        depth: layers.
        scale: as in `vnt.ForecasterConfig`: "relative" divides a track by its RMS radius and tells the network the
            logarithm of it, "raw" takes metres.
    """

    channels: int = 64
    depth: int = 1
    scale: Literal["relative", "raw"] = "relative"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "channels", "depth")
