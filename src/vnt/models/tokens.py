"""From raw points to input tokens: checks, padding, centring, scale, attributes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.checks import require_finite, require_mask
from vnt.functional import LocalMoments, local_moments
from vnt.geometry import Centering, center, rms_radius
from vnt.geometry.centering import power_of_two
from vnt.geometry.masking import blank
from vnt.models.config import BackboneConfig

GUARD = 16
"""Of the radius, in roundings of the coordinates: a cloud not much larger than that is noise, and is not blown up."""

NO_SIZE = 4
"""The radius, in the same unit, up to which rounding alone may have made it: what copies of one point have."""


@runtime_checkable
class InputConfig(Protocol):
    """What a config says of the input, whatever the model: ours, and those it is compared with."""

    @property
    def num_attributes(self) -> int:
        """Scalars per point."""
        ...

    @property
    def num_vectors(self) -> int:
        """Vectors per point, beside its position."""
        ...

    @property
    def center(self) -> Centering:
        """What each cloud is taken relative to."""
        ...

    @property
    def scale(self) -> Literal["relative", "invariant", "raw"]:
        """Whether it is divided by its radius, and whether that is told."""
        ...


@dataclass(frozen=True)
class InputTokens:
    """A batch of clouds as the lift wants them; zero wherever there is no point.

    Attributes:
        vectors: (..., N, C_in, S), one channel per vector input, and one per anchor.
        positions: (..., N, 3), centred and scaled.
        scalars: (..., N, d_A), attributes for late fusion.
        mask: (..., N) or None.
        radius: (...), what the points were divided by.
        resolution: (...), rounding of the coordinates, in units of the radius.
        around: how the cloud lies around each point, where the config has windows to look through.
    """

    vectors: Float[Tensor, "*batch N C_in S"]
    positions: Float[Tensor, "*batch N 3"]
    scalars: Float[Tensor, "*batch N d_A"] | None
    mask: Bool[Tensor, "*batch N"] | None
    radius: Float[Tensor, "*batch"]
    resolution: Float[Tensor, "*batch"]
    around: LocalMoments | None = None

    @property
    def log_radius(self) -> Float[Tensor, "*batch"]:
        """What the network is told of the size: the radius' logarithm, fading to 0 where the guard is all that is left.

        That is a matter of where the cloud lies, and not of its size: see `_normalize`.
        """
        # Of one axis more: forward-mode derivatives of a product of a number and a tensor of no axis are in float64.
        resolution, radius = self.resolution[..., None], self.radius[..., None]
        guard = (GUARD * resolution).square()  # its share of the radius' square: 1 if nothing else is in it
        return ((1 - (1 + (NO_SIZE / GUARD) ** 2) * guard).clamp(min=0) * radius.log()).squeeze(-1)

    def split(self, size: int) -> list["InputTokens"]:
        """The same clouds in chunks of ``size`` points, views of these tensors; the last may have fewer.

        Without a mask, since a chunk may be padding from end to end, and without what lies around: they are for what
        looks at each point by itself.
        """
        axis = self.positions.ndim - 2
        vectors, positions = self.vectors.split(size, axis), self.positions.split(size, axis)
        scalars = [None] * len(positions) if self.scalars is None else self.scalars.split(size, axis)
        return [
            InputTokens(*parts, None, self.radius, self.resolution)
            for parts in zip(vectors, positions, scalars, strict=True)
        ]


def num_input_channels(config: BackboneConfig) -> int:
    """C_in: the position, the extra vectors, and one anchor per attribute under early fusion."""
    anchors = config.num_attributes if config.fusion == "early" and config.attribute_anchor else 0
    return 1 + config.num_vectors + anchors


def input_tokens(
    config: BackboneConfig,
    points: Float[Tensor, "*batch N 3"],
    attributes: Float[Tensor, "*batch N d_A"] | None,
    mask: Bool[Tensor, "*batch N"] | None,
    vectors: Float[Tensor, "*batch N K 3"] | None,
    *,
    scale_vectors: bool,
) -> InputTokens:
    """`normalized_tokens`, with what lies around each point, and the attributes as coordinates under early fusion.

    There the position's row is [x, a], those of other vectors [v, 0], and an anchor's [0, e_i]: a constant along
    attribute axis i. Since VN-Linear mixes rows, the anchors act as a bias on the attribute columns alone, which
    rotations leave in place: exact equivariance, and no symmetry among attributes.
    """
    tokens = normalized_tokens(config, points, attributes, mask, vectors, scale_vectors=scale_vectors)
    if config.surroundings:
        tokens = replace(tokens, around=local_moments(tokens.positions, config.surroundings, mask))
    if config.fusion != "early" or tokens.scalars is None:
        return tokens
    rows = append_attributes(tokens.vectors, tokens.scalars, anchored=config.attribute_anchor)
    return replace(tokens, vectors=rows, scalars=None)


def normalized_tokens(
    config: InputConfig,
    points: Float[Tensor, "*batch N 3"],
    attributes: Float[Tensor, "*batch N d_A"] | None,
    mask: Bool[Tensor, "*batch N"] | None,
    vectors: Float[Tensor, "*batch N K 3"] | None,
    *,
    scale_vectors: bool,
) -> InputTokens:
    """Check what came in, blank out the padding, centre, scale, and set up one vector channel per input.

    ``scale_vectors``: vectors have units of length, as velocities do and normals do not, and count as such.
    """
    _check(config, points, attributes, mask, vectors)
    rows = blank(points, mask)[..., None, :]
    if vectors is not None:
        rows = torch.cat([rows, blank(vectors, mask).to(rows.dtype)], -2)
    rows, radius, resolution = _normalize(config, rows, mask, scale_vectors=scale_vectors)
    positions = rows[..., 0, :]
    scalars = None
    if attributes is not None:
        scalars = by_column(blank(attributes, mask).to(rows.dtype), [1 / scale for scale in attribute_scales(config)])
    return InputTokens(rows, positions, scalars, mask, radius, resolution)


def attribute_scales(config: InputConfig) -> tuple[float, ...]:
    """What attributes are divided by; networks that take none have no such setting."""
    return getattr(config, "attribute_scales", ())


def by_column(x: Float[Tensor, "*tokens d"], factors: Sequence[float]) -> Float[Tensor, "*tokens d"]:
    """Each column times its factor; no factors leave x alone. They are constants to a compiler, not one more tensor."""
    return torch.stack([column * f for column, f in zip(x.unbind(-1), factors, strict=True)], -1) if factors else x


def _normalize(
    config: InputConfig,
    rows: Float[Tensor, "*batch N K 3"],
    mask: Bool[Tensor, "*batch N"] | None,
    *,
    scale_vectors: bool,
) -> tuple[Float[Tensor, "*batch N K 3"], Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Rows with the positions, the first of them, centred and all that has a length divided by the RMS radius.

    First by a power of two near the largest coordinate, which is exact, so that no square over- or underflows: any unit
    will do. A cloud not much larger than the rounding of its coordinates is noise, and is not blown up to size one.
    """
    sized = rows if scale_vectors else rows[..., :1, :]
    unit = torch.ones_like(rows[..., 0, 0, 0]) if config.scale == "raw" else power_of_two(sized.flatten(-2), mask)
    sized = sized / unit[..., None, None, None]
    resolution = torch.finfo(rows.dtype).eps * sized[..., 0, :].detach().abs().amax((-2, -1))
    positions, _ = center(sized[..., 0, :], mask, config.center)
    sized = torch.cat([positions[..., None, :], sized[..., 1:, :]], -2)
    radius = torch.ones_like(unit)
    if config.scale != "raw":
        radius = rms_radius(sized.flatten(-2), mask, resolution=GUARD * resolution)
        sized = sized / radius[..., None, None, None]
    rows = sized if scale_vectors else torch.cat([sized, rows[..., 1:, :]], -2)
    return rows, radius * unit, resolution / radius


