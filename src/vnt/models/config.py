"""Configs of the two models: frozen, keyword-only, checked when made, and the same after a trip through JSON.

This file imports no torch, so that help texts and recipes answer at once.
"""

import math
from dataclasses import dataclass
from typing import Literal

from vnt.configuration import Config

Fusion = Literal["none", "early", "late"]
Lift = Literal["linear", "mlp"]


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(Config):
    """What classifier and forecaster share: how points become tokens, and how tokens are encoded.

    Attributes:
        channels: C, vector channels of a token.
        num_heads: H, divides C. Small heads (many of them) have worked best.
        depth: number of encoder blocks.
        repeats: how often tokens go through all of them: more depth, no more parameters. Not in the paper.
        hidden_channels: width inside each block's VN-MLP; None means 2C.
        norm: of the blocks. "rms" is well-conditioned, "layer" the paper's, which begins by turning round all vectors
            that are shorter than the mean. "upright_layer" is the same equation with another start of its shift, which
            turns next to none round: what the paper's arrangement wants most (docs/results/letter.md).
        norm_eps: guard of that norm. At 1 it shortens long tokens and leaves short ones short, so that what is nothing
            but rounding stays so; that suits tokens of length one, which ``scale`` sees to. The paper has 0, which a
            zero token would not survive.
        norm_position: "pre"; "post" as we read Fig. 2; or "branch", behind a sublayer and before the sum, as others do.
        mlp_norm: norm inside each VN-MLP; "batch" is the paper's, "upright_batch" as above, "none" is enough behind a
            pre-norm.
        lift: how an input point becomes C channels: "linear", a VN-Linear gated by the point's distance from the
            centre, or "mlp", the VN-MLP of Fig. 1, whose VN-ReLU acts on tokens of rank one: errors of order one.
        negative_slope: of every VN-ReLU.
        relu_eps: guard of the VN-ReLUs behind a norm, where directions have length one on average: those well below
            √relu_eps are softened, since they amplify rounding. The paper has 0, as above.
        bias_epsilon: ε of every VN-Linear; 0 is exactly equivariant. Our own additions (``chirality``, and the
            attention through which attributes join late) have none.
        num_vectors: extra vectors per point beside its position (normals, velocities): they turn, but do not move. The
            forecaster takes them to have units of length, as velocities do, the classifier to have none, as normals.
        num_attributes: d_A, scalars per point.
        attribute_scales: what each attribute is divided by; none leaves them as they are. In training the data decide
            where nothing is said, unless ``scale`` is "raw": the root mean square of the values that are not zero, so
            that flags stay 0 and 1.
        fusion: how attributes enter. "early" appends them to the coordinates, S = 3 + d_A; "late" lets them join
            invariant features behind the encoder.
        attribute_anchor: early fusion only. Without it the group is O(3 + d_A), not O(3): negating an attribute, or
            swapping two one-hot classes everywhere, changes nothing. A constant channel per attribute fixes the axes.
        chirality: adds cross products behind the encoder. Without them mirror images look alike.
        num_latents: M latents of Fig. 5 instead of attention among all points; 0 means none.
        read_back: where there are latents, each point reads from them before anything is pooled. Without it latents
            are what is pooled, as in the paper, and what a single point knows is lost: that costs much accuracy.
        chunk_size: points of a cloud whose tokens are held at once, where there are latents; 0 means all. A larger
            cloud is read in chunks, which are made once more in the backward pass: less memory, the same result.
        num_neighbors: k of the edge-convolution in the lift; 0 means none.
        surroundings: widths, in units of the cloud's radius (in the coordinates' where ``scale`` is "raw"), of the
            windows through which each point sees how the cloud lies around it: four more input vectors for each
            (`vnt.functional.surroundings`). Costs the square of the number of points, as attention does. Not in the
            paper.
        center: what each cloud is taken relative to: its "mean", its geometric "median" (outliers), or "none".
        scale: "relative" divides each cloud by its RMS radius and tells the network the logarithm of it, so that units
            do not matter to training; "invariant" does not tell, so that size cannot matter to the result; "raw" takes
            coordinates as they are, as the paper does. A forecast is multiplied by the radius again.
    """

    channels: int = 64
    num_heads: int = 8
    depth: int = 2
    repeats: int = 1
    hidden_channels: int | None = None
    norm: Literal["rms", "layer", "batch", "upright_layer", "upright_batch"] = "rms"
    norm_eps: float = 1.0
    norm_position: Literal["pre", "post", "branch"] = "pre"
    mlp_norm: Literal["rms", "layer", "batch", "upright_layer", "upright_batch", "none"] = "none"
    lift: Lift = "linear"
    negative_slope: float = 0.0
    relu_eps: float = 1e-2
    bias_epsilon: float = 0.0
    num_vectors: int = 0
    num_attributes: int = 0
    attribute_scales: tuple[float, ...] = ()
    fusion: Fusion = "none"
    attribute_anchor: bool = True
    chirality: bool = False
    num_latents: int = 0
    read_back: bool = False
    chunk_size: int = 524288
    num_neighbors: int = 0
    surroundings: tuple[float, ...] = ()
    center: Literal["mean", "median", "none"] = "mean"
    scale: Literal["relative", "invariant", "raw"] = "relative"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "channels", "num_heads", "depth", "repeats")
        self._require_at_least(0, "num_vectors", "num_attributes", "num_latents", "chunk_size", "num_neighbors")
        self._require_at_least(0, "bias_epsilon")
        self._require_positive("norm_eps", "relu_eps")
        if self.hidden_channels is not None:
            self._require_at_least(1, "hidden_channels")
        if not all(0 < width < math.inf for width in self.surroundings):
            raise ValueError(f"surroundings must be positive numbers, got {self.surroundings}")
        if not math.isfinite(self.negative_slope):
            raise ValueError(f"negative_slope must be finite, got {self.negative_slope!r}")
        if self.channels % self.num_heads:
            raise ValueError(f"num_heads must divide channels, got {self.num_heads} heads for {self.channels} channels")
        if (self.num_attributes > 0) != (self.fusion != "none"):
            raise ValueError(
                f"attributes need a fusion and a fusion needs attributes: got num_attributes={self.num_attributes} "
                f"with fusion={self.fusion!r}"
            )
        require_scales(self.attribute_scales, self.num_attributes)
        if self.read_back and self.num_latents == 0:
            raise ValueError("read_back needs latents to read from: got num_latents=0")
        if self.lift == "mlp" and self.num_neighbors > 0:
            raise ValueError(
                f"lift='mlp' takes the place of an edge-convolution, got num_neighbors={self.num_neighbors} with it"
            )

    @property
    def pools_latents(self) -> bool:
        """Whether the tokens that leave the encoder are latents, and not points."""
        return self.num_latents > 0 and not self.read_back

    @property
    def spatial_dim(self) -> int:
        """S: 3, or 3 + d_A under early fusion."""
        return 3 + (self.num_attributes if self.fusion == "early" else 0)


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(BackboneConfig):
    """The rotation-invariant classifier (Figs. 1a and 4a); with the rest left alone, the well-conditioned one.

    Attributes:
        num_classes: κ.
        pooling: over the points' invariant features: "mean", "max", or both side by side.
        point_channels: width of the MLP on each point's invariant features before pooling; 0 pools them as they are.
        head_channels: width of the MLP behind the pool.
        head_norm: of both MLPs and of the networks on pairs: "layer", or "batch", whose noise keeps a network from
            learning clouds by heart.
        dropout: in the MLP behind the pool.
        attribute_pooling: late fusion only. Pool once more for each attribute, with weight where it is large
            (`vnt.models.heads.AttributePool`): a mean over all points loses what a few of them have in common.
        pair_rounds: how often an ordinary network looks at each point's neighbours, through invariants of pairs
            (`vnt.models.pairs.PairDescriptor`); 0 means never. Needs ``surroundings``. Not in the paper.
        pair_channels: numbers that it finds of each point.
        pair_divisor: it looks at the nearest N / pair_divisor of a cloud's N points, and at least at four; memory grows
            with N² / pair_divisor.

    >>> ClassifierConfig(num_classes=40, channels=32).spatial_dim
    3
    """

    num_classes: int
    pooling: Literal["mean", "max", "mean+max"] = "mean+max"
    point_channels: int = 256
    head_channels: int = 256
    head_norm: Literal["layer", "batch"] = "layer"
    dropout: float = 0.0
    attribute_pooling: bool = False
    pair_rounds: int = 0
    pair_channels: int = 64
    pair_divisor: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_classes", "head_channels", "pair_channels", "pair_divisor")
        self._require_at_least(0, "point_channels", "pair_rounds")
        if self.pair_rounds > 0 and not self.surroundings:
            raise ValueError(f"pairs are described by surroundings, got none with pair_rounds={self.pair_rounds}")
        require_dropout(self.dropout)
        if self.attribute_pooling and self.fusion != "late":
            raise ValueError(f"attribute_pooling needs fusion='late', got {self.fusion!r}")


