"""Recipes of the systems that ours is compared with, on the same data as ours. No torch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vnt.models.kinds import ModelConfig
from vnt.models.rivals.e3nn_config import SE3TransformerConfig, TFNConfig
from vnt.models.rivals.forecasting_config import ConstantVelocityConfig, GRUForecasterConfig, LinearForecasterConfig
from vnt.models.rivals.invariant_config import GCConvConfig, RIConvConfig
from vnt.models.rivals.network_config import DGCNNConfig, PointNetConfig, VNDGCNNConfig, VNPointNetConfig
from vnt.training.config import TrainConfig

Rival = tuple[str, ModelConfig, dict[str, Any]]
"""What it is called in a help text, its model, and what it trains with instead of our settings."""

SGD: dict[str, Any] = {
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "final_learning_rate": 1e-3,
    "weight_decay": 1e-4,
    "warmup": 0.0,
    "label_smoothing": 0.2,
    "shift": 0.2,
    "epochs": 250,
    "batch_size": 32,
    "num_points": 0,
    "mix": 0.0,
    "precision": "bfloat16",
    "compile": True,
    "clip_norm": 0.0,
    "ema": 0.0,
}
"""How the authors of VN-DGCNN train it, by their program: 1,024 points, batch 32, cosine from 0.1 to 0.001."""
ADAMW: dict[str, Any] = SGD | {
    "optimizer": "adamw",
    "clip_norm": 1.0,
    "precision": "float32",
    "compile": False,
    "learning_rate": 1e-3,
    "final_learning_rate": 0.0,
    "weight_decay": 0.05,
}

MODELNET40: dict[str, Rival] = {
    "vn_pointnet": ("VN-PointNet", VNPointNetConfig(num_classes=40), SGD),
    "vn_dgcnn": ("VN-DGCNN, by its authors' settings", VNDGCNNConfig(num_classes=40), SGD),
    "pointnet": ("PointNet", PointNetConfig(num_classes=40), ADAMW),
    "dgcnn": ("DGCNN", DGCNNConfig(num_classes=40), SGD),
    "ri_conv": ("RI-Conv", RIConvConfig(num_classes=40), ADAMW),
    "gc_conv": ("GC-Conv", GCConvConfig(num_classes=40), ADAMW),
    "tfn": ("Tensor Field Network", TFNConfig(num_classes=40), ADAMW),
    "se3_transformer": ("SE(3)-Transformer", SE3TransformerConfig(num_classes=40), ADAMW),
}
SMALL_PYRAMID: dict[str, Any] = {
    "num_classes": 21,
    "width": 0.25,
    "num_points": (48, 16, 6),
    "num_neighbors": (24, 12, 6),
    "num_shells": (3, 2, 1),
    "dropout": 0.0,
}
SMALL_NETWORK: dict[str, Any] = {"num_classes": 21, "width": 0.25, "dropout": 0.0}
SMALL_STEERABLE: dict[str, Any] = {
    "num_classes": 21,
    "width": 24,
    "depth": 2,
    "num_neighbors": 8,
    "point_channels": 128,
    "head_channels": 128,
}


def _whole(epochs: int, learning_rate: float = 3e-3) -> dict[str, Any]:
    """All points of each cloud: what neighbours are depends on how dense they are, and tests take all."""
    return {"num_points": 0, "epochs": epochs, "learning_rate": learning_rate}


SHAPES: dict[str, Rival] = {
    "pointnet": ("A small PointNet", PointNetConfig(**SMALL_NETWORK), _whole(5)),
    "dgcnn": ("A small DGCNN", DGCNNConfig(**SMALL_NETWORK, num_neighbors=8), _whole(4)),
    "vn_pointnet": (
        "A small VN-PointNet",
        VNPointNetConfig(**SMALL_NETWORK, num_neighbors=8, pooling="max", norm_eps=1e-4, relu_eps=1e-4),
        _whole(20, 1e-2),
    ),
    "vn_dgcnn": ("A small VN-DGCNN", VNDGCNNConfig(**SMALL_NETWORK | {"width": 0.2}, num_neighbors=8), _whole(6, 6e-3)),
    "ri_conv": ("A small RI-Conv", RIConvConfig(**SMALL_PYRAMID), _whole(5)),
    "gc_conv": ("A small GC-Conv", GCConvConfig(**SMALL_PYRAMID), _whole(5)),
    "tfn": ("A small Tensor Field Network", TFNConfig(**SMALL_STEERABLE), _whole(6, 5e-3)),
    "se3_transformer": (
        "A small SE(3)-Transformer",
        SE3TransformerConfig(**SMALL_STEERABLE | {"num_neighbors": 12}, max_degree=1),
        _whole(6),
    ),
}
FORECASTERS: dict[str, Rival] = {
    "constant_velocity": ("Constant velocity", ConstantVelocityConfig(), {}),
    "linear": ("The best linear map that turns with its input", LinearForecasterConfig(), {}),
    "gru": ("A GRU", GRUForecasterConfig(channels=96), {"learning_rate": 1e-3}),
}


def rivals_of(base: Callable[[], TrainConfig], rivals: dict[str, Rival]) -> dict[str, Callable[[], TrainConfig]]:
    """A recipe for each rival on the data of another recipe: ``womd_gru`` from ``womd``."""
    return {f"{base.__name__}_{name}": _recipe(base, *rival) for name, rival in rivals.items()}


def _recipe(
    base: Callable[[], TrainConfig], title: str, model: ModelConfig, changes: dict[str, Any]
) -> Callable[[], TrainConfig]:
    def make() -> TrainConfig:
        return replace(base(), model=model, **changes)

    make.__doc__ = f"{title}, on the data of {base.__name__}."
    return make
