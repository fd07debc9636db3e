"""``vnt predict FILES``: classes of clouds, futures of tracks."""

import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vnt.cli.arguments import OUT
from vnt.cli.printing import UNCUT, result_width


@dataclass(frozen=True)
class Options:
    """Classify clouds in any supported format, or forecast the tracks of a CSV table."""

    files: Positional[tuple[Path, ...]]
    """Files, or folders of clouds."""
    model: Path = Path("modelnet40")
    """Folder of a run, or of a model, or a model that comes with vnt: modelnet40, modelnet40-small."""
    format: Literal["table", "json", "csv"] | None = None
    """How to print; unless said, what the name of --out ends in, and else a table."""
    out: Annotated[Path | None, OUT] = None
    """Write to this file instead of printing."""
    num_points: int = 1024
    """Points of each cloud at most, and so many of a mesh."""
    top: int = 3
    """How many classes to name."""
    seed: int = 0
    """Of the points that are drawn."""
    device: str = "auto"
    """Where to compute; "auto" takes a GPU where there is one."""


def run(arguments: list[str]) -> int:
    """Parse and run ``vnt predict ...``; 1 where some of the files had no answer."""
    options = tyro.cli(Options, args=arguments, prog="vnt predict")
    if not options.files:
        raise ValueError("vnt predict needs files or folders")
    from vnt.files import atomic_write
    from vnt.models.saving import load, read_about
    from vnt.training.distributed import choose_device

    if not options.top >= 1:
        raise ValueError(f"top must be at least 1, got {options.top}")
    about = read_about(options.model)
    model = load(options.model).to(choose_device(options.device))
    rows = _clouds(options, model, about) if "num_classes" in about["model"] else _tracks(options, model, about)
    failed = [row["error"] for row in rows if "error" in row]
    if len(failed) == len(rows):
        raise ValueError(failed[0])
    suffix = "" if options.out is None else options.out.suffix.lower()
    writer = {"json": _as_json, "csv": _as_csv}.get(options.format or suffix.removeprefix("."))
    if writer is None:
        text = _as_table(rows, result_width() if options.out is None else UNCUT)
    else:
        text = writer(rows)
    if options.out is None:
        sys.stdout.write(text)
    else:
        with atomic_write(options.out) as path:
            path.write_text(text)
    if failed:
        sys.stderr.write(f"vnt: {len(failed)} without an answer: {failed[0]}{', ...' if len(failed) > 1 else ''}\n")
    return int(bool(failed))


def _clouds(options: Options, model: Any, about: dict[str, Any]) -> list[dict[str, Any]]:
    from rich.console import Console
    from rich.progress import track

    from vnt.evaluation.predict import find_clouds, predict_clouds

    paths = find_clouds(options.files)
    found = predict_clouds(model, about, paths, num_points=options.num_points, top=options.top, seed=options.seed)
    rows = []
    console = Console(stderr=True)
    for answer in track(found, "reading", total=len(paths), console=console, transient=True, disable=len(paths) < 10):
        row: dict[str, Any] = {"file": str(answer.path)}
        for number, (name, probability) in enumerate(answer.classes):
            row |= {f"class_{number + 1}": name, f"probability_{number + 1}": round(probability, 4)}
        if answer.scaled is not None:
            row["scaled_by"] = float(f"{answer.scaled:.3g}")
        rows.append(row | ({"error": answer.error} if answer.error else {}))
    return rows


def _tracks(options: Options, model: Any, about: dict[str, Any]) -> list[dict[str, Any]]:
    from vnt.data.conversion import find_files

    if not about.get("dt"):
        raise ValueError(
            f'{options.model}: its config.json does not say how many seconds its steps are apart: add "dt" there, '
            'or give save_pretrained about={"dt": 0.1}'
        )
    files: dict[Path, Path] = {}
    rows: list[dict[str, Any]] = []
    for source in options.files:
        try:
            files |= {path.resolve(): path for path in find_files(source)}
        except OSError as error:
            rows.append({"scenario": source.stem, "error": str(error)})
    for path in files.values():
        rows += _forecasts(path, model, about)
    return rows


def _forecasts(path: Path, model: Any, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Of all tracks in a file; or as far as it can be read, and why no further."""
    from vnt.data.conversion import recordings_in
    from vnt.evaluation.predict import predict_tracks

    rows: list[dict[str, Any]] = []
    try:
        for recording in recordings_in(path, rate=1 / about["dt"]):
            ends = dict(zip(recording.track_ids, recording.valid, strict=True))
            futures = predict_tracks(model, about, recording)
            if futures and (left := [name for name in recording.track_ids if name not in futures]):
                names = ", ".join(left[:3]) + (", ..." if len(left) > 3 else "")
                sys.stderr.write(
                    f"vnt: {path}: no forecast of {len(left)} not seen twice among their last steps: {names}\n"
                )
            for name, future in futures.items():
                last = recording.start + about["dt"] * int(ends[name].nonzero()[0][-1])
                for step, place in enumerate(future, start=1):
                    ahead = step * about["dt"]
                    when = {"t": round(last + ahead, 4), "seconds": round(ahead, 4)}
                    where = {axis: round(float(value), 6) for axis, value in zip("xyz", place, strict=True)}
                    rows.append({"scenario": recording.name, "track": name} | when | where)
        if not rows:
            raise ValueError("no track in it was seen twice among its last steps")
    except (ValueError, OSError) as error:
        words = str(error)
        named = words if words.startswith(str(path)) else f"{path}: {words}"
        rows.append({"scenario": path.stem, "error": named})
    return rows


def _as_json(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=1) + "\n"


def _as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    names = _names(rows)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_table(rows: list[dict[str, Any]], width: int | None) -> str:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    names = _names(rows)
    table = Table(*(name.replace("_", " ") for name in names), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(escape(_word(name, row.get(name, ""))) for name in names))
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue()


def _names(rows: list[dict[str, Any]]) -> list[str]:
    """Of the columns: those of what came first, and errors last."""
    return sorted(dict.fromkeys(name for row in rows for name in row), key=lambda name: name == "error")


def _word(name: str, value: Any) -> str:
    if value == "":
        return ""
    if name in ("x", "y", "z"):
        return f"{value:.3f}"
    return f"{value:.1%}" if name.startswith("probability") else str(value)
