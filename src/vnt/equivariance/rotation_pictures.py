"""The violation over the rotation group as a picture: by axis and by angle, with the first-order law beside it."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.gridspec import SubplotSpec
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray
from torch import Tensor

from vnt.equivariance.ascent import generators
from vnt.equivariance.first_order import FirstOrderLaw, quadratic
from vnt.equivariance.report import AuditReport
from vnt.equivariance.subject import Precision
from vnt.equivariance.violation import Violation

INK, QUIET, ALARM = "#333333", "#9a9a9a", "#d62728"
COLORS: dict[Precision, str] = {"float64": "#1f77b4", "float32": "#2ca02c", "bfloat16": "#ff7f0e"}
MARKS: dict[Precision, dict[str, Any]] = {
    "float64": {"ls": "none", "marker": "o", "ms": 7, "mfc": "none"},
    "float32": {"ls": "none", "marker": "+", "ms": 6},
    "bfloat16": {"ls": "none", "marker": ".", "ms": 3},
}
"""Precisions that agree lie on top of each other: a ring, a cross in it, and a dot in that."""


def axis_angle(R: Float[Tensor, "*any 3 3"]) -> tuple[Float[Tensor, "*any 3"], Float[Tensor, "*any"]]:
    """Unit axis and angle in [0, π] of rotations of row vectors; of a reflection, those of its rotation −R.

    The axis is R's fixed direction, found as the largest eigenvector of R + Rᵀ: sound at half-turns too, where the
    antisymmetric part is zero and only gives the sign elsewhere. At the identity any axis will do.

    >>> from vnt.geometry import rotation_about
    >>> axis, angle = axis_angle(rotation_about((0.0, 0.0, -1.0), torch.tensor(2.0, dtype=torch.float64)))
    >>> [round(x, 6) + 0.0 for x in axis.tolist()], round(float(angle), 6)
    ([0.0, 0.0, -1.0], 2.0)
    """
    R = R.detach().double().cpu()
    R = R * torch.linalg.det(R).sign()[..., None, None]
    axis = torch.linalg.eigh(R + R.mT).eigenvectors[..., -1]
    twist = torch.stack([R[..., i, j] - R[..., j, i] for i, j in ((1, 2), (2, 0), (0, 1))], -1)
    axis = axis * torch.where((axis * twist).sum(-1, keepdim=True) < 0, -1.0, 1.0)
    trace = R.diagonal(dim1=-2, dim2=-1).sum(-1)
    return axis, torch.atan2(twist.norm(dim=-1), trace - 1)


def describe_rotation(R: Float[Tensor, "D D"]) -> str:
    """In words: its angle, and its axis where it has one."""
    if R.shape[-1] == 2:
        return f"{float(_signed(R, None)):.0f}° in the plane"
    axis, angle = axis_angle(R)
    mirror = "" if float(torch.linalg.det(R)) > 0 else "−I times "
    return f"{mirror}{degrees(angle):.0f}° about ({', '.join(f'{round(x, 2) + 0.0:.2f}' for x in axis.tolist())})"


def draw_rotations(report: AuditReport) -> Figure | None:
    """The violation over the rotation group: by axis and by angle; None for a group without rotations.

    With a first-order law, the law of the worst item and the samples beside it; else the samples alone.
    """
    if any(found.rotations is None for found in report.violations.values()):
        return None
    if report.group == "SO(2)":
        return _draw_about_one_axis(report)
    if report.law is not None and "float64" in report.violations:
        return _draw_law(report.law, report.violations["float64"])
    return _draw_samples(report)


def _draw_law(law: FirstOrderLaw, found: Violation) -> Figure:
    """Left: the law at half-turns, over the axis. Right: its least and most over axes, against the angle."""
    item = int(law.worst.argmax())
    axis, angle = axis_angle(law.worst_rotation[item])
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.1, 1])  # type: ignore[not-iterable]

    title = f"item {item}, half-turns about each axis, to first order; ★ {describe_rotation(law.worst_rotation[item])}"
    sphere = _sphere(left, left.add_gridspec()[0], title, dark=True)
    longitude, latitude = np.meshgrid(np.linspace(-np.pi, np.pi, 181), np.linspace(-np.pi / 2, np.pi / 2, 91))
    axes = np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], -1)
    value = _law(law, item, torch.from_numpy(axes), torch.tensor([math.pi]))[..., 0]
    mesh = sphere.pcolormesh(longitude, latitude, value, cmap="viridis", shading="gouraud", rasterized=True)
    left.colorbar(mesh, ax=sphere, orientation="horizontal", shrink=0.7, label="relative violation")
    ends = np.stack([axis.numpy(), -axis.numpy()])[: 2 if float(angle) > math.radians(179) else 1]
    sphere.plot(*_place(ends), "*", ms=15, color=ALARM, mec="white", ls="none", zorder=5)

    beside = right.add_subplot()
    angles = torch.linspace(0, math.pi, 91, dtype=torch.float64)
    every = _law(law, item, _even_axes(600), angles)
    style = {"color": "#1f77b4", "alpha": 0.2, "lw": 0, "label": "law, all axes"}
    beside.fill_between(degrees(angles), every.min(0), every.max(0), **style)
    _dots_by_angle(beside, found, item)
    beside.plot(degrees(angle), float(law.worst[item]), "*", ms=15, color=ALARM, mec="white", ls="none", label="worst")
    _label_angles(beside, (0, 180))
    beside.set_ylim(bottom=0)
    beside.legend(fontsize=8)
    return figure


def _dots_by_angle(axes: Axes, found: Violation, item: int) -> None:
    """What was measured: the item of the law in ink, the others in grey."""
    assert found.rotations is not None
    angle = degrees(axis_angle(found.rotations)[1])
    value = found.sampled.cpu().numpy()
    others = np.arange(value.shape[1]) != item
    style = {"ls": "none", "marker": ".", "clip_on": False}
    axes.plot(angle[:, others].ravel(), value[:, others].ravel(), color=QUIET, ms=4, label="measured, others", **style)
    axes.plot(angle[:, item], value[:, item], color=INK, ms=8, label=f"measured, item {item}", **style)


def _draw_samples(report: AuditReport) -> Figure:
    """Above: samples over their axes, a map for each precision. Below: all of them against the angle."""
    count = len(report.violations)
    figure = Figure(figsize=(4.2 * max(count, 2), 6.4), layout="constrained")
    grid = figure.add_gridspec(2, count, height_ratios=[1, 1.1])
    below = figure.add_subplot(grid[1, :])
    for column, (precision, found) in enumerate(report.violations.items()):
        assert found.rotations is not None
        axis, angle = axis_angle(found.rotations.flatten(0, 1))
        value = positive(found.sampled.cpu().numpy().ravel())
        sphere = _sphere(figure, grid[0, column], f"{precision}: axis and violation of each sample")
        low, high = (np.nanmin(value), np.nanmax(value)) if np.isfinite(value).any() else (1e-17, 1e-16)
        norm = LogNorm(low / 1.01, high * 1.01)
        dots = sphere.scatter(*_place(axis.numpy()), c=value, s=14, cmap="viridis", norm=norm, zorder=3)
        bar = figure.colorbar(dots, ax=sphere, orientation="horizontal", shrink=0.8)
        shown = [low, math.sqrt(low * high), high]
        bar.set_ticks(shown, labels=[f"{x:.1e}" for x in shown], minor=False)
        bar.minorticks_off()
        below.plot(degrees(angle), value, label=precision, color=COLORS[precision], **MARKS[precision])
    for found in report.violations.values():
        if found.worst_rotation is not None and found.method == "climbed":
            _mark_worst(below, degrees(axis_angle(found.worst_rotation)[1]), found.worst)
    _label_angles(below, (0, 180))
    finish_logarithmic(below)
    return figure


def _draw_about_one_axis(report: AuditReport) -> Figure:
    """The samples of a group with one angle against that angle, with its sign."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.add_subplot()
    first = next(iter(report.violations.values())).rotations
    assert first is not None
    around = _axis_of(first)
    for precision, found in report.violations.items():
        assert found.rotations is not None
        value = positive(found.sampled.cpu().numpy().ravel())
        angle = _signed(found.rotations, around).ravel()
        axes.plot(angle, value, label=precision, color=COLORS[precision], **MARKS[precision])
    for found in report.violations.values():
        if found.worst_rotation is not None and found.method == "climbed":
            _mark_worst(axes, _signed(found.worst_rotation, around), found.worst)
    _label_angles(axes, (-180, 180))
    finish_logarithmic(axes)
    return figure


