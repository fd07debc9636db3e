"""Recipes of the systems that ours is compared with, on the same data as ours. No torch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vnt.models.kinds import ModelConfig
from vnt.models.rivals.forecasting_config import ConstantVelocityConfig, GRUForecasterConfig, LinearForecasterConfig
from vnt.training.config import TrainConfig

Rival = tuple[str, ModelConfig, dict[str, Any]]
"""What it is called in a help text, its model, and what it trains with instead of our settings."""

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
