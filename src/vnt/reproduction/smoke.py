"""The same experiments on built-in data with small models: minutes on a CPU, and no accuracy to speak of. No torch."""

from dataclasses import replace
from typing import Any

from vnt.reproduction.experiments import Experiment, Row
from vnt.training.config import TrainConfig
from vnt.training.recipes import RECIPES, recipe

STAND_INS = {
    "modelnet40": "shapes",
    "modelnet40_polka_dot": "shapes_polka_dot",
    "womd_paper": "motion",
    "womd_large": "motion",
    "kitti": "motion",
}
QUARTERED = ("channels", "num_heads", "hidden_channels", "point_channels", "head_channels", "num_latents")
EPOCHS = {"classify": 1, "forecast": 10}
POINTS, BATCH = 64, 128


def smoke(experiment: Experiment) -> Experiment:
    """The experiment with every row made small, under the first of its rotations; what was published does not apply.

    Rows that differ only in what built-in data stand in for are trained once.
    """
    rows: list[Row] = []
    for row in map(_shrink_row, experiment.rows):
        if row.config is None or all(_what_is_trained(row) != _what_is_trained(other) for other in rows):
            rows.append(row)
    rotations = None if experiment.rotations is None else experiment.rotations[:1]
    return replace(experiment, rows=tuple(rows), rotations=rotations)


def _what_is_trained(row: Row) -> tuple[Any, ...]:
    return row.config, row.teacher, row.start, row.parts


def _shrink_row(row: Row) -> Row:
    config = None if row.config is None else shrink(row.config)
    teacher = row.teacher and replace(row.teacher, row=_shrink_row(row.teacher.row))
    start = row.start and _shrink_row(row.start)
    parts = row.parts and (_shrink_row(row.parts[0]), _shrink_row(row.parts[1]))
    return replace(row, config=config, teacher=teacher, start=start, parts=parts, published=None)


def shrink(config: TrainConfig) -> TrainConfig:
    """A run of a minute at most, on built-in data.

    >>> shrink(recipe("modelnet40")).model.channels
    16
    """
    small = _small_rivals().get(type(config.model))
    if small is None:
        sizes = {name: getattr(config.model, name, None) for name in QUARTERED}
        values: dict[str, Any] = {name: max(1, size // 4) for name, size in sizes.items() if size}
        if getattr(config.model, "num_neighbors", 0) > 0:
            values["num_neighbors"] = min(4, config.model.num_neighbors)  # type: ignore[missing-attribute]
        if getattr(config.model, "depth", 0) > 1:
            values["depth"] = config.model.depth // 2  # type: ignore[missing-attribute]
        small = replace(config.model, **values)
    small = replace(small, num_attributes=config.model.num_attributes)
    return replace(
        config,
        dataset=STAND_INS[config.dataset],
        model=small,
        num_points=POINTS if config.task == "classify" else 0,
        epochs=EPOCHS[config.task],
        batch_size=BATCH,
        optimizer="adamw",
        learning_rate=3e-3,
        ema=0.0,
        precision="float32",
        compile=False,
        evaluate_every=1,
    )


def _small_rivals() -> dict[type, Any]:
    """The models of the recipes for the built-in shapes, by the type of their config."""
    found = (recipe(name).model for name in RECIPES if name.startswith("shapes_") and name != "shapes_transformer")
    return {type(model): model for model in found}
