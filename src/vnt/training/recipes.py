"""Named runs. A recipe returns a complete config; a variant is ``dataclasses.replace`` on another. No torch."""

from collections.abc import Callable
from dataclasses import replace

from vnt.models.apart_config import ScanConfig
from vnt.models.config import ClassifierConfig, ForecasterConfig
from vnt.models.recipes import best_classifier, paper_classifier, paper_forecaster, upright
from vnt.models.rivals.config import TransformerClassifierConfig, TransformerForecasterConfig
from vnt.spelling import suggest
from vnt.training.config import TrainConfig
from vnt.training.rival_recipes import FORECASTERS, MODELNET40, SHAPES, rivals_of


def shapes() -> TrainConfig:
    """VN-Transformer on the built-in shapes: minutes on a CPU, no download."""
    model = ClassifierConfig(num_classes=21, channels=32, num_heads=4, point_channels=128)
    return TrainConfig(
        dataset="shapes", model=model, num_points=96, epochs=20, learning_rate=3e-3, ema=0.99, label_smoothing=0.05
    )


def shapes_transformer() -> TrainConfig:
    """A plain Transformer of the same size on the built-in shapes: the control."""
    return replace(
        shapes(), model=TransformerClassifierConfig(num_classes=21, channels=72, num_heads=4), learning_rate=1e-3
    )


def motion() -> TrainConfig:
    """VN-Transformer on the built-in tracks."""
    model = ForecasterConfig(num_future=30, num_motions=6, channels=32, num_heads=8)
    return TrainConfig(dataset="motion", model=model, batch_size=64, epochs=30, learning_rate=3e-3, ema=0.99)


def motion_transformer() -> TrainConfig:
    """A plain Transformer of the same size on the built-in tracks."""
    return replace(
        motion(), model=TransformerForecasterConfig(num_future=30, num_motions=6, channels=40), learning_rate=1e-3
    )


def modelnet40() -> TrainConfig:
    """VN-Transformer on ModelNet40, on a GPU."""
    return TrainConfig(
        dataset="modelnet40",
        model=best_classifier(40),
        num_points=512,
        scale=1.5,
        mix=0.5,
        epochs=100,
        batch_size=128,
        learning_rate=2e-3,
        label_smoothing=0.1,
        precision="bfloat16",
        compile=True,
        evaluate_every=5,
    )


def modelnet40_pairs() -> TrainConfig:
    """The same with networks that look at pairs of neighbouring points."""
    config = modelnet40()
    model = replace(config.model, pair_rounds=2)  # type: ignore[unexpected-keyword]
    return replace(config, model=model, epochs=70, evaluate_every=10)


def modelnet10() -> TrainConfig:
    """The same on ten classes."""
    return replace(modelnet40(), dataset="modelnet10", model=best_classifier(10))


def modelnet40_paper() -> TrainConfig:
    """The paper's literal classifier on ModelNet40: AdamW 1e-3 with linear decay."""
    return replace(
        modelnet40(),
        model=paper_classifier(40),
        schedule="linear",
        learning_rate=1e-3,
        precision="float32",
        num_points=768,
        scale=1.0,
        mix=0.0,
        epochs=400,
    )


def modelnet40_upright() -> TrainConfig:
    """The same with norms that begin upright, turning next to no vector round (docs/results/letter.md)."""
    return replace(modelnet40_paper(), model=upright(paper_classifier(40)))


def modelnet40_polka_dot() -> TrainConfig:
    """VN-Transformer with early fusion on polka-dot ModelNet40: not stretched, which would blur what dots tell."""
    model = replace(best_classifier(40), num_attributes=1, fusion="early")
    return replace(modelnet40(), dataset="modelnet40_polka_dot", model=model, scale=1.0)


def modelnet40_polka_dot_scan() -> TrainConfig:
    """What polka dots say alone, for `vnt.combine`: within which radius they lie, of whole clouds."""
    return replace(
        modelnet40_polka_dot(),
        model=ScanConfig(num_classes=40),
        num_points=0,
        mix=0.0,
        epochs=40,
        learning_rate=3e-3,
        weight_decay=0.01,
        label_smoothing=0.0,
        balance=True,
        ema=0.99,
        precision="float32",
    )


def scanobjectnn() -> TrainConfig:
    """VN-Transformer on the hardest variant of ScanObjectNN."""
    return replace(modelnet40(), dataset="scanobjectnn_pb_t50_rs", model=best_classifier(15))


def womd() -> TrainConfig:
    """VN-Transformer on Waymo Open Motion, vehicles of the paper's number."""
    model = ForecasterConfig(num_future=80, num_motions=6, channels=64, num_heads=8, head_channels=256, dropout=0.3)
    return TrainConfig(
        dataset="womd_paper", model=model, slide=20, batch_size=64, epochs=250, learning_rate=2e-3, ema=0.99
    )


def womd_transformer() -> TrainConfig:
    """A plain Transformer on the same, turned about z in training."""
    model = TransformerForecasterConfig(num_future=80, num_motions=6, channels=80, depth=3)
    return replace(womd(), model=model, epochs=300, learning_rate=3e-3, rotation="z")


def womd_paper() -> TrainConfig:
    """The paper's literal forecaster on the same."""
    return replace(womd(), model=paper_forecaster(), slide=0, schedule="linear", learning_rate=1e-3)


def womd_upright() -> TrainConfig:
    """The same with norms that begin upright."""
    return replace(womd_paper(), model=upright(paper_forecaster()))


RECIPES: dict[str, Callable[[], TrainConfig]] = {
    recipe.__name__: recipe
    for recipe in (
        shapes,
        shapes_transformer,
        motion,
        motion_transformer,
        modelnet40,
        modelnet40_pairs,
        modelnet10,
        modelnet40_paper,
        modelnet40_upright,
        modelnet40_polka_dot,
        modelnet40_polka_dot_scan,
        scanobjectnn,
        womd,
        womd_transformer,
        womd_paper,
        womd_upright,
    )
}
RECIPES |= rivals_of(shapes, SHAPES) | rivals_of(modelnet40, MODELNET40)
RECIPES |= rivals_of(motion, FORECASTERS) | rivals_of(womd, FORECASTERS)


def recipe(name: str) -> TrainConfig:
    """The recipe of that name."""
    if name not in RECIPES:
        raise ValueError(f"no recipe {name!r}; {suggest(name, RECIPES)}")
    return RECIPES[name]()
