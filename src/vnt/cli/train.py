"""``vnt train RECIPE``: typed overrides, live progress, resume."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import AvoidSubcommands, Positional

from vnt.cli.arguments import OUT
from vnt.spelling import suggest
from vnt.training.config import TrainConfig
from vnt.training.recipes import RECIPES, recipe

HELP = """usage: vnt train RECIPE [-o FOLDER] [--SETTING VALUE ...]
       vnt train --resume FOLDER [--from-step N]

Train a model. A recipe is a complete setting, and every part of it can be changed; vnt train RECIPE --help lists them:

    vnt train shapes --epochs 5 --model.channels 64 --rotation SO3

The same command trains on many GPUs:

    torchrun --nproc-per-node=8 -m vnt train modelnet40

recipes:
"""


@dataclass(frozen=True)
class Options:
    """A recipe with changes."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=TrainConfig)
    out: Annotated[Path | None, OUT] = None
    """Folder of the run (runs/RECIPE-N unless said)."""
    data: Path | None = None
    """Folder that holds the data sets (else VNT_DATA, else ./data)."""
    tensorboard: bool = False
    """Also write TensorBoard files into the run's folder."""
    test: bool = True
    """Look at the test split when the run has finished."""


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was interrupted."""

    folder: Positional[Path]
    """Folder of the run."""
    from_step: int | None = None
    """Go on from the checkpoint after so many steps (else the newest)."""
    data: Path | None = None
    """Folder that holds the data sets (else VNT_DATA, else ./data)."""
    tensorboard: bool = False
    """Also write TensorBoard files into the run's folder."""
    test: bool = True
    """Look at the test split when the run has finished."""


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt train ...``."""
    if not arguments or arguments[0] in ("-h", "--help"):
        width = max(map(len, RECIPES))
        lines = [f"    {name:{width}}  {(make.__doc__ or '').splitlines()[0]}" for name, make in RECIPES.items()]
        sys.stdout.write(HELP + "\n".join(lines) + "\n")
        return
    first, *rest = arguments
    if first == "--resume":
        from vnt.cli.training import resume_run

        resume_run(tyro.cli(Resume, args=rest, prog="vnt train --resume"))
        return
    if first not in RECIPES:
        raise ValueError(f"no recipe {first!r}; {suggest(first, RECIPES)}")
    options = tyro.cli(
        AvoidSubcommands[Options],
        default=Options(config=recipe(first)),
        args=rest,
        prog=f"vnt train {first}",
        description=RECIPES[first].__doc__,
    )
    from vnt.cli.training import start_run

    start_run(first, options)