@dataclass(frozen=True, kw_only=True)
class ForecasterConfig(BackboneConfig):
    """The rotation-equivariant forecaster (Figs. 1b and 4b); with all left alone, the well-conditioned one.

    Attributes:
        num_future: N_out, steps to predict.
        num_motions: how many smooth functions of time a forecast is made of; 0 predicts every step by itself, as the
            paper does. Six come within 4 cm of what vehicles do in eight seconds, and leave less to overfit.
        head_channels: width of an ordinary MLP that adds to the forecast, by amounts that it makes of invariants
            (`vnt.models.heads.InvariantMixing`); 0 leaves the VN-MLP alone, as the paper has it.
        dropout: in that MLP.
        predict_attributes: early fusion only. Return N_out × (3 + d_A), of which the first three turn.

    >>> ForecasterConfig(num_attributes=1, fusion="early").spatial_dim
    4
    """

    num_future: int = 80
    num_motions: int = 0
    head_channels: int = 0
    dropout: float = 0.0
    predict_attributes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "num_future")
        self._require_at_least(0, "head_channels")
        require_dropout(self.dropout)
        if self.dropout > 0 and self.head_channels == 0:
            raise ValueError(f"dropout is in the MLP of head_channels, got dropout={self.dropout} with head_channels=0")
        require_motions(self.num_motions, self.num_future)
        if self.predict_attributes and self.fusion != "early":
            raise ValueError(f"predict_attributes needs fusion='early', got {self.fusion!r}")


def require_motions(num_motions: int, num_future: int) -> None:
    """A forecast of so many steps can be made of so many functions of time."""
    if not 0 <= num_motions <= num_future:
        raise ValueError(f"num_motions must be between 0 and num_future, got {num_motions} for {num_future} steps")


def require_scales(scales: tuple[float, ...], num_attributes: int) -> None:
    """One for each attribute, or none."""
    if scales and (len(scales) != num_attributes or not all(0 < scale < math.inf for scale in scales)):
        raise ValueError(f"attribute_scales must be {num_attributes} positive numbers or none, got {scales}")


def require_dropout(share: float) -> None:
    """Dropout leaves something."""
    if not 0 <= share < 1:
        raise ValueError(f"dropout must lie in [0, 1), got {share}")
