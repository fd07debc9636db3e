"""``vnt audit CHECKPOINT``: how equivariant a trained model is, measured, bounded, explained."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from vnt.cli.arguments import OUT


@dataclass(frozen=True)
class Options:
    """How equivariant a trained model is, in each precision: measured, bounded, explained, layer by layer."""

    checkpoint: Positional[Path]
    """Folder of a run, or of a model, or a model that comes with vnt: modelnet40, modelnet40-small."""
    split: Literal["val", "test", "train"] = "val"
    """Clouds or tracks of which split of the run's own data."""
    count: int = 8
    """How many of them, drawn by the seed."""
    num_points: int = 1024
    """A fixed random subset of each cloud (0: all points)."""
    random: bool = False
    """Random clouds or tracks instead of the run's own data."""
    group: Literal["SO3", "O3", "SO2", "translations", "permutations"] = "SO3"
    """Which symmetry; SO2 turns about the set's up axis."""
    samples: int = 12
    """Random elements of the group for each cloud or track, before the climb to the worst."""
    sweep: bool = True
    """Also try other bias norms ε with the model's weights."""
    certified: int = 1
    """How many items to certify, the worst first."""
    json: bool = False
    """Print JSON instead of words."""
    out: Annotated[Path | None, OUT] = None
    """Folder for report.html, audit.json and the pictures."""
    strict: bool = False
    """End with code 1 where a verdict is broken or ill-conditioned."""
    data: Path | None = None
    """Folder that holds the data sets (else VNT_DATA, else ./data)."""
    device: str = "auto"
    """Where to compute; "auto" takes a GPU where there is one."""
    seed: int = 0
    """Of everything drawn."""

    def __post_init__(self) -> None:
        for name, least in (("count", 1), ("num_points", 0), ("samples", 1), ("certified", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt audit ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt audit")
    from vnt.cli.auditing import carry_out

    carry_out(options)
