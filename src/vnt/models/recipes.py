"""Arrangements as configs: the paper's literal one, the same made upright, and our best.

A variant is ``dataclasses.replace`` on one. The paper's: post-norm VN-LayerNorm as in Fig. 2, VN-BatchNorm inside every
VN-MLP, a VN-MLP as lift, ε = 1e-6, coordinates taken as they are. Its rounding error is large where its norms begin as
LayerNorm and BatchNorm do, and small where they begin upright: see docs/paper.md for what was measured.
"""

from dataclasses import replace
from typing import TypeVar

from vnt.models.config import BackboneConfig, ClassifierConfig, ForecasterConfig

AnyConfig = TypeVar("AnyConfig", bound=BackboneConfig)


def paper_classifier(num_classes: int = 40) -> ClassifierConfig:
    """The classifier of Table 1: VN-Invariant, flatten, mean pool, MLP.

    The paper gives 0.04M parameters and no sizes; these come out at that.
    """
    return ClassifierConfig(
        num_classes=num_classes,
        channels=32,
        num_heads=4,
        depth=2,
        hidden_channels=32,
        norm="layer",
        norm_eps=1e-12,
        norm_position="post",
        mlp_norm="batch",
        lift="mlp",
        relu_eps=1e-12,
        bias_epsilon=1e-6,
        attribute_anchor=False,
        scale="raw",
        pooling="mean",
        point_channels=0,
        head_channels=128,
    )


def best_classifier(num_classes: int = 40) -> ClassifierConfig:
    """The classifier of recipe ``modelnet40``: what its validation split chose (docs/results/modelnet40-search.md)."""
    return ClassifierConfig(
        num_classes=num_classes,
        num_heads=16,
        depth=4,
        surroundings=(0.1, 0.2, 0.4),
        point_channels=512,
        head_norm="batch",
        dropout=0.5,
    )


def paper_forecaster() -> ForecasterConfig:
    """The forecaster of Table 3: 80 steps ahead. The paper gives no sizes."""
    return ForecasterConfig(
        channels=64,
        num_heads=8,
        depth=2,
        hidden_channels=64,
        norm="layer",
        norm_eps=1e-12,
        norm_position="post",
        mlp_norm="batch",
        lift="mlp",
        relu_eps=1e-12,
        bias_epsilon=1e-6,
        attribute_anchor=False,
        scale="raw",
    )


def upright(config: AnyConfig) -> AnyConfig:
    """The paper's arrangement, with norms that begin by turning no vector round: the reading of it that learns."""
    return replace(config, norm="upright_layer", mlp_norm="upright_batch")
