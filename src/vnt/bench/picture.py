"""The scaling record as a picture: time and memory per point against the size of the cloud."""

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
