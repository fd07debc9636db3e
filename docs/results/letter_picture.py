"""Draws letter.jsonl: what each choice moves, made in the paper's arrangement, and taken back from ours.

python docs/results/letter_picture.py, which writes letter.png beside it.
"""

import json
from pathlib import Path
from statistics import mean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

HERE = Path(__file__).parent
STARTS = (
    ("none", "{}", "#c0392b", "the paper to the letter, and with one choice of ours"),
    ("upright", "upright {}", "#e08e0b", "its norms begun upright, and with one choice more"),
    ("all", "all -{}", "#1f6feb", "ours, and with one choice taken back"),
)
"""What arrows begin at, the runs they end at, their colour, and what they are called."""
TITLES = {
    "upright": "norms that begin upright",
    "branch": "norms in the branches",
    "epsilon": "ε = 1e-6",
    "lift": "no VN-ReLU on single points",
    "prenorm": "pre-norm",
    "no_batch_norm": "no VN-BatchNorm",
    "rms_norm": "VN-RMSNorm, guards of 1 and 0.01",
    "radius": "divided by the radius",
    "heads": "16 heads",
    "point_mlp": "MLP on each point's invariants",
    "surroundings": "surroundings of each point",
    "max": "pooled by maximum",
    "leaky": "slope 0.2 in VN-ReLU",
    "rate": "rate 2e-3, cosine",
    "motions": "six smooth motions",
    "mixing": "mixed by invariants, dropout",
    "slide": "sliding windows",
}
PANELS = (
    ("clouds", "accuracy", 100.0, 15, "held-out clouds of ModelNet40 that are right, %"),
    ("tracks", "ade", 1.0, 60, "average displacement error of held-out vehicles, m"),
)
"""Kind of run, what is drawn of it, in which unit, after how many epochs, and its name."""


def main() -> None:
    """The picture."""
    rows = [json.loads(line) for line in (HERE / "letter.jsonl").read_text().splitlines()]
    figure = Figure(figsize=(8, 8.5), layout="constrained")
    panels = figure.subplots(len(PANELS), 1, height_ratios=(2, 1))
    for ax, (kind, key, unit, epochs, label) in zip(panels, PANELS, strict=True):
        found: dict[str, list[float]] = {}
        for row in rows:
            if (row["kind"], row["epochs"]) == (kind, epochs):
                found.setdefault(row["choices"], []).append(unit * row[key])
        draw(ax, found, label)
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside upper left")
    figure.savefig(HERE / "letter.png", dpi=110)


def draw(ax: Axes, found: dict[str, list[float]], label: str) -> None:
    """An arrow for each choice from each start, as far as it was run; runs are dots."""
    names = [name for name in TITLES if any(end.format(name) in found for _, end, _, _ in STARTS)]
    for offset, (start, end, color, title) in zip((0.24, 0.0, -0.24), STARTS, strict=True):
        ax.axvline(mean(found[start]), color=color, linewidth=1, label=title)
        for y, name in enumerate(reversed(names)):
            runs = found.get(end.format(name))
            if runs:
                arrow = {"arrowstyle": "->", "color": color, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
                ax.annotate("", (mean(runs), y + offset), (mean(found[start]), y + offset), arrowprops=arrow)
                ax.plot(runs, [y + offset] * len(runs), "o", color=color, markersize=3, alpha=0.5)
    ax.set_yticks(range(len(names)), [TITLES[name] for name in reversed(names)])
    ax.set_xlabel(label)
    ax.grid(axis="x", alpha=0.3)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


main()
