"""The tables and figures that consist of rows, by name, and what has been run of them. No torch."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from vnt.models.rivals.forecasting_config import ConstantVelocityConfig, LinearForecasterConfig
from vnt.reproduction.classification import figure7, figure8, table1, table2, table5
from vnt.reproduction.experiments import Experiment, Row
from vnt.reproduction.forecasting import table3

EXPERIMENTS: dict[str, Callable[[], Experiment]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table5": table5,
    "fig7": figure7,
    "fig8": figure8,
}


def runs_of(experiment: Experiment, row: Row, folder: Path) -> list[str]:
    """What has been run of a row: the rotation of its training data and the seed, and whether it has ended."""
    found = []
    for run in sorted((folder / experiment.name).glob(f"{row.name}-*")):
        which = re.fullmatch(rf"{re.escape(row.name)}-((?:I|z|SO3)-\d+(?:-held-out)?)", run.name)
        if which is not None:
            found.append(which[1] + (_state(run) if row.parts is None else ""))  # put together at once, not trained
    return found


def effort(row: Row) -> str:
    """How long it is trained; nothing of what is put together of others."""
    if row.config is None or row.parts is not None:
        return ""
    if isinstance(row.config.model, (ConstantVelocityConfig, LinearForecasterConfig)):
        return "solved"
    return f"{row.config.epochs} epochs" + (", by name alone" if row.optional else "")


def needs(row: Row) -> str:
    """The rows that are trained before it, by name."""
    before = [row.start] if row.start is not None else list(row.parts or ())
    if row.teacher is not None:
        before.append(row.teacher.row)
    return ", ".join(other.name for other in before)


def _state(run: Path) -> str:
    try:
        about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        about = {}
    if about.get("diverged"):
        return " (diverged)"
    return "" if about.get("finished") else " (begun)"
