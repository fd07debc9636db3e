"""Clouds and tracks as pictures that people can look at."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

# Turn each set's own up axis to the picture's.
UPRIGHT = {"x": (1, 2, 0), "y": (2, 0, 1), "z": (0, 1, 2)}
MARKS = ListedColormap(["#17becf", "#e6308a"])  # of an attribute that is 0 or 1, the paper's cyan and pink
INK, PAST, FUTURE = "#333333", "#1f77b4", "#d62728"


def draw_clouds(
    clouds: Sequence[NDArray],
    titles: Sequence[str],
    *,
    colors: Sequence[NDArray] | None = None,
    up: str = "z",
    color_name: str = "height",
) -> Figure:
    """A grid of clouds seen from above and aside, coloured by height or by the numbers given for their points."""
    columns = min(len(clouds), 8 if len(clouds) > 12 else 4)
    rows = math.ceil(len(clouds) / columns)
    size = 6.0 if len(clouds) == 1 else 2.6
    figure = Figure(figsize=(size * columns, size * rows * 1.05), layout="constrained")
    for number, (points, title) in enumerate(zip(clouds, titles, strict=True)):
        axes = figure.add_subplot(rows, columns, number + 1, projection="3d")
        x = np.asarray(points, dtype=np.float64)[:, UPRIGHT[up]]
        middle, radius = _box(x)
        color = x[:, 2] if colors is None else np.asarray(colors[number])
        is_mark = colors is not None and set(np.unique(color).tolist()) <= {0, 1}
        dot = _dot_size(len(x), size) * (np.where(color == 1, 6.0, 1.0) if is_mark else 1.0)
        cmap = MARKS if is_mark else "viridis"
        dots = axes.scatter(*x.T, c=color, s=dot, cmap=cmap, linewidths=0, depthshade=False)
        for axis, low in zip("xyz", middle - radius, strict=True):
            getattr(axes, f"set_{axis}lim")(low, low + 2 * radius)
        axes.set_box_aspect((1, 1, 1), zoom=1.2)  # type: ignore[bad-argument-type]
        axes.view_init(elev=20, azim=35)
        axes.set_axis_off()
        axes.set_title(title, fontsize=9, color=INK, parse_math=False)
        if len(clouds) == 1:
            figure.colorbar(dots, ax=axes, shrink=0.6).set_label(color_name, parse_math=False)
    return figure


def draw_tracks(past: NDArray, future: NDArray, titles: Sequence[str], *, dt: float) -> Figure:
    """Tracks from above, one panel each, with their height over time below; what was seen is blue, what came red."""
    columns = min(len(past), 4)
    rows = math.ceil(len(past) / columns)
    figure = Figure(figsize=(3.2 * columns, 4.4 * rows), layout="constrained")
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[3, 1] * rows)
    for number, (seen, came, title) in enumerate(zip(past, future, titles, strict=True)):
        row, column = divmod(number, columns)
        above = figure.add_subplot(grid[2 * row, column])
        aside = figure.add_subplot(grid[2 * row + 1, column])
        joined = np.concatenate([seen[-1:], came])
        above.plot(*joined.T[:2], color=FUTURE, lw=1.6, label="came")
        above.plot(*seen.T[:2], color=PAST, lw=2.4, label="seen")
        _square(above, np.concatenate([seen, came])[:, :2])
        time = dt * np.arange(-len(seen) + 1, len(came) + 1)
        aside.plot(time[len(seen) - 1 :], joined[:, 2], color=FUTURE, lw=1.4)
        aside.plot(time[: len(seen)], seen[:, 2], color=PAST, lw=2)
        above.set_title(title, fontsize=9, color=INK, parse_math=False)
        above.tick_params(labelsize=7)
        aside.tick_params(labelsize=7)
        aside.set_xlabel("seconds", fontsize=7)
        aside.set_ylabel("height, m", fontsize=7)
        above.set_ylabel("y, m", fontsize=7)
        if number == 0:
            above.legend(fontsize=7)
    return figure


def draw_scene(positions: NDArray, valid: NDArray, types: Sequence[str], title: str) -> Figure:
    """All tracks of a recording from above, coloured by type."""
    figure = Figure(figsize=(8, 8), layout="constrained")
    axes = figure.add_subplot()
    kinds = sorted(set(types))
    for track, seen, kind in zip(positions, valid, types, strict=True):
        x = np.where(seen[:, None], track, np.nan)
        color = f"C{kinds.index(kind) % 10}"
        axes.plot(x[:, 0], x[:, 1], color=color, lw=1.2)
        if seen.any():
            axes.plot(*track[seen][-1, :2], ".", color=color, ms=5)
    for number, kind in enumerate(kinds):
        axes.plot([], [], color=f"C{number % 10}", label=f"{kind} ({sum(t == kind for t in types)})")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("x, m")
    axes.set_ylabel("y, m")
    axes.set_title(title, fontsize=10, color=INK, parse_math=False)
    axes.legend(fontsize=8)
    return figure


def _box(x: NDArray) -> tuple[NDArray, float]:
    """Middle and half width of a cube around the cloud; one lost point does not shrink the rest to a dot."""
    low, high = np.percentile(x, [0.5, 99.5], axis=0)
    return (low + high) / 2, max(float((high - low).max()) / 2 * 1.02, 1e-9)


def _dot_size(count: int, size: float) -> float:
    return float(np.clip(600 * size / count, 0.2 * size, 6 * size))


def _square(axes: Axes, x: NDArray) -> None:
    """Equal scales, and room for a track that does not move."""
    low, high = x.min(0), x.max(0)
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2 * 1.1, 1.0)
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")


def draw_curves(runs: Mapping[str, Sequence[Mapping[str, float]]], value: str, label: str) -> Figure:
    """Training loss and a validation number over epochs, one line for each run."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (name, records) in enumerate(runs.items()):
        epochs = [record["epoch"] for record in records]
        for axes, key in ((left, "loss"), (right, value)):
            axes.plot(epochs, [record[key] for record in records], color=f"C{number}", marker=".", label=name)
    for axes, text in ((left, "training loss"), (right, label)):
        axes.set_xlabel("epoch")
        axes.set_ylabel(text)
        axes.grid(alpha=0.3)
    left.legend(fontsize=8)
    return figure


