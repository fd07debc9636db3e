"""``vnt compare RECIPE ...``: models side by side, trained on a budget."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from vnt.cli.arguments import OUT


@dataclass(frozen=True)
class Options:
    """Train several recipes on a budget, then turn, count, time and audit what came out.

    For example: vnt compare shapes shapes_transformer --minutes 2, and with --dataset FOLDER on scans of one's own
    """

    recipes: Positional[tuple[str, ...]]
    """Recipes of one task, from `vnt train --help`."""
    dataset: str | None = None
    """A folder of clouds, or a file of windows, instead of the recipes' own data set."""
    minutes: float = 2.0
    """Of training for each."""
    rotations: tuple[Literal["I", "z", "SO3"], ...] = ("I",)
    """Of the training data; each recipe is trained under each."""
    split: Literal["val", "test"] = "val"
    """Which split is turned; look at "test" once, at the end."""
    out: Annotated[Path, OUT] = Path("runs/compare")
    """Folder of the runs, of compare.json, compare.md and pareto.png. What has finished there is not trained again."""
    data: Path | None = None
    """Folder that holds the data sets (else VNT_DATA, else ./data)."""
    device: str = "auto"
    """Where to compute; "auto" takes a GPU where there is one."""
    seed: int = 0
    """Of everything drawn."""

    def __post_init__(self) -> None:
        if not self.recipes:
            raise ValueError("name at least one recipe; vnt train --help lists them")
        if self.minutes <= 0:
            raise ValueError(f"minutes must be positive, got {self.minutes}")


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt compare ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt compare")
    from rich.console import Console

    from vnt.bench import rivals
    from vnt.bench.picture import pareto_picture
    from vnt.cli.training import watching
    from vnt.files import atomic_write

    console = Console(stderr=True)
    with watching(console) as watch:
        standings = rivals.compare(
            list(options.recipes),
            options.out,
            minutes=options.minutes,
            rotations=options.rotations,
            split=options.split,
            device=options.device,
            seed=options.seed,
            changes=None if options.dataset is None else {"dataset": options.dataset},
            data_folder=options.data,
            say=lambda words: console.print(words, markup=False),
            watch=watch,
        )
    text, record = rivals.table(standings), rivals.record(standings)
    with atomic_write(options.out / "compare.json") as path:
        path.write_text(json.dumps(record, indent=1) + "\n")
    with atomic_write(options.out / "compare.md") as path:
        path.write_text(text + "\n", encoding="utf-8")
    pareto_picture(record, options.out / "pareto.png")
    sys.stdout.write(f"{text}\n\n{options.out / 'pareto.png'}\n")
