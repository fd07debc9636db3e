"""``vnt bench``: how fast it is, beside others, on this machine."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from vnt.cli.arguments import OUT

Name = Literal[
    "encoder",
    "scaling",
    "step",
    "loop",
    "large",
    "ragged",
    "attention",
    "inference",
    "exactness",
    "audit",
    "data",
    "all",
]


@dataclass(frozen=True)
class Options:
    """Speed, memory and exactness on this machine, side by side with others, as tables and a picture.

    encoder: our encoder beside PyPI's VN-transformer. scaling: encoders from 256 points to a million, beside PyPI's, an
    ordinary transformer and attention alone, as shares of what the machine can do. step: a training step on a GPU.
    loop: what the training loop adds to bare steps. large: clouds of up to ten million points. ragged: batches without
    padding. attention: ours beside the SE(3)-Transformer's. inference: eager, compiled and ONNX Runtime on the CPU.
    exactness: rotation errors. audit: seconds of an audit. data: how fast batches arrive.
    """

    names: Positional[tuple[Name, ...]] = ("encoder", "scaling")
    """Which comparisons."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to run; "auto" takes a GPU where there is one. Absolute times are worth quoting on a GPU only."""
    rounds: int = 15
    """How often each contender runs; medians count."""
    points: tuple[int, ...] = ()
    """Sizes of the scaling comparison (256 to 1,048,576)."""
    out: Annotated[Path | None, OUT] = None
    """Folder for a page of each comparison, and the scaling one's record and picture."""
    draw: Path | None = None
    """Draw the picture of a scaling record that was made elsewhere, and do nothing else."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if any(n < 1 for n in self.points):
            raise ValueError(f"points must be at least 1, got {self.points}")


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt bench ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt bench")
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler that counts memory is talkative
    import torch

    from vnt.bench import comparisons

    if options.draw is not None:
        _say(str(comparisons.draw(options.draw)))
        return
    name = ("cuda" if torch.cuda.is_available() else "cpu") if options.device == "auto" else options.device
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device here")
    settings = comparisons.Settings(torch.device(name), options.rounds)
    if options.points:
        settings = comparisons.Settings(settings.device, settings.rounds, options.points)
    names = list(comparisons.COMPARISONS) if "all" in options.names else list(dict.fromkeys(options.names))
    comparisons.carry_out(names, settings, options.out, _say)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
