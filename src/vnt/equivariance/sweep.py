"""What each bias norm ε costs (the paper's Fig. 10, with numbers): measured, to first order, certified."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from vnt.equivariance.certificate import certify
from vnt.equivariance.first_order import bias_layers, first_order_law
from vnt.equivariance.subject import Subject
from vnt.equivariance.violation import violation
from vnt.geometry.symmetry import Action
from vnt.layers import VNLinear
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.forecaster import VNTransformerForecaster

EPSILONS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
MOST_TOKENS = 256


@dataclass(frozen=True)
class SweepPoint:
    """Relative violations of one item at one ε, at the rotation that is worst to first order."""

    epsilon: float
    measured: float
    first_order: float
    certified: float


def with_bias(module: nn.Module, epsilon: float, *, seed: int = 0) -> nn.Module:
    """A copy with biases of that norm, in random directions where it had none.

    A model of this library gets them where its config would have put them, any other module in every VN-Linear.
    """
    module = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(seed)
    named = {name: layer for name, layer in module.named_modules() if isinstance(layer, VNLinear)}
    if isinstance(module, VNTransformerClassifier | VNTransformerForecaster):
        twin = type(module)(replace(module.config, bias_epsilon=epsilon))  # type: ignore[bad-argument-type]
        biased = bias_layers(twin)
        named = {name: layer for name, layer in named.items() if name in biased}
    for layer in named.values():
        layer.bias_epsilon = epsilon
        if layer.bias_direction is None:
            direction = torch.randn(layer.out_channels, layer.spatial_dim, generator=generator)
            layer.bias_direction = nn.Parameter(direction.to(layer.weight))
    return module


def sweep(subject: Subject, epsilons: Sequence[float] = EPSILONS, *, seed: int = 0) -> list[SweepPoint]:
    """The violation of a model of this library at other bias norms, with its own weights.

    Give it one item; of a cloud it takes no more than `MOST_TOKENS` points, so that eight norms take seconds.
    """
    subject = subject.some_tokens(MOST_TOKENS, seed=seed)
    if subject.module is None or not any(isinstance(layer, VNLinear) for layer in subject.module.modules()):
        raise ValueError(f"{subject.name} has no VN-Linear whose bias could be tried")
    points = []
    for epsilon in epsilons:
        if not epsilon > 0:
            raise ValueError(f"a bias norm to try must be positive, got {epsilon}")
        biased = replace(subject, function=with_bias(subject.module, epsilon, seed=seed))
        law = first_order_law(biased)
        assert law is not None
        measured = violation(biased, Action(rotation=law.worst_rotation))
        try:
            certified = certify(biased).worst
        except ValueError:
            certified = math.nan
        points.append(SweepPoint(epsilon, float(measured.max()), float(law.worst.max()), certified))
    return points
