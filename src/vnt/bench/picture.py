"""Records as pictures: encoders against the size of the cloud, models against what they cost."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from vnt.files import atomic_write

COLORS = ("#1f6feb", "#0b8a5a", "#c0392b", "#8e6bbf", "#777777")


def scaling_picture(record: dict[str, Any], path: Path) -> None:
    """Two panels with one line for each contender, both axes logarithmic."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    names = list(dict.fromkeys(row["contender"] for row in record["rows"]))
    first = record["rows"][0]
    time = "forward and backward, µs per point"
    unit = 1e6
    if not record["absolute"]:  # a machine that others use too
        time = f"forward and backward per point, relative to {first['contender']} at {first['points']}"
        unit = first["batch"] * first["points"] / first["both"]
    panels = (("both", unit, time), ("both_bytes", 2**-10, "memory of forward and backward, KiB per point"))
    sizes = sorted({row["points"] for row in record["rows"]})
    for ax, (key, unit, label) in zip(axes, panels, strict=True):
        for name, color in zip(names, COLORS, strict=False):
            rows = [row for row in record["rows"] if row["contender"] == name]
            points = [row["points"] for row in rows]
            values = [unit * row[key] / row["batch"] / row["points"] for row in rows]
            ax.plot(points, values, "o-", color=color, label=name, markersize=4)
        ax.set(xscale="log", yscale="log", xlabel="points in a cloud", ylabel=label)
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes], fontsize=8)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.grid(alpha=0.3)
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(record["machine"], fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


def pareto_picture(record: dict[str, Any], path: Path) -> None:
    """Score under any rotation against parameters and time, with the line of those that no other beats in both."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    is_accuracy = record["score"] == "accuracy"
    sign = 1 if is_accuracy else -1
    panels = (("parameters", "parameters"), ("microseconds", "time of inference for each item, relative"))
    for ax, (key, label) in zip(figure.subplots(1, 2), panels, strict=True):
        unit = 1 if key == "parameters" else min(row[key] for row in record["rows"])
        rows = [(max(row[key] / unit, 1), row["scores"]["SO3"], row) for row in record["rows"]]
        for x, y, row in rows:
            color = COLORS[0] if row["verdict"] in ("exact", "rounding", "ε-bias") else COLORS[2]
            ax.plot(x, y, "o", color=color)
            ax.annotate(row["recipe"], (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7)
        front = [
            (x, y)
            for x, y, _ in sorted(rows, key=lambda row: row[0])
            if not any(a <= x and sign * b >= sign * y and (a, b) != (x, y) for a, b, _ in rows)
        ]
        ax.step(*zip(*front, strict=True), where="post", color=COLORS[4], linewidth=1, zorder=0)
        ax.set(xscale="log", xlabel=label, ylabel="accuracy, test SO(3)" if is_accuracy else "ADE in m, test SO(3)")
        ax.grid(alpha=0.3)
        ax.margins(x=0.2)
    figure.suptitle("blue keeps its answer when the input turns, red does not", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)
