"""What each point learns from its neighbours by ordinary networks, on invariants of pairs (ours, not in the paper)."""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.geometry import at_neighbors, fading_neighbors
from vnt.geometry.masking import blank
from vnt.models.heads import HeadNorm, Perceptron, make_norm
from vnt.precision import full_precision

UNIT = 0.15
"""In which pairs are measured: how far neighbours usually lie apart, in the units that points are divided by."""

FARTHEST = 1e3
"""Beyond which invariants are cut off, at neighbours 30 of those units away: half precision ends at 65,504."""


class PairDescriptor(nn.Module):
    r"""Scalars of each point that say how the cloud lies around it: a small network on pairs, and its largest answers.

    $$s_i \leftarrow s_i + g\Bigl(\max_j \, w_{ij} \, \text{ReLU} \, f\bigl(e_{ij}, s_i, s_j\bigr)\Bigr)$$

    in so many rounds, from s = 0, with networks f and g for each. e are the invariants of a pair
    (`vnt.functional.pair_invariants`) and w the weights of its neighbours (`vnt.geometry.fading_neighbors`), which fade
    out, so that nothing jumps; batch statistics weigh pairs by them, too. Invariant by construction, whatever the
    networks. All pairs are held at once: memory grows with N² / divisor.

    An equivariant network mixes vectors linearly and bends them by VN-ReLUs; of pairs, an ordinary network can make
    anything. What it finds gates the vectors of the lift and joins the invariants behind the encoder.

    Args:
        num_scales: of the moments that pairs are described by.
        channels: length of s, and width of the networks.
        rounds: from the second on, points hear what their neighbours have heard.
        divisor: neighbours are the nearest N / divisor.
        norm: of the networks.

    Shape:
        x (..., N, 3), around of it, mask (..., N) True where a point exists, resolution (...) of x
        -> (..., N, channels)

    Differences from the paper: not in the paper.

    >>> import torch
    >>> x = torch.randn(2, 100, 3)
    >>> PairDescriptor(1, 16, 2, divisor=20)(x, functional.local_moments(x, (0.3,))).shape
    torch.Size([2, 100, 16])
    """

    def __init__(self, num_scales: int, channels: int, rounds: int, divisor: int, norm: HeadNorm = "batch"):
        super().__init__()
        self.divisor = divisor
        width = functional.OF_PAIR + functional.OF_SCALE * num_scales
        self.rounds = nn.ModuleList(PairRound(width, channels, norm, hears=number > 0) for number in range(rounds))

    def forward(
        self,
        x: Float[Tensor, "*batch N 3"],
        around: functional.LocalMoments,
        mask: Bool[Tensor, "*batch N"] | None = None,
        resolution: Float[Tensor, "*batch"] | None = None,
    ) -> Float[Tensor, "*batch N channels"]:
        dtype, s = next(self.parameters()).dtype, None
        x = blank(x, mask)
        with full_precision(x):
            index, weight = fading_neighbors(x, self.divisor, mask, resolution=resolution)
            e = functional.pair_invariants(x, around, index, UNIT).clamp(-FARTHEST, FARTHEST).to(dtype)
        for part in self.rounds:
            s = part(e, index, weight.to(dtype), mask, s)
        assert s is not None
        return s


class PairRound(nn.Module):
    """One round of `PairDescriptor`."""

    def __init__(self, width: int, channels: int, norm: HeadNorm, *, hears: bool):
        super().__init__()
        self.of_pair = nn.Linear(width, channels, bias=False)
        self.of_point = nn.Linear(channels, channels, bias=False) if hears else None
        self.of_neighbor = nn.Linear(channels, channels, bias=False) if hears else None
        self.message = Perceptron(make_norm(channels, norm), nn.GELU(), nn.Linear(channels, channels))
        self.update = Perceptron(make_norm(channels, norm), nn.GELU(), nn.Linear(channels, channels))

    def forward(
        self,
        e: Float[Tensor, "*batch N K F"],
        index: Tensor,
        weight: Float[Tensor, "*batch N K"],
        mask: Bool[Tensor, "*batch N"] | None,
        s: Float[Tensor, "*batch N channels"] | None,
    ) -> Float[Tensor, "*batch N channels"]:
        h = self.of_pair(e)
        if s is not None and self.of_point is not None and self.of_neighbor is not None:
            # In the parameters' precision: a compiler adds gradients up at neighbours quickly in float32 alone.
            told = at_neighbors(self.of_neighbor(s).to(weight.dtype), index)
            h = h + (self.of_point(s)[..., None, :] + told).to(h.dtype)
        heard = (weight[..., None] * F.relu(self.message(h, weight))).amax(-2)
        found = self.update(heard, mask)
        return found if s is None else s + found