def append_attributes(
    rows: Float[Tensor, "*batch N K 3"], attributes: Float[Tensor, "*batch N d_A"], *, anchored: bool
) -> Float[Tensor, "*batch N K_out S"]:
    """Rows of 3 + d_A coordinates: [x, a] for the position, [v, 0] for other vectors, and [0, e_i] for anchors."""
    num_attributes = attributes.shape[-1]
    first = torch.cat([rows[..., :1, :], attributes[..., None, :]], -1)
    others = F.pad(rows[..., 1:, :], (0, num_attributes))
    if not anchored:
        return torch.cat([first, others], -2)
    anchors = F.pad(torch.eye(num_attributes, dtype=rows.dtype, device=rows.device), (3, 0))
    return torch.cat([first, others, anchors.expand(*rows.shape[:-2], -1, -1)], -2)


def _check(
    config: InputConfig,
    points: Tensor,
    attributes: Tensor | None,
    mask: Tensor | None,
    vectors: Tensor | None,
) -> None:
    if points.ndim < 2 or points.shape[-1] != 3 or points.shape[-2] == 0:
        raise ValueError(f"points must be (..., N, 3) with N of at least 1, got {tuple(points.shape)}")
    if not points.is_floating_point():
        raise ValueError(f"points must be floating-point numbers, got {points.dtype}")
    tokens = points.shape[:-1]
    require_mask(mask, tokens, "the model", on_any_device=True)
    _check_optional("attributes", attributes, (*tokens, config.num_attributes), config.num_attributes)
    _check_optional("vectors", vectors, (*tokens, config.num_vectors, 3), config.num_vectors)
    for name, x in (("points", points), ("attributes", attributes), ("vectors", vectors)):
        if x is not None:
            require_finite(x, mask, name)


def _check_optional(name: str, x: Tensor | None, shape: tuple[int, ...], count: int) -> None:
    if x is None and count > 0:
        raise ValueError(f"the model was built with num_{name}={count}, but no {name} were given")
    if x is not None and count == 0:
        raise ValueError(f"the model was built without {name}, but {name} of shape {tuple(x.shape)} were given")
    if x is not None and tuple(x.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(x.shape)}")
