"""An audit as pictures: the violation over rotations, along depth, and over bias norms."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vnt.equivariance.report import AuditReport
from vnt.equivariance.rotation_pictures import ALARM, COLORS, INK, QUIET, draw_rotations, finish_logarithmic, positive
from vnt.equivariance.tracing import Step, innermost

AMPLIFIED = 100.0
"""Layers that make a violation more than so many times larger are marked, as in `vnt.equivariance.tracing.advice`."""
RING: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 11, "mfc": "none", "mec": ALARM, "mew": 1.6}
MOST_NAMES = 70
"""Names that fit below a picture."""


def figures(report: AuditReport) -> dict[str, Figure]:
    """The pictures there are, by name: "rotations", "depth", "sweep"."""
    drawn = {"rotations": draw_rotations(report), "depth": draw_depth(report), "sweep": draw_sweep(report)}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def draw_depth(report: AuditReport) -> Figure | None:
    """The violation out of each module without parts of its own, in the order in which they ran; None without steps."""
    lines = {precision: innermost(steps) for precision, steps in report.steps.items()}
    lines = {precision: steps for precision, steps in lines.items() if steps}
    if not lines:
        return None
    longest = max(lines.values(), key=len)
    figure = Figure(figsize=(min(max(7.0, 0.2 * len(longest) + 2), 16), 5), layout="constrained")
    axes = figure.add_subplot()
    judged = "float32" if "float32" in lines else "float64"  # as in the table of layers, and in the advice
    marked: list[int] = []
    for precision, steps in lines.items():
        out = positive(np.array([step.violation_out for step in steps]))
        seen = np.flatnonzero(np.isfinite(out))  # a line goes on across modules that add nothing at all
        below = precision == "float64" and len(lines) > 1  # wide and pale, so that one that agrees does not hide it
        width, alpha = (5.0, 0.35) if below else (1.2, 1.0)
        axes.plot(seen, out[seen], ".-", color=COLORS[precision], lw=width, alpha=alpha, label=precision)
        if precision == judged:
            marked = [i for i, step in enumerate(steps) if step.amplification(precision) > AMPLIFIED and i in seen]
            about = f"more than {AMPLIFIED:.0f} times what came in" if marked else "_"
            axes.plot(marked, out[marked], label=about, zorder=4, **RING)
    shown = _ticks(len(longest), marked)
    axes.set_xticks(shown, [_short_name(longest[i]) for i in shown], rotation=90, fontsize=7, parse_math=False)
    for i, name in zip(shown, axes.get_xticklabels(), strict=True):
        name.set_color(ALARM if i in marked else INK)
    axes.set_xlim(-0.7, len(longest) - 0.3)
    axes.set_title("out of each module, as it runs", fontsize=10, color=INK)
    finish_logarithmic(axes)
    return figure


def _short_name(step: Step, longest: int = 30) -> str:
    """The end of a module's name, which tells more than its beginning."""
    words = (step.name or step.kind).split(".")
    name = words.pop()
    while words and len(words[-1]) + len(name) + 2 <= longest:
        name = f"{words.pop()}.{name}"
    return f"…{name}" if words else name


def _ticks(count: int, marked: Sequence[int]) -> list[int]:
    """All places where their names fit; else every few, and beside them none but the marked ones."""
    step = math.ceil(count / MOST_NAMES)
    kept = sorted(marked)[:MOST_NAMES]
    return sorted({*kept, *(i for i in range(0, count, step) if step == 1 or all(abs(i - j) >= step for j in kept))})


def draw_sweep(report: AuditReport) -> Figure | None:
    """What each bias norm ε costs: measured, to first order, certified; None without a sweep."""
    if not report.sweep:
        return None
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.add_subplot()
    epsilon = np.array([point.epsilon for point in report.sweep])
    curves = {
        "certified: no rotation exceeds": ([point.certified for point in report.sweep], "s-", ALARM),
        "first-order law": ([point.first_order for point in report.sweep], "--", QUIET),
        "measured at its worst rotation": ([point.measured for point in report.sweep], "o-", "#1f77b4"),
    }
    for name, (values, style, color) in curves.items():
        y = positive(np.array(values))
        if np.isfinite(y).any():
            axes.plot(epsilon[np.isfinite(y)], y[np.isfinite(y)], style, color=color, ms=5, lw=1.6, label=name)
    axes.axhline(1, color=QUIET, lw=0.8)
    axes.text(epsilon.min(), 1, "as large as the output itself", fontsize=8, color=QUIET, va="bottom")
    own = max((bound.epsilon for bound in report.biases), default=0.0)
    if own > 0:
        axes.axvline(own, color=INK, lw=1, ls=":", label=f"the model's own ε, {own:.0e}")
    axes.set_xscale("log")
    axes.set_xlabel("ε, the length of each channel's bias")
    finish_logarithmic(axes)
    return figure


__all__ = ["draw_depth", "draw_rotations", "draw_sweep", "figures"]
