"""SE(3)-Transformer (Fuchs et al. 2020) as a classifier, by e3nn."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnt.layers.initialization import require_positive
from vnt.models.rivals.e3nn_config import SE3TransformerConfig
from vnt.models.rivals.equivariant_kernels import (
    Edges,
    Fiber,
    SelfInteraction,
    SteerableKernel,
)
from vnt.models.rivals.steerable import SteerableClassifier
from vnt.models.rivals.steerable_layers import Gate, SteerableNorm
from vnt.precision import at_least_float32


class SE3Attention(nn.Module):
    r"""Each point attends to its nearest neighbours; keys and values depend on where they lie (Fuchs et al., eq. 10).

    $$f_\text{out}^{(i)} = W_O \Bigl[\sum_j \alpha_{ij}^h \, W_V(x_j - x_i) f^{(j)}\Bigr]_{h=1}^H + W_S f^{(i)}, \qquad
      \alpha_{ij}^h = \frac{w_{ij} \exp\langle q_i^h, k_{ij}^h \rangle}{\sum_{j'} w_{ij'} \exp\langle q_i^h, k_{ij'}^h
      \rangle}, \quad q_i = W_Q f^{(i)}, \quad k_{ij} = W_K(x_j - x_i) f^{(j)}$$

    $W_Q$, $W_S$ and $W_O$ are linear self-interactions, $W_K(x)$ and $W_V(x)$ steerable kernels, inner products are
    over all features of a head, divided by √ of their number. $w_{ij}$ counts a neighbour: 1, shared where they tie.

    Args:
        fiber: how many features of each type a point has.
        num_heads: H, divides both numbers.
        radial_channels, max_degree, radial: of both kernels.

    Shape:
        (..., N, D), edges -> (..., N, D)

    Differences from the paper: with ``radial="channel"`` there is a radial function for each channel instead of one
    for each pair; scores are divided by √ of their length, as in ours.

    >>> from vnt.models.rivals.equivariant_kernels import find_edges
    >>> attention = SE3Attention(Fiber(8, 4), num_heads=2)
    >>> attention(torch.randn(2, 30, 20), find_edges(torch.randn(2, 30, 3), 6)).shape
    torch.Size([2, 30, 20])
    """

    heads: Float[Tensor, "H D"]

    def __init__(
        self,
        fiber: Fiber,
        num_heads: int,
        *,
        radial_channels: int = 32,
        max_degree: int = 1,
        radial: Literal["channel", "pair"] = "channel",
    ):
        super().__init__()
        require_positive(num_heads=num_heads)
        if any(count % num_heads for count in fiber):
            raise ValueError(f"num_heads must divide the numbers of features {tuple(fiber)}, got {num_heads}")
        self.fiber, self.num_heads = fiber, num_heads

        def kernel() -> SteerableKernel:
            return SteerableKernel(fiber, fiber, radial_channels=radial_channels, max_degree=max_degree, radial=radial)

        self.query, self.key, self.value = SelfInteraction(fiber, fiber), kernel(), kernel()
        self.output, self.own = SelfInteraction(fiber, fiber), SelfInteraction(fiber, fiber)
        each = [
            torch.arange(count).repeat_interleave(size) * num_heads // max(count, 1)
            for count, size in zip(fiber, (1, 3), strict=True)
        ]
        heads = torch.cat(each) == torch.arange(num_heads)[:, None]  # (H, D): which numbers of a row belong to which
        self.register_buffer("heads", heads.float(), persistent=False)

    def forward(self, x: Float[Tensor, "*batch N D"], edges: Edges) -> Float[Tensor, "*batch N D"]:
        neighbors = edges.gather(x)
        heads = self.heads.to(x.dtype)
        # ⟨q, mixed(m)⟩ = ⟨unmixed(q), m⟩ and Σ α mixed(m) = mixed(Σ α m): neither keys nor values are mixed edge-wise.
        queries = self.key.unmixed(self.query(x)[..., None, :] * heads)
        keys = self.key.messages(neighbors, edges)
        scores = at_least_float32(queries) @ at_least_float32(keys).mT * (x.shape[-1] / self.num_heads) ** -0.5
        share = weighted_softmax(scores, edges.weight[..., None, :])
        values = self.value.messages(neighbors, edges)
        values = self.value.mixed(share.to(values.dtype) @ values)
        return self.output((values * heads).sum(-2)) + self.own(x)


def weighted_softmax(
    scores: Float[Tensor, "*batch K"], weight: Float[Tensor, "*#batch K"]
) -> Float[Tensor, "*batch K"]:
    """Softmax over the last axis of entries that count ``weight`` times each; zero where none of them counts.

    >>> weighted_softmax(torch.zeros(3), torch.tensor([1.0, 0.5, 0.0]))
    tensor([0.6667, 0.3333, 0.0000])
    """
    largest = scores.detach().masked_fill(weight == 0, -torch.inf).amax(-1, keepdim=True)
    largest = torch.where(torch.isfinite(largest), largest, 0)
    raised = weight * torch.where(weight > 0, scores - largest, 0).exp()
    total = raised.sum(-1, keepdim=True)
    return raised / torch.where(total > 0, total, 1)


class SE3TransformerLayer(nn.Module):
    """Pre-norm block: x + attention(norm(x)), then x + self-interaction(gate(self-interaction(norm(x)))).

    Shape:
        (..., N, D), edges -> (..., N, D)

    Differences from the paper: residual connections around both halves, and a second half with gates where the paper
    has a nonlinearity of the lengths of vectors.
    """

    def __init__(
        self,
        fiber: Fiber,
        num_heads: int,
        *,
        radial_channels: int = 32,
        max_degree: int = 1,
        radial: Literal["channel", "pair"] = "channel",
        norm_eps: float = 1.0,
    ):
        super().__init__()
        self.norm = SteerableNorm(fiber, norm_eps)
        self.attention = SE3Attention(
            fiber, num_heads, radial_channels=radial_channels, max_degree=max_degree, radial=radial
        )
        gate = Gate(fiber)
        self.update = nn.Sequential(
            SteerableNorm(fiber, norm_eps),
            SelfInteraction(fiber, gate.inputs, bias=True),
            gate,
            SelfInteraction(fiber, fiber),
        )

    def forward(self, x: Float[Tensor, "*batch N D"], edges: Edges) -> Float[Tensor, "*batch N D"]:
        x = x + self.attention(self.norm(x), edges)
        return x + self.update(x)


class SE3TransformerClassifier(SteerableClassifier):
    """SE(3)-Transformer with scalars and vectors on nearest neighbours, pooled to class logits.

    Args:
        config: an `SE3TransformerConfig`.

    Shape:
        points (..., N, 3), mask (..., N) True where a point exists -> (..., num_classes). Attributes and vectors are
        refused.

    Differences from the paper: those of `SE3Attention`, `SE3TransformerLayer` and `SteerableClassifier`; types 0 and 1
    alone, where the authors had types up to 4 in places.

    >>> SE3TransformerClassifier(SE3TransformerConfig(num_classes=5, width=8))(torch.randn(2, 20, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(self, config: SE3TransformerConfig):
        fiber = Fiber(config.width, config.num_type1)
        blocks: list[nn.Module] = [
            SE3TransformerLayer(
                fiber,
                config.num_heads,
                radial_channels=config.radial_channels,
                max_degree=config.max_degree,
                radial=config.radial,
                norm_eps=config.norm_eps,
            )
            for _ in range(config.depth)
        ]
        super().__init__(config, blocks)
