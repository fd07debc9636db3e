"""RI-Conv (Zhang, Hua, Rosen and Yeung, 3DV 2019): convolutions on distances and angles, which rotations keep."""

import torch
from jaxtyping import Float
from torch import Tensor

from vnt.models.rivals.invariant_config import RIConvConfig
from vnt.models.rivals.pyramid import Level, PyramidClassifier, ShellLayer
from vnt.models.rivals.sampling import Neighborhoods, length


class RIConvClassifier(PyramidClassifier):
    """Class logits from distances and angles in neighbourhoods, layer by layer on fewer points.

    Exactly invariant to rotations, translations, reflections and the order of points: mirror images look alike, since
    distances and angles do not tell them apart.

    Args:
        config: an `RIConvConfig`.

    Shape:
        points (B, N, 3), mask (B, N) True where a point exists -> (B, num_classes); no attributes, no vectors

    Differences from the paper: sampling starts at the point farthest from the mean, not at a random one, and points
    that tie, as on a lattice, are all taken: as representatives, neighbours, and into both shells at a border. An angle
    at a vector that is short against its neighbourhood fades to zero, since it means nothing there. Clouds are scaled
    by their RMS radius, of which the MLP is told the logarithm. Widths inside a layer and the numbers of neighbours and
    shells are chosen to come near the published 0.7M parameters.

    >>> RIConvClassifier(RIConvConfig(num_classes=5, width=0.1))(torch.randn(2, 20, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, config: RIConvConfig):
        super().__init__(config, RIConvLayer)


class RIConvLayer(ShellLayer):
    """A `ShellLayer` that knows two distances and two angles of each neighbour: see `distances_and_angles`."""

    num_neighbor_features = 4

    def describe(self, around: Neighborhoods, level: Level, whole: Level) -> tuple[Float[Tensor, "M K 4"], None]:
        return distances_and_angles(around.relative, around.weight), None


def distances_and_angles(
    relative: Float[Tensor, "M K 3"], weight: Float[Tensor, "M K"], *, eps: float = 1e-2
) -> Float[Tensor, "M K 4"]:
    """|p − m|, |x − p|, the angle at p between x and m, and that at m between x and p, of each neighbour x.

    p is the representative, m the neighbourhood's mean.

    Args:
        relative: x − p.
        weight: of each neighbour in the mean.
        eps: a vector v counts by |v|² / (|v|² + (eps r)²), r the largest |x − p|: an angle at a vector of no length is
            nothing but rounding, and comes out as zero.
    """
    mean = (weight[..., None] * relative).sum(-2, keepdim=True) / weight.sum(-1)[..., None, None]
    to_mean = mean.expand_as(relative)
    from_mean = relative - mean
    least = eps * length(relative).detach().amax(-1, keepdim=True)
    certain = _certainty(to_mean, least)
    at_center = angle(relative, to_mean) * certain * _certainty(relative, least)
    at_mean = angle(from_mean, -to_mean) * certain * _certainty(from_mean, least)
    return torch.stack([length(to_mean), length(relative), at_center, at_mean], -1)


def angle(a: Float[Tensor, "... 3"], b: Float[Tensor, "... 3"]) -> Float[Tensor, "..."]:
    """The angle between two vectors, exact also near 0 and π, with a gradient everywhere; π/2 where one is zero."""
    a, b = _unit(a), _unit(b)
    apart, together = length(a - b), length(a + b)
    return 2 * torch.atan2(apart, torch.where(apart + together > 0, together, 1))


def _unit(x: Tensor) -> Tensor:
    size = length(x)[..., None]
    return x / torch.where(size > 0, size, 1)


def _certainty(x: Float[Tensor, "... 3"], least: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """|x|² / (|x|² + least²), and zero where both are."""
    square = x.square().sum(-1)
    total = square + least.square()
    return square / torch.where(total > 0, total, 1)
