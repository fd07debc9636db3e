"""The ordinary networks behind the invariants: on each point before the pool, and on what the pool leaves."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.geometry.masking import blank
from vnt.layers import VNBatchNorm, VNInvariant, VNLinear
from vnt.precision import at_least_float32
from vnt.processes import are_several, sum_over_processes

HeadNorm = Literal["layer", "batch"]


class MaskedBatchNorm(VNBatchNorm):
    r"""Batch norm of scalars, over the tokens that exist: `torch.nn.BatchNorm1d`, but for padding.

    $$x^{(c)} \leftarrow g^{(c)} \frac{x^{(c)} - \mu^{(c)}}{\sqrt{\sigma^{2 (c)} + \text{eps}}} + b^{(c)}$$

    Args:
        channels: C.
        momentum: weight of the newest batch in the running statistics that evaluation uses.
        eps: guards the variance.
        shift: what the learned shift begins with.

    Shape:
        (..., C) -> (..., C), with ``mask`` (...) True where a token exists, or how much of it does.

    Differences from the paper: not in the paper. A batch of a single token is normalised to zero, where torch refuses.

    >>> MaskedBatchNorm(8)(torch.randn(4, 100, 8)).shape
    torch.Size([4, 100, 8])
    """

    def __init__(self, channels: int, *, momentum: float = 0.1, eps: float = 1e-5, shift: float = 0.0):
        super().__init__(channels, momentum=momentum, eps=eps, shift=shift)

    def forward(
        self, V: Float[Tensor, "*tokens C"], mask: Bool[Tensor, "*tokens"] | Float[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens C"]:
        x = at_least_float32(V)
        if self.training:
            total = sum_over_processes if are_several() else None
            mean, variance, count = functional.moments(x, mask, total=total)
            self._track(mean.detach(), variance.detach(), count)
        else:
            mean, variance = self.running_mean, self.running_var
        return ((x - mean) * (torch.rsqrt(variance + self.eps) * self.gain) + self.shift).to(V.dtype)


class Perceptron(nn.Sequential):
    """Layers one after another; those that take statistics over tokens leave padding out."""

    def forward(  # type: ignore[bad-override]
        self, x: Float[Tensor, "*tokens F"], mask: Bool[Tensor, "*tokens"] | Float[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens G"]:
        for layer in self:
            x = layer(x, mask) if isinstance(layer, MaskedBatchNorm) else layer(x)
        return x


def make_point_mlp(width: int, channels: int, norm: HeadNorm = "layer") -> Perceptron:
    """An MLP on the invariant features of each point."""
    return Perceptron(nn.Linear(width, channels), make_norm(channels, norm), nn.GELU(), nn.Linear(channels, channels))


def make_head(width: int, channels: int, num_classes: int, dropout: float, norm: HeadNorm = "layer") -> Perceptron:
    """From pooled features to logits."""
    return Perceptron(
        nn.Linear(width, channels),
        make_norm(channels, norm),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(channels, num_classes),
    )


def make_norm(channels: int, norm: HeadNorm) -> nn.Module:
    """Of an ordinary network, over tokens that exist."""
    return MaskedBatchNorm(channels) if norm == "batch" else nn.LayerNorm(channels)


class AttributePool(nn.Module):
    r"""What there is where an attribute is large: a pool of its own for each of them (late fusion).

    $$w_i^{(n)} = \text{softmax}_n \, f_i \, a_i^{(n)}, \qquad
      \Bigl(\sum_n w_i^{(n)} x^{(n)}, \; \text{VN-Invariant}\bigl(\sum_n w_i^{(n)} V^{(n)}\bigr)\Bigr)$$

    of features x and vectors V, with a learned focus f. A few points that stand out are lost in a mean over all, and a
    maximum tells neither how far they lie apart nor on which side; attributes do not turn, so neither do the weights.

    Args:
        channels: C.
        num_attributes: d_A, in units of their usual size.
        negative_slope: of the VN-ReLU in `VNInvariant`.
        relu_eps: guard of that VN-ReLU.
        bias_epsilon: ε of every VN-Linear.

    Shape:
        x (..., N, F), V (..., N, C, 3), attributes (..., N, d_A), mask (..., N) True where a token exists
        -> (..., d_A (F + 3 C))

    Differences from the paper: not in the paper.

    >>> pool = AttributePool(8, 1)
    >>> pool(torch.randn(2, 100, 16), torch.randn(2, 100, 8, 3), torch.rand(2, 100, 1)).shape
    torch.Size([2, 40])
    """

    def __init__(
        self,
        channels: int,
        num_attributes: int,
        *,
        negative_slope: float = 0.0,
        relu_eps: float = 1e-12,
        bias_epsilon: float = 0.0,
    ):
        super().__init__()
        self.focus = nn.Parameter(torch.full((num_attributes,), 4.0))  # e⁴: thirty of a thousand get 60 % of the weight
        self.invariant = VNInvariant(
            channels, negative_slope=negative_slope, relu_eps=relu_eps, bias_epsilon=bias_epsilon
        )

    def forward(
        self,
        x: Float[Tensor, "*batch N F"],
        V: Float[Tensor, "*batch N C 3"],
        attributes: Float[Tensor, "*batch N d_A"],
        mask: Bool[Tensor, "*batch N"] | None = None,
    ) -> Float[Tensor, "*batch G"]:
        _, features, vectors = self.gather(x, V, attributes, mask)
        return self._describe(features, vectors)

    def gather(
        self, x: Tensor, V: Tensor, attributes: Tensor, mask: Tensor | None = None
    ) -> tuple[Float[Tensor, "*batch d_A"], Float[Tensor, "*batch d_A F"], Float[Tensor, "*batch d_A C 3"]]:
        """The logarithm of the sum of weights, and the weighted means, of a cloud or of one chunk of it."""
        scores = self.scores(attributes, mask)
        x, V = blank(x, mask), blank(V, mask)
        weights = scores.softmax(-2).transpose(-1, -2)
        vectors = (weights.to(V.dtype) @ V.flatten(-2)).unflatten(-1, V.shape[-2:])
        return scores.logsumexp(-2), weights.to(x.dtype) @ x, vectors

    def scores(self, attributes: Tensor, mask: Tensor | None = None) -> Float[Tensor, "*batch N d_A"]:
        """The logarithms of the weights, but for a constant; next to none where no token exists."""
        scores = at_least_float32(attributes) * self.focus
        return scores if mask is None else scores.masked_fill(~mask[..., None], torch.finfo(scores.dtype).min)

    def merge(
        self,
        sizes: Float[Tensor, "chunks *batch d_A"],
        features: Float[Tensor, "chunks *batch d_A F"],
        vectors: Float[Tensor, "chunks *batch d_A C 3"],
    ) -> Float[Tensor, "*batch G"]:
        """The pool of a cloud out of what was gathered of its chunks."""
        share = sizes.softmax(0)
        return self._describe(
            (share[..., None] * features).sum(0).to(features.dtype),
            (share[..., None, None] * vectors).sum(0).to(vectors.dtype),
        )

    def _describe(self, features: Tensor, vectors: Tensor) -> Tensor:
        invariants = self.invariant(vectors).flatten(-2)
        return torch.cat([features, invariants.to(features.dtype)], -1).flatten(-2)


class InvariantMixing(nn.Module):
    r"""Vectors mixed by amounts that an ordinary MLP makes of what does not turn.

    $$V \mapsto \text{MLP}\bigl(\text{VN-Invariant}(V), s\bigr) \, W V, \qquad W \in \mathbb{R}^{K \times C}$$

    with the MLP's output read as a B × K matrix. How much a car will brake or turn depends on its speed and on how its
    path bends, which are invariants; VN-ReLUs alone have a hard time to make vectors longer or shorter by them. It
    begins at zero, so that before training nothing is added.

    Args:
        channels: C; K is half of it.
        hidden_channels: width of the MLP.
        out_channels: B.
        num_scalars: how many invariants s are known beside those of V.
        dropout: in the MLP.
        negative_slope: of the VN-ReLU in `VNInvariant`.
        bias_epsilon: ε of every VN-Linear.
        spatial_dim: S.

    Shape:
        V (..., C, S), scalars (..., num_scalars) -> (..., B, S)

    Differences from the paper: not in the paper.

    >>> InvariantMixing(8, 16, 6)(torch.randn(2, 8, 3)).shape
    torch.Size([2, 6, 3])
    """

    def __init__(
        self,
        channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_scalars: int = 0,
        dropout: float = 0.0,
        negative_slope: float = 0.0,
        bias_epsilon: float = 0.0,
        spatial_dim: int = 3,
    ):
        super().__init__()
        mixed = max(1, channels // 2)
        self.invariant = VNInvariant(
            channels, negative_slope=negative_slope, bias_epsilon=bias_epsilon, spatial_dim=spatial_dim
        )
        self.vectors = VNLinear(channels, mixed, bias_epsilon=bias_epsilon, spatial_dim=spatial_dim)
        self.amounts = make_head(channels * spatial_dim + num_scalars, hidden_channels, out_channels * mixed, dropout)
        for parameter in self.amounts[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(
        self, V: Float[Tensor, "*batch C S"], scalars: Float[Tensor, "*batch K"] | None = None
    ) -> Float[Tensor, "*batch B S"]:
        known = self.invariant(V).flatten(-2)
        if scalars is not None:
            known = torch.cat([known, scalars.to(known.dtype)], -1)
        vectors = self.vectors(V)
        return self.amounts(known).unflatten(-1, (-1, vectors.shape[-2])) @ vectors
