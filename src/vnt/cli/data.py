"""``vnt data list | info | convert | preview``."""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tyro.conf import Positional

from vnt.cli.arguments import OUT
from vnt.cli.printing import result_width

PICTURES = (".png", ".jpg", ".jpeg", ".pdf", ".svg")


@dataclass
class List:
    """The data sets that vnt knows by name, and where they are on this machine."""

    data: Path | None = None
    """Folder that holds the sets (else VNT_DATA, else ./data)."""

    def run(self) -> None:
        """Print a table."""
        from vnt.data.locations import data_folder
        from vnt.data.sets import SETS

        table = Table("name", "holds", "what it is", "where", box=None, header_style="bold", pad_edge=False)
        for name, known in SETS.items():
            path = known.path(self.data)
            place = path.name if path else "not here" if known.files else "built in"
            style = None if path or not known.files else "dim"
            table.add_row(name, known.kind, known.about, escape(place), style=style)
        Console(width=result_width()).print(table)
        _say(f"\nlooked in {data_folder(self.data).absolute()}; VNT_DATA or --data name another folder")


@dataclass
class Info:
    """Say what a file, folder or data set is: format, points, attributes, bounds, or scenario, tracks and rate."""

    path: Positional[str]
    """A cloud, recording, motion set, folder of them, or the name of a data set."""
    data: Path | None = None
    """Folder that holds the sets (else VNT_DATA, else ./data)."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        """Print what was found, one fact a line."""
        from vnt.cli.describe import describe

        facts = describe(self.path, self.data)
        if self.json:
            sys.stdout.write(json.dumps(facts, indent=2) + "\n")
            return
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in facts.items():
            table.add_row(f"[bold]{escape(name)}", escape(_in_words(value)))
        Console(highlight=False, width=result_width()).print(table)


@dataclass
class Convert:
    """Cut recordings into one compact file of windows for training, or write a cloud as .npz.

    Sources are Waymo TFRecord shards, Argoverse 2 parquet, KITTI poses or CSV tables of tracks, as files, folders or
    patterns. One cloud file and a target that ends in .npz converts the cloud.
    """

    sources: Positional[tuple[str, ...]]
    """Files, folders or patterns."""
    out: Annotated[Path, OUT]
    """The file to write: .safetensors for motion, .npz for a cloud."""
    past: int = 11
    """Steps that are seen."""
    future: int = 80
    """Steps that follow."""
    stride: int = 10
    """Steps from window to window, where a recording does not say which step is now."""
    types: tuple[str, ...] = ()
    """Keep these types only, such as vehicle."""
    moving: bool | None = None
    """Keep what moves (True), or what does not (False)."""
    to_predict: bool | None = None
    """Keep what the set's authors want predicted (True), or the rest (False)."""
    own: bool | None = None
    """Keep the recording car (True), or the others (False)."""
    test_fraction: float = 0.2
    """Share of the scenarios that is marked as test."""
    rate: float | None = None
    """Steps per second that CSV tables are resampled to (else their own)."""
    num_points: int | None = None
    """Of a cloud or mesh: how many points to write."""

    def run(self) -> None:
        """Convert with a progress bar."""
        from vnt.data.cloud_files import FORMATS
        from vnt.data.track_tables import TEXTS

        if not self.sources:
            raise ValueError("name files or folders to convert; they come before options that take several words")
        if self.out.suffix.lower() == ".npz":
            self._cloud()
        elif self.out.suffix.lower() in (*FORMATS, *TEXTS, ".parquet", ".tfrecord"):
            raise ValueError(f"{self.out}: windows are written to .safetensors, a cloud to .npz")
        else:
            self._motion()

    def _cloud(self) -> None:
        from vnt.data.cloud_files import read_cloud
        from vnt.data.cloud_files.arrays import write_npz_cloud
        from vnt.data.conversion import kind_of
        from vnt.files import atomic_write

        if len(self.sources) != 1:
            raise ValueError(f"one cloud makes one .npz, got {len(self.sources)} sources")
        if kind := kind_of(self.sources[0]):
            raise ValueError(
                f"{self.sources[0]}: {kind}, and {self.out} would be a cloud: windows are written to .safetensors"
            )
        cloud = read_cloud(self.sources[0], num_points=self.num_points)
        with atomic_write(self.out) as path:
            write_npz_cloud(cloud, path)
        _say(f"{self.out}: {len(cloud):,} points")

    def _motion(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        from vnt.data.conversion import convert, find_files

        columns = (BarColumn(), DownloadColumn(), TextColumn("{task.fields[windows]:,} windows"), TimeRemainingColumn())
        files = find_files(list(self.sources))  # what is not there is told of before there is a bar
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("convert", total=None, windows=0)
            windows = convert(
                files,
                self.out,
                past=self.past,
                future=self.future,
                stride=self.stride,
                types=self.types or None,
                moving=self.moving,
                to_predict=self.to_predict,
                own=self.own,
                test_fraction=self.test_fraction,
                rate=self.rate,
                progress=lambda done, total, found: progress.update(task, completed=done, total=total, windows=found),
            )
        scenarios = len(set(windows.scenario.tolist()))
        tests = int(windows.is_test.sum())
        _say(
            f"{self.out}: {len(windows):,} windows of {scenarios:,} scenarios, {tests:,} of them test, "
            f"{self.out.stat().st_size / 2**20:.1f} MiB"
        )
        if tests == 0 and self.test_fraction > 0:
            _say(
                "nothing is left to test on: whole scenarios are drawn; convert more of them, or raise --test-fraction"
            )


@dataclass
class Preview:
    """Draw a cloud, a recording, or examples of a data set or of a folder of clouds."""

    path: Positional[str]
    """A cloud, recording, motion set, folder of them, or the name of a data set."""
    out: Annotated[Path, OUT] = Path("preview.png")
    """The picture to write: .png, .jpg, .pdf or .svg."""
    data: Path | None = None
    """Folder that holds the sets (else VNT_DATA, else ./data)."""
    split: Literal["train", "val", "test", "train+val"] = "train"
    """Of a data set: which split."""
    color: str | None = None
    """Of a cloud: the attribute that colours it (else height)."""
    seed: int = 0
    """Which examples are drawn, and which points of a mesh."""

    def run(self) -> None:
        """Write the picture."""
        from vnt.cli.preview import picture
        from vnt.files import atomic_write

        if self.out.is_dir():
            raise ValueError(f"{self.out}: a folder, expected the name of a picture such as preview.png")
        suffix = self.out.suffix.lower() or ".png"
        if suffix not in PICTURES:
            raise ValueError(f"{self.out}: cannot draw {suffix!r}, expected one of {', '.join(PICTURES)}")
        figure = picture(self.path, self.data, split=self.split, color=self.color, seed=self.seed)
        with atomic_write(self.out) as path:
            figure.savefig(path, format=suffix[1:], dpi=130, facecolor="white")
        _say(f"wrote {self.out}")


Command = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Info, tyro.conf.subcommand("info")]
    | Annotated[Convert, tyro.conf.subcommand("convert")]
    | Annotated[Preview, tyro.conf.subcommand("preview")]
)


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt data ...``."""
    about = "Data sets by name, and files of clouds and tracks."
    tyro.cli(Command, args=arguments, prog="vnt data", description=about).run()


def _say(text: str) -> None:
    """A line as it is: file names may have brackets, which are no markup, and must not be broken."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def _in_words(value: object) -> str:
    """A fact as people write it: names and numbers, not brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(item, float) for item in value):
            return _range(*value)
        return ", ".join(map(_in_words, value)) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def _range(low: float, high: float) -> str:
    """Two bounds with six digits of what is between them: a scan of ten metres may lie millions from the origin."""
    extent = high - low
    if not 0 < extent < math.inf:
        return f"{low:.9g} to {high:.9g}"
    decimals = 5 - math.floor(math.log10(extent))
    return f"{round(low, decimals)} to {round(high, decimals)}"