def _axis_of(R: Float[Tensor, "*any D D"]) -> Float[Tensor, "3"] | None:
    """The axis that rotations share, found from the largest turn that is no half-turn; None in the plane."""
    if R.shape[-1] == 2:
        return None
    axis, angle = axis_angle(R.reshape(-1, 3, 3))
    return axis[int(angle.sin().argmax())]


def _signed(R: Float[Tensor, "*any D D"], axis: Tensor | None) -> NDArray:
    """Angles in degrees within ±180, about an axis or in the plane."""
    R = R.detach().double().cpu()
    if axis is None:
        return degrees(torch.atan2(R[..., 0, 1], R[..., 0, 0]))
    own, angle = axis_angle(R)
    return degrees(angle * torch.where((own * axis).sum(-1) < 0, -1.0, 1.0))


def _law(law: FirstOrderLaw, item: int, axes: Float[Tensor, "*any 3"], angles: Float[Tensor, "K"]) -> NDArray:
    """The relative violation (*any, K) of one item, to first order, at turns about these axes by these angles."""
    turns = torch.einsum("...k,kij->...ij", axes.double(), generators(3))
    R = torch.matrix_exp(angles.double()[:, None, None] * turns[..., None, :, :])
    gram, scale = law.gram[item].detach().double().cpu(), float(law.scale[item])
    return (quadratic(gram[None], R[..., None, :, :])[..., 0].clamp(min=0).sqrt() / scale).numpy()


