"""``vnt export MODEL -o model.onnx``: a trained model for programs that have no vnt."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from vnt.cli.arguments import OUT


@dataclass(frozen=True)
class Options:
    """Write a model as ONNX (.onnx) or as a torch.export program (.pt2), for any number of clouds and points.

    What it computes, and its symmetry, are compared with the model's before the file is written.

    For example: vnt export modelnet40 -o modelnet40.onnx
    """

    model: Positional[Path]
    """Folder of a run, or of a model, or a model that comes with vnt: modelnet40, modelnet40-small."""
    out: Annotated[Path, OUT] = Path("model.onnx")
    """The file; its ending says which kind."""
    precision: Literal["float32", "float16"] = "float32"
    """That it computes in; inputs and results are float32."""
    mask: bool = False
    """Take a mask as well, for clouds of different sizes in one batch."""


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt export ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt export")
    from rich.console import Console

    from vnt.export import export
    from vnt.models.saving import load, read_about

    console = Console(stderr=True)
    about, model = read_about(options.model), load(options.model)
    with console.status("exporting") as status:
        checks = export(
            model,
            options.out,
            about=about,
            precision=options.precision,
            mask=options.mask,
            say=lambda words: status.update(words),
        )
    size = options.out.stat().st_size / 2**20
    sys.stdout.write(f"{options.out}  {size:.1f} MiB, {options.precision}\n")
    for one in checks:
        sys.stdout.write(
            f"  {one.items} x {one.tokens:<5} from the model {one.parity:.0e}   "
            f"under a rotation {one.symmetry:.0e} (the model itself {one.model_symmetry:.0e})\n"
        )
