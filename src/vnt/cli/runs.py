"""``vnt runs``: what was trained, and how it compares."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro
from tyro.conf import Positional

from vnt.cli.printing import result_width


@dataclass(frozen=True)
class Options:
    """List the runs below a folder, or say in which settings and results two runs differ."""

    folders: Positional[tuple[Path, ...]] = ()
    """One folder to look in (runs unless said), or two runs to compare."""
    json: bool = False
    """Print JSON instead of a table."""


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt runs ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt runs")
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from vnt.training.runs import differences, summarize

    if len(options.folders) > 2:
        raise ValueError(f"vnt runs takes one folder, or two runs to compare, got {len(options.folders)}")
    if len(options.folders) == 2:
        different = differences(*options.folders)
        if options.json:
            sys.stdout.write(json.dumps(different, indent=2) + "\n")
            return
        table = Table("setting", *map(str, options.folders), box=None, header_style="bold", pad_edge=False)
        for name, (one, two) in different.items():
            table.add_row(name, str(one), str(two))
        Console(width=result_width()).print(table if different else "no setting differs")
        return
    root = options.folders[0] if options.folders else Path("runs")
    if not root.is_dir():
        raise ValueError(f"{root}: no such folder")
    lines = summarize(root)
    if options.json:
        sys.stdout.write(json.dumps(lines, indent=2) + "\n")
        return
    if not lines:
        Console().print(f"no runs in {root}")
        return
    names = list(dict.fromkeys(name for line in lines for name in line))
    table = Table(*names, box=None, header_style="bold", pad_edge=False)
    for line in lines:
        table.add_row(*(escape(_word(line.get(name))) for name in names))
    Console(width=result_width()).print(table)


def _word(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_word(item)}" for name, item in value.items()) or "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)
