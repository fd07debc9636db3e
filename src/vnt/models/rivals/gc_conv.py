"""GC-Conv (Zhang, Hua, Chen, Tian and Yeung, 3DV 2020): convolutions in frames that the whole cloud decides."""

import torch
from jaxtyping import Float
from torch import Tensor

from vnt.models.rivals.invariant_config import GCConvConfig
from vnt.models.rivals.pyramid import Level, PyramidClassifier, ShellLayer
from vnt.models.rivals.sampling import Neighborhoods, length


class GCConvClassifier(PyramidClassifier):
    """Class logits from coordinates in local frames, and from anchors that know where in the cloud they are.

    At each representative a frame is made of the principal axes of the whole cloud as seen from there, near points
    counting more. Neighbours enter by their coordinates in it. Each shell has an anchor, the mean of its points, which
    enters by its coordinates in the local frame and in that of the cloud: the global context.

    Exactly invariant to rotations, translations and the order of points. A reflection changes the result: frames are
    right-handed.

    Args:
        config: a `GCConvConfig`.

    Shape:
        points (B, N, 3), mask (B, N) True where a point exists -> (B, num_classes); no attributes, no vectors

    Differences from the paper: what `RIConvClassifier` says of sampling, ties, scale and widths holds here too. Bins
    are RI-Conv's shells, and one anchor stands in each. The distance from the representative joins the coordinates, so
    that something is left where frames fade: see `soft_frame`, whose axes and signs are averages where they would be
    ambiguous. No gradient flows through a frame, only through what is expressed in it.

    >>> GCConvClassifier(GCConvConfig(num_classes=5, width=0.1))(torch.randn(2, 20, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, config: GCConvConfig):
        super().__init__(config, GCConvLayer)


class GCConvLayer(ShellLayer):
    """A `ShellLayer` that knows each neighbour's coordinates in the local frame, and each shell's anchor in two."""

    num_neighbor_features = 4
    num_shell_features = 8

    def describe(
        self, around: Neighborhoods, level: Level, whole: Level
    ) -> tuple[Float[Tensor, "M K 4"], Float[Tensor, "M S 8"]]:
        local = local_frames(around, level, whole)
        frame = soft_frame(whole.positions, whole.mask.to(whole.positions.dtype))[around.cloud]
        held = around.shells.to(around.relative.dtype)
        anchor = (held @ around.relative) / held.sum(-1, keepdim=True)
        place = anchor + level.positions[around.cloud, around.center][:, None]
        anchors = torch.cat([_in_frame(anchor, local), _in_frame(place, frame)], -1)
        return _in_frame(around.relative, local), anchors


def _in_frame(x: Float[Tensor, "M K 3"], frame: Float[Tensor, "M 3 3"]) -> Float[Tensor, "M K 4"]:
    """Coordinates along the frame's rows, and the length."""
    return torch.cat([x @ frame.mT, length(x)[..., None]], -1)


@torch.no_grad()
def local_frames(around: Neighborhoods, level: Level, whole: Level, *, eps: float = 1e-3) -> Float[Tensor, "M 3 3"]:
    """The frame at each representative p: that of all points x of the cloud, weighted by max |x − p| − |x − p|.

    Where all points but p are equally far away, their weights are nothing but rounding, and p itself points nowhere. So
    the frame fades by m² / (m² + eps²) for m, the mean of weight times squared distance, with the largest distance as
    unit.
    """
    relative = whole.positions[around.cloud] - level.positions[around.cloud, around.center][:, None]
    exists = whole.mask[around.cloud]
    distance = torch.where(exists, length(relative), 0)
    farthest = distance.amax(-1, keepdim=True)
    share = torch.where(exists & (farthest > 0), distance / farthest, 1)
    weight = 1 - share
    known = ((weight * share.square()).sum(-1) / exists.sum(-1)).square()
    frame = soft_frame(torch.where(exists[..., None], relative, 0), weight)
    return (known / (known + eps**2))[:, None, None] * frame


@torch.no_grad()
def soft_frame(
    x: Float[Tensor, "M N 3"], weight: Float[Tensor, "M N"], *, eps: float = 1e-2, sharpness: float = 20.0
) -> Float[Tensor, "M 3 3"]:
    """Principal axes of weighted vectors as rows, right-handed, shortened where they are ambiguous; no gradient.

    An axis turns freely in a plane where two eigenvalues of Σ w x xᵀ coincide: it is shortened by g² / (g² + eps²) for
    the gap g to each neighbouring eigenvalue, relative to their sum. Its sign is that of the odd moment Σ w c|c|, c the
    coordinate along it. Of the four choices of signs that are right-handed, the one that agrees best with all three
    moments counts most: the frame is their average, weighted by a softmax, so that an axis along which the vectors are
    balanced vanishes instead of pointing by rounding. So the frame is a continuous function of the vectors, zero if all
    coincide, and turns with them.

    Args:
        x: vectors.
        weight: of each, not negative.
        eps: relative gap of eigenvalues below which axes fade.
        sharpness: of the softmax; moments lie in [−1, 1].
    """
    total = weight.sum(-1)[:, None, None]
    weight = weight / torch.where(total > 0, total, 1)[..., 0]
    second = x.mT @ (weight[..., None] * x)
    trace = second.diagonal(dim1=-2, dim2=-1).sum(-1)
    size = torch.where(trace > 0, trace, 1)[:, None]
    values, vectors = torch.linalg.eigh(second / size[..., None])
    axes = vectors.mT.flip(-2)  # rows, from the largest eigenvalue to the smallest
    axes = axes * torch.linalg.det(axes).sign()[:, None, None]
    values = values.flip(-1)

    gap = (values[:, :2] - values[:, 1:]).square()
    first, second_gap = (gap / (gap + eps**2)).unbind(-1)
    certain = torch.stack([first, first * second_gap, second_gap], -1)
    along = x @ axes.mT
    odd = (weight[..., None] * along * along.abs()).sum(-2) / size / (values.clamp(min=0) + eps)
    signs = x.new_tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    share = torch.softmax(sharpness * (certain * odd) @ signs.mT, -1)
    return (certain * (share @ signs))[..., None] * axes
