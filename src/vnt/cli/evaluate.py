"""``vnt evaluate RUN``: a trained model under test rotations."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from tyro.conf import Positional

from vnt.cli.printing import result_width


@dataclass(frozen=True)
class Options:
    """Accuracy, or ADE, FDE and miss rate, of a run on its data's test split, turned and not turned."""

    run: Positional[Path]
    """Folder of the run."""
    split: Literal["test", "val", "train"] = "test"
    """Which split; look at "test" once, at the end."""
    rotations: tuple[Literal["I", "z", "SO3"], ...] = ("I", "z", "SO3")
    """Test rotations: none, about the set's up axis, any."""
    num_points: int = 0
    """A fixed random subset of each cloud (0: all points)."""
    classes: bool = False
    """Also print the accuracy of each class."""
    json: bool = False
    """Print JSON instead of tables."""
    data: Path | None = None
    """Folder that holds the data sets (else VNT_DATA, else ./data); or your own data: where they have moved, or
    others of the same classes."""
    device: str = "auto"
    """Where to compute; "auto" takes a GPU where there is one."""


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt evaluate ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt evaluate")
    from rich.console import Console

    from vnt.cli.progress import counting
    from vnt.cli.tables import class_table, evaluation_table
    from vnt.files import for_json
    from vnt.training.runs import evaluate

    with counting(Console(stderr=True), "evaluating") as progress:
        found = evaluate(
            options.run,
            split=options.split,
            protocols=options.rotations,
            num_points=options.num_points,
            device=options.device,
            data_folder=options.data,
            others=_others(options),
            progress=progress,
        )
    if options.json:
        sys.stdout.write(json.dumps(for_json(found.summary()), indent=2, allow_nan=False) + "\n")
        return
    console = Console(width=result_width())
    console.print(evaluation_table(found))
    if options.classes and found.class_names:
        console.print()
        console.print(class_table(found))


def _others(options: Options) -> Path | None:
    """What ``--data`` means to a run on one's own clouds or windows."""
    from vnt.data.sets import SETS
    from vnt.models.saving import read_about

    training = read_about(options.run).get("training", {})
    return None if training.get("dataset", "") in SETS else options.data
