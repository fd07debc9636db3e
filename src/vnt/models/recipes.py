"""Arrangements as configs: the paper's literal one, the same made upright, and our best.

A variant is ``dataclasses.replace`` on one. The paper's: post-norm VN-LayerNorm as in Fig. 2, VN-BatchNorm inside every
VN-MLP, a VN-MLP as lift, ε = 1e-6, coordinates taken as they are. Its rounding error is large where its norms begin as
LayerNorm and BatchNorm do, and small where they begin upright: see docs/paper.md for what was measured.
"""

from dataclasses import replace
from typing import TypeVar

from vnt.configuration import Config
from vnt.models.config import ClassifierConfig, ForecasterConfig

AnyConfig = TypeVar("AnyConfig", bound=Config)


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
    """The same with VN-LayerNorms and VN-BatchNorms that begin by turning next to no vector round.

    For `paper_classifier()`, `paper_forecaster()`, and the configs of VN-PointNet and VN-DGCNN.
    """
    begun = {"layer": "upright_layer", "batch": "upright_batch"}
    kinds = {name: getattr(config, name, None) for name in ("norm", "mlp_norm")}
    changes = {name: begun[kind] for name, kind in kinds.items() if kind in begun}
    if not changes:
        raise ValueError(f"no norm of this config is VN-LayerNorm or VN-BatchNorm: {kinds}")
    return replace(config, **changes)
