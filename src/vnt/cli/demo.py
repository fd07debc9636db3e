"""``vnt demo``: turn the test clouds, and see which model cares. Minutes on a CPU, no download."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from vnt.cli.arguments import OUT
from vnt.training.config import TrainConfig
from vnt.training.recipes import recipe


@dataclass(frozen=True)
class Options:
    """Train our Transformer and a plain one on built-in shapes and tracks, turn the test data, and write a report."""

    out: Annotated[Path, OUT] = Path("runs/demo")
    """Folder of the demo; the runs of an earlier one there are replaced."""
    effort: float = 1.0
    """Multiplies the number of epochs; 1 takes about five minutes on two cores."""
    seed: int = 0
    """Of everything."""


def configs(effort: float, seed: int) -> dict[str, TrainConfig]:
    """The five runs of the demo by name."""
    ours, plain = recipe("shapes"), recipe("shapes_transformer")
    runs = {
        "VN-Transformer": replace(ours, epochs=9),
        "Transformer": replace(plain, epochs=8),
        "Transformer, SO(3)": replace(plain, epochs=12, rotation="SO3"),
        "VN forecaster": replace(recipe("motion"), epochs=20),
        "plain forecaster": replace(recipe("motion_transformer"), epochs=25),
    }
    return {
        name: replace(config, epochs=max(1, round(config.epochs * effort)), seed=seed) for name, config in runs.items()
    }


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt demo``."""
    options = tyro.cli(Options, args=arguments, prog="vnt demo")
    if not 0 < options.effort < 1000:
        raise ValueError(f"effort must be positive and below 1000, got {options.effort}")
    from vnt.cli.demonstration import demonstrate

    demonstrate(options.out, configs(options.effort, options.seed))