def _even_axes(count: int) -> Float[Tensor, "count 3"]:
    """Unit vectors spread evenly over the sphere, on a Fibonacci spiral."""
    k = torch.arange(count, dtype=torch.float64) + 0.5
    z, turn = 1 - 2 * k / count, k * math.pi * (3 - math.sqrt(5))
    r = (1 - z * z).sqrt()
    return torch.stack([r * turn.cos(), r * turn.sin(), z], -1)


def _sphere(figure: Figure | SubFigure, place: SubplotSpec, title: str, *, dark: bool = False) -> Axes:
    """A map of axes: x in the middle, y on the right, z above; names in light letters on a dark map."""
    axes = figure.add_subplot(place, projection="mollweide")
    axes.set_xticks(np.radians([-90, 0, 90]), ["", "", ""])
    axes.set_yticks(np.radians([-60, -30, 0, 30, 60]), [""] * 5)
    axes.grid(alpha=0.35, lw=0.6)
    ink, paper = ("white", "#333333") if dark else (INK, "white")
    around = [withStroke(linewidth=2, foreground=paper)]
    for name, longitude, latitude in (("−y", -90, 0), ("x", 0, 0), ("y", 90, 0), ("z", 0, 78), ("−z", 0, -78)):
        where = math.radians(longitude), math.radians(latitude)
        axes.text(*where, name, fontsize=9, color=ink, ha="center", va="center", path_effects=around, zorder=4)
    axes.set_title(title, fontsize=9, color=INK, parse_math=False)
    return axes


def _place(axis: NDArray) -> tuple[NDArray, NDArray]:
    """Longitude and latitude of unit vectors (..., 3)."""
    return np.arctan2(axis[..., 1], axis[..., 0]), np.arcsin(np.clip(axis[..., 2], -1, 1))


def _mark_worst(axes: Axes, angle: NDArray, value: float) -> None:
    known = any(line.get_label() == "worst, climbed" for line in axes.lines)
    label = "_" if known else "worst, climbed"
    axes.plot(angle, value, "*", ms=14, color=ALARM, mec="white", ls="none", label=label)


def _label_angles(axes: Axes, limits: tuple[int, int]) -> None:
    axes.set_xlim(*limits)
    axes.set_xticks(range(limits[0], limits[1] + 1, 30 if limits[0] == 0 else 60))
    axes.set_xlabel("angle of the rotation, degrees")
    axes.set_ylabel("relative violation")
    axes.grid(alpha=0.3)


def degrees(radians: Tensor) -> NDArray:
    """As an array."""
    return torch.rad2deg(radians.detach()).cpu().numpy()


def positive(values: NDArray) -> NDArray:
    """The values that a logarithmic scale can show; NaN for the others."""
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def finish_logarithmic(axes: Axes) -> None:
    """What all logarithmic pictures share: scale, two decades at least, name of the axis, grid, legend."""
    if not any(np.isfinite(line.get_ydata(orig=False)).any() for line in axes.lines):
        axes.set_ylim(1e-17, 1e-15)
        axes.text(0.5, 0.5, "all zero: no violation at all", transform=axes.transAxes, ha="center", color=INK)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 100 * low:
        axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axes.set_ylabel("relative violation")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