def draw_confusion(confusion: NDArray, names: Sequence[str], title: str) -> Figure:
    """How often each class (row) was taken for which (column), as shares of the row."""
    side = max(4.5, 0.32 * len(names) + 1.5)
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.add_subplot()
    share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    for row, column in np.argwhere(share > 0.02):
        color = "white" if share[row, column] > 0.5 else "black"
        axes.text(column, row, f"{100 * share[row, column]:.0f}", ha="center", va="center", fontsize=6, color=color)
    axes.set_xlabel("taken for")
    axes.set_ylabel("is")
    axes.set_title(title, fontsize=10, color=INK, parse_math=False)
    return figure


def draw_forecasts(
    past: NDArray, future: NDArray, forecasts: Mapping[str, Sequence[NDArray]], frames: Sequence[str]
) -> Figure:
    """The paper's Fig. 9: past, truth and forecasts from above; a row for each model, a column for each frame.

    Args:
        past: (F, T, 3), the same track in each of F frames.
        future: (F, T_out, 3), its truth.
        forecasts: model -> F forecasts (T_out, 3).
        frames: names of the frames.
    """
    figure = Figure(figsize=(4.2 * len(frames), 4.0 * len(forecasts)), layout="constrained")
    grid = figure.subplots(len(forecasts), len(frames), squeeze=False)
    for row, (model, predicted) in zip(grid, forecasts.items(), strict=True):
        for axes, seen, came, guess, frame in zip(row, past, future, predicted, frames, strict=True):
            axes.plot(*np.concatenate([seen[-1:], came]).T[:2], color="#2ca02c", lw=2.5, alpha=0.7, label="truth")
            axes.plot(*np.concatenate([seen[-1:], guess]).T[:2], color=FUTURE, lw=1.6, label="forecast")
            axes.plot(*seen.T[:2], color=PAST, lw=2.5, label="seen")
            _square(axes, np.concatenate([seen, came, guess])[:, :2])
            error = np.linalg.norm(guess - came, axis=-1).mean()
            axes.set_title(f"{model}, {frame}: ADE {error:.2f} m", fontsize=9, color=INK, parse_math=False)
            axes.tick_params(labelsize=7)
    grid[0, 0].legend(fontsize=8)
    return figure
