"""Configs of VN-PointNet and VN-DGCNN, which the paper compares with, and of PointNet and DGCNN. No torch."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from vnt.configuration import Config
from vnt.models.config import require_dropout, require_scales


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Config):
    """What all four networks share.

    Attributes:
        num_classes: of the logits.
        width: factor on the number of channels of every layer; 1 is the published size.
        dropout: behind both hidden layers of the MLP that ends the network.
        num_attributes: d_A, scalars per point; 0 but for VN-PointNet, the only one the paper gives attributes to.
        num_vectors: extra vectors per point beside its position (normals), which turn, but do not move.
        attribute_scales, center: as in `vnt.ClassifierConfig`.
        scale: as in `vnt.ClassifierConfig`; under "relative" the logarithm of the radius is one more number for the MLP
            that ends the network.
    """

    takes_attributes: ClassVar[bool] = False

    num_classes: int
    width: float = 1.0
    dropout: float = 0.5
    num_attributes: int = 0
    attribute_scales: tuple[float, ...] = ()
    num_vectors: int = 0
    center: Literal["mean", "median", "none"] = "mean"
    scale: Literal["relative", "invariant", "raw"] = "relative"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_classes")
        self._require_at_least(0, "num_vectors", "num_attributes")
        if self.num_attributes != 0 and not self.takes_attributes:
            raise ValueError(f"a {type(self).__name__} takes no attributes, got num_attributes={self.num_attributes}")
        if not 0 < self.width <= 64:
            raise ValueError(f"width must lie in (0, 64], got {self.width}")
        require_scales(self.attribute_scales, self.num_attributes)
        require_dropout(self.dropout)

    @property
    def spatial_dim(self) -> int:
        """S: 3, or 3 + d_A where attributes are coordinates."""
        return 3 + self.num_attributes

    def channels(self, published: int) -> int:
        """Channels of a layer that was published with so many, at this width.

        >>> PointNetConfig(num_classes=40, width=0.5).channels(1024)
        512
        """
        return max(1, round(published * self.width))


@dataclass(frozen=True, kw_only=True)
class VectorNetworkConfig(NetworkConfig):
    """What both vector-neuron networks share.

    Attributes:
        num_neighbors: k, each point counted as its own nearest neighbour, as by Deng et al.
        pooling: over neighbours: their "mean", which is what works, or the "max" along learned directions.
        negative_slope: of every VN-ReLU.
        norm: "batch" is VN-BatchNorm as Deng et al. have it; "upright_batch" begins without turning vectors round
            (`vnt.VNBatchNorm`).
        norm_eps: guard of every VN-BatchNorm, of the variance and of squared lengths, which are about 1. Deng et al.
            have 1e-5 and 1e-12. In a symmetric cloud many vectors vanish but for rounding, and each norm makes these
            longer by about 1/√norm_eps: with 1e-5 for both, the order of a lattice's points shows in the logits, in
            float64.
        length_eps: where given, it is added to the lengths themselves, not under the root, and ``norm_eps`` guards the
            variance alone. That is Deng et al.'s program, with 1e-6 and 1e-5, and what weights from there want.
        relu_eps: guard of every VN-ReLU; Deng et al. have 1e-6.
        tie_tolerance: relative difference up to which two distances to neighbours, or two scores of a maximum, are tied
            and shared. By default what rounding may do to them, so that it decides nothing; 0 shares what is equal to
            the last digit alone, which is as near as this comes to Deng et al., who take one of them.
    """

    num_neighbors: int = 20
    pooling: Literal["mean", "max"] = "mean"
    negative_slope: float = 0.2
    norm: Literal["batch", "upright_batch"] = "batch"
    norm_eps: float = 1e-2
    length_eps: float | None = None
    relu_eps: float = 1e-2
    tie_tolerance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(2, "num_neighbors")
        if not 0 <= self.negative_slope < 1:
            raise ValueError(f"negative_slope must lie in [0, 1), got {self.negative_slope}")
        self._require_positive("norm_eps", "relu_eps", *(() if self.length_eps is None else ("length_eps",)))
        if self.tie_tolerance is not None and not 0 <= self.tie_tolerance < 1:
            raise ValueError(f"tie_tolerance must lie in [0, 1), got {self.tie_tolerance}")

    def vector_channels(self, published: int) -> int:
        """Vector channels in the place of so many scalar ones: a third of them, and at least four.

        >>> VNDGCNNConfig(num_classes=40).vector_channels(1024)
        341
        """
        return max(4, self.channels(published) // 3)


@dataclass(frozen=True, kw_only=True)
class VNPointNetConfig(VectorNetworkConfig):
    """VN-PointNet (Deng et al. 2021): edges, a few VN layers on each point, and what the whole cloud has to say.

    Attributes:
        dropout: 0.4, as in Deng et al.'s program.
        negative_slope: 0, as in Deng et al.'s program.
        num_attributes: enter early (Table 2): the position's row is [x, a], and all vectors have 3 + d_A coordinates.
    """

    takes_attributes: ClassVar[bool] = True

    dropout: float = 0.4
    negative_slope: float = 0.0


@dataclass(frozen=True, kw_only=True)
class VNDGCNNConfig(VectorNetworkConfig):
    """VN-DGCNN (Deng et al. 2021): four edge-convolutions, each among neighbours in the features of the one before."""


@dataclass(frozen=True, kw_only=True)
class PointNetConfig(NetworkConfig):
    """PointNet (Qi et al. 2017) with both of its alignment networks.

    Attributes:
        dropout: 0.3, Qi et al. keep 0.7.
    """

    dropout: float = 0.3


@dataclass(frozen=True, kw_only=True)
class DGCNNConfig(NetworkConfig):
    """DGCNN (Wang et al. 2019): four edge-convolutions, each among neighbours in the features of the one before.

    Attributes:
        num_neighbors: k, each point counted as its own nearest neighbour, as by Wang et al.
    """

    num_neighbors: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(2, "num_neighbors")
