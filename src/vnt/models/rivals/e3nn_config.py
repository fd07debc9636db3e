"""Configs of the steerable networks: Tensor Field Network and SE(3)-Transformer. No torch, no e3nn."""

from dataclasses import dataclass
from typing import Literal

from vnt.configuration import Config
from vnt.models.config import require_dropout


@dataclass(frozen=True, kw_only=True)
class SteerableConfig(Config):
    """What both share. They see the same centred and scaled points as ours.

    Attributes:
        num_classes: of the logits.
        width: type-0 features (scalars) of a point; it has half as many of type 1 (vectors).
        depth: number of layers.
        num_neighbors: k, how many nearest neighbours a layer looks at.
        radial_channels: width of the networks that make a kernel's radial functions from a distance.
        max_degree: largest degree l of the spherical harmonics; 2 is what the full kernel from type 1 to type 1 has, 1
            saves some time, and costs a Tensor Field Network accuracy.
        point_channels: width of the MLP on each point's invariant features before pooling; 0 pools them as they are.
        head_channels: width of the MLP behind the pool.
        dropout: in that MLP.
        norm_eps: guard of each norm of the vectors, which are about 1. In the middle of a symmetric cloud they vanish
            but for rounding, and each norm makes that longer by up to 1/√norm_eps.
        num_attributes, num_vectors: 0, since these networks take positions alone.
        center, scale: as in `vnt.ClassifierConfig`.
    """

    num_classes: int
    width: int = 96
    depth: int = 3
    num_neighbors: int = 16
    radial_channels: int = 32
    max_degree: Literal[1, 2] = 2
    point_channels: int = 256
    head_channels: int = 256
    dropout: float = 0.0
    norm_eps: float = 1e-2
    num_attributes: int = 0
    num_vectors: int = 0
    center: Literal["mean", "median", "none"] = "mean"
    scale: Literal["relative", "invariant", "raw"] = "relative"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_classes", "depth", "num_neighbors", "radial_channels", "head_channels")
        self._require_at_least(2, "width")
        self._require_at_least(0, "point_channels")
        self._require_positive("norm_eps")
        require_dropout(self.dropout)
        for name in ("num_attributes", "num_vectors"):
            if getattr(self, name) != 0:
                what = name.removeprefix("num_")
                raise ValueError(
                    f"{name} must be 0: this model takes positions alone, no {what}; got {getattr(self, name)}"
                )

    @property
    def num_type1(self) -> int:
        """Type-1 features of a point."""
        return self.width // 2


@dataclass(frozen=True, kw_only=True)
class TFNConfig(SteerableConfig):
    """A Tensor Field Network that classifies clouds.

    >>> TFNConfig(num_classes=40, width=32).num_type1
    16
    """


@dataclass(frozen=True, kw_only=True)
class SE3TransformerConfig(SteerableConfig):
    """An SE(3)-Transformer that classifies clouds.

    Attributes:
        num_heads: of the attention; divides the numbers of type-0 and of type-1 features.
        radial: "channel" learns one radial function for each path and channel and lets linear self-interaction mix
            the channels, as Tensor Field Networks do; "pair" learns one for each path and pair of channels, as the
            SE(3)-Transformer's authors did, which costs as many times the memory as there are channels.
        norm_eps: as above; a block has two norms, and with 0.01 three of them turn a lattice's rounding into 0.2 %.
    """

    norm_eps: float = 1.0
    num_heads: int = 4
    radial: Literal["channel", "pair"] = "channel"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_heads")
        if self.width % self.num_heads or self.num_type1 % self.num_heads:
            raise ValueError(
                f"num_heads must divide the {self.width} type-0 and the {self.num_type1} type-1 features, "
                f"got {self.num_heads}"
            )
