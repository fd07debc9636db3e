"""An experiment as a page: what was published beside what came out, as Markdown, HTML and a record."""

import json
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vnt.bench.timing import markdown_table
from vnt.evaluation.report import Page
from vnt.files import atomic_write
from vnt.reproduction.experiments import Experiment, Row
from vnt.reproduction.running import Outcome

Picture = tuple[str, Figure, str]
"""A name for its file, the figure, and words about it."""


def table(experiment: Experiment, outcomes: list[Outcome]) -> tuple[list[str], list[list[str]]]:
    """Header and lines: a line for each row and training rotation, a column for each test rotation."""
    tests = next((list(o.scores) for o in outcomes if o.scores), ["I", "z", "SO3"])
    speed = [] if experiment.against is None else ["speed, of the first"]
    header = ["model", "published", "trained", *(f"test {r}" for r in tests), "parameters", *speed]
    header += ["violation", "epochs", "minutes", "runs"]
    lines, first = [], None
    for row in experiment.rows:
        mine = [o for o in outcomes if o.row == row.name]
        if not mine:
            lines.append([row.title, _score(experiment, row.published), *["–"] * (len(header) - 2)])
        for rotation in dict.fromkeys(o.trained for o in mine):
            group = [o for o in mine if o.trained == rotation]
            first = first or group
            lines.append(_line(experiment, row, rotation, group, tests, first))
    return header, lines


def _line(
    experiment: Experiment, row: Row, rotation: str, group: list[Outcome], tests: list[str], first: list[Outcome]
) -> list[str]:
    done = [o for o in group if o.scores is not None]
    runs = f"{len(done)}" + (f", {len(group) - len(done)} diverged" if len(done) < len(group) else "")
    begin = [row.title, _score(experiment, row.published), rotation]
    if not done:
        return [*begin, *["–"] * (len(tests) + 1 + (experiment.against is not None) + 3), runs]
    scores = [_spread(experiment, [o.scores[r] for o in done if o.scores]) for r in tests]
    speed = [] if experiment.against is None else [_relative_speed(done, first)]
    minutes = statistics.mean(o.seconds for o in done) / 60
    violation = max(o.violation for o in done)
    end = [f"{violation:.0e}", str(done[0].epochs), f"{minutes:.1f}", runs]
    return [*begin, *scores, f"{done[0].parameters:,}", *speed, *end]


def _relative_speed(group: list[Outcome], first: list[Outcome]) -> str:
    mine, theirs = mean_speed(group), mean_speed(first)
    return f"{mine / theirs:.2f}" if mine and theirs else "–"


def mean_speed(group: list[Outcome]) -> float | None:
    """Of the runs whose speed is known."""
    known = [o.speed for o in group if o.speed]
    return statistics.mean(known) if known else None


def _score(experiment: Experiment, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f} %" if experiment.score == "accuracy" else f"{value:.2f} m"


def _spread(experiment: Experiment, values: list[float]) -> str:
    """The mean, and the standard deviation where there are several."""
    mean = _score(experiment, statistics.mean(values))
    if len(values) == 1:
        return mean
    number, unit = mean.split(" ")
    off = statistics.stdev(values)
    return f"{number} ± {100 * off:.1f} {unit}" if experiment.score == "accuracy" else f"{number} ± {off:.2f} {unit}"


def write(
    folder: Path,
    name: str,
    title: str,
    about: str,
    *,
    lines: tuple[list[str], list[list[str]]] | None = None,
    notes: tuple[str, ...] = (),
    pictures: tuple[Picture, ...] = (),
    record: dict[str, Any] | None = None,
) -> str:
    """The page as ``name.md`` and ``name.html``, its pictures beside it, and the record; returns the Markdown."""
    page, text = Page(title), [f"# {title}", about]
    page.text(about)
    if lines is not None:
        page.table(*lines)
        text.append(markdown_table(*lines))
    for note in notes:
        page.note(note)
        text.append(note)
    folder.mkdir(parents=True, exist_ok=True)
    for file, figure, words in pictures:
        page.figure(figure, words)
        with atomic_write(folder / f"{file}.png") as path:
            figure.savefig(path, format="png", dpi=110)
        text.append(f"![{words}]({file}.png)" if words == about else f"![{words}]({file}.png)\n\n{words}")
    content = {f"{name}.md": "\n\n".join(text) + "\n", f"{name}.html": page.html()}
    if record is not None:
        content[f"{name}.json"] = json.dumps(record, indent=1, default=str) + "\n"
    for file, words in content.items():
        with atomic_write(folder / file) as path:
            path.write_text(words, encoding="utf-8")
    return content[f"{name}.md"]


def record(experiment: Experiment, outcomes: list[Outcome]) -> dict[str, Any]:
    """All that was found, with the settings of each row."""
    rows = {row.name: {"title": row.title, "published": row.published} for row in experiment.rows}
    configs = {row.name: row.config.to_dict() for row in experiment.rows if row.config is not None}
    return {"experiment": experiment.name, "rows": rows, "configs": configs, "outcomes": [asdict(o) for o in outcomes]}
