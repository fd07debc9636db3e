"""Shape and attributes judged apart: two classifiers that do not see what the other sees, and whose logits add.

A network that sees both while it learns needs no attributes where it knows the clouds by heart, and so, we think, does
not find out how much they would tell of others (docs/results/polka-dots.md). Apart, neither is left to the other.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.geometry import masked_max
from vnt.models.apart_config import ApartConfig, ScanConfig
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.heads import MaskedBatchNorm, Perceptron
from vnt.models.tokens import normalized_tokens
from vnt.precision import full_precision


class ScanClassifier(nn.Module):
    """Class logits from within which radius attributes gather (`vnt.functional.scan`), and from nothing else.

    Args:
        config: a `ScanConfig`.

    Shape:
        points (..., N, 3), attributes (..., N, d_A), mask (..., N) True where a point exists,
        vectors (..., N, num_vectors, 3), which are not looked at -> (..., num_classes)

    Differences from the paper: not in the paper.

    >>> model = ScanClassifier(ScanConfig(num_classes=10))
    >>> model(torch.randn(2, 100, 3), torch.rand(2, 100, 1)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: ScanConfig):
        super().__init__()
        self.config = config
        width, channels = config.num_attributes * config.num_radii, config.hidden_channels
        self.mlp = Perceptron(
            MaskedBatchNorm(width),
            nn.Linear(width, channels),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(channels, channels),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(channels, config.num_classes),
        )

    def forward(
        self,
        points: Float[Tensor, "*batch N 3"],
        attributes: Float[Tensor, "*batch N d_A"] | None = None,
        mask: Bool[Tensor, "*batch N"] | None = None,
        vectors: Float[Tensor, "*batch N K 3"] | None = None,
    ) -> Float[Tensor, "*batch classes"]:
        tokens = normalized_tokens(self.config, points, attributes, mask, vectors, scale_vectors=False)
        assert tokens.scalars is not None  # a config has one attribute at least
        with full_precision(points):
            x = tokens.positions
            farthest = masked_max(x.square().sum(-1), mask, -1).clamp(min=torch.finfo(x.dtype).tiny).sqrt()
            masses = tokens.scalars.square()
            found = functional.scan(
                x / farthest[..., None, None], masses, 2 / self.config.num_radii, self.config.num_radii, mask
            )
        return self.mlp(found.flatten(-2).to(next(self.parameters()).dtype))


class ApartClassifier(nn.Module):
    r"""What shape says and what attributes say, each by a classifier that was trained without the other.

    $$\log p(y \mid X, A) = \log p(y \mid X) + \log p(A \mid X, y) + \text{const}$$

    The first term is a VN-Transformer's; the second, times a weight, a `ScanClassifier`'s, trained with ``balance``.

    Args:
        config: an `ApartConfig`.

    Shape:
        as in `vnt.VNTransformerClassifier`

    Differences from the paper: not in the paper.

    >>> from vnt import ClassifierConfig
    >>> parts = {"shape": ClassifierConfig(num_classes=10), "evidence": ScanConfig(num_classes=10)}
    >>> model = ApartClassifier(ApartConfig(num_classes=10, **parts)).eval()
    >>> model(torch.randn(2, 100, 3), torch.rand(2, 100, 1)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: ApartConfig):
        super().__init__()
        self.config = config
        self.shape = VNTransformerClassifier(config.shape)
        self.evidence = ScanClassifier(config.evidence)

    def forward(
        self,
        points: Float[Tensor, "*batch N 3"],
        attributes: Float[Tensor, "*batch N d_A"] | None = None,
        mask: Bool[Tensor, "*batch N"] | None = None,
        vectors: Float[Tensor, "*batch N K 3"] | None = None,
    ) -> Float[Tensor, "*batch classes"]:
        evidence = self.evidence(points, attributes, mask, vectors)
        return self.shape(points, None, mask, vectors) + self.config.weight * evidence
