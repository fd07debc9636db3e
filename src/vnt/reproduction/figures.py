"""Figures 6, 9 and 10, and the curves of 7 and 8."""

import math
import statistics
from pathlib import Path

import torch
from matplotlib.figure import Figure

from vnt.bench.rivals import arguments_of
from vnt.data.batches import MotionBatch
from vnt.data.sets import as_batch
from vnt.equivariance.audit import audit
from vnt.equivariance.pictures import draw_depth
from vnt.evaluation.evaluate import forward
from vnt.geometry import rotate, rotation_about
from vnt.models.saving import load
from vnt.reproduction.experiments import Experiment
from vnt.reproduction.pages import Picture, mean_speed
from vnt.reproduction.running import Outcome
from vnt.training.config import TrainConfig
from vnt.training.run_folder import RunFolder
from vnt.training.task import load_split
from vnt.view.pictures import draw_clouds, draw_forecasts

DOTTED = ("airplane", "chair", "lamp", "table")
"""Classes that are shown with their dots, where the set has them."""
LONG = 15.0
"""Metres that a track must come, to be worth a picture."""


def polka_dots(config: TrainConfig, data_folder: Path | None) -> Picture:
    """Figure 6: clouds of a few classes, coloured by the attribute."""
    clouds = load_split(config, "train", data_folder)
    names = [name for name in DOTTED if name in clouds.class_names] or list(clouds.class_names[:4])  # type: ignore[missing-attribute]
    labels = clouds.labels.tolist()  # type: ignore[missing-attribute]
    index = [labels.index(clouds.class_names.index(name)) for name in names]  # type: ignore[missing-attribute]
    batch = as_batch(clouds).rows(torch.tensor(index))
    given = batch.tensors()
    dots = [values[:, 0].numpy() for values in given["attributes"]]
    points = [x.numpy() for x in given["points"]]
    figure = draw_clouds(points, names, colors=dots, up=clouds.up)  # type: ignore[missing-attribute]
    return "fig6", figure, "Thirty points within a radius that depends on the class have a = 1; they are drawn larger."


def forecasts(outcomes: dict[str, Outcome], data_folder: Path | None) -> Picture:
    """Figure 9: one test track and the same turned by 45° about z, with each model's forecast."""
    config = RunFolder(next(iter(outcomes.values())).folder).config()
    test = as_batch(load_split(config, "test", data_folder))
    if not isinstance(test, MotionBatch):
        raise ValueError(f"{config.dataset} has no tracks")
    past, future = _most_turning(test)
    frames = {"as it is": torch.eye(3).double(), "turned by 45°": _about_z(45.0)}
    seen = torch.stack([rotate(past, R) for R in frames.values()])
    came = torch.stack([rotate(future, R) for R in frames.values()])
    said = {}
    for title, outcome in outcomes.items():
        with torch.no_grad():
            said[title] = list(forward(load(outcome.folder), MotionBatch(past=seen, future=came)).numpy())
    figure = draw_forecasts(seen.numpy(), came.numpy(), said, list(frames))
    return "fig9", figure, "A track that turns, as it is and turned: what an equivariant model says turns with it."


def _most_turning(test: MotionBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """The track that leaves most aside from where it came, among those that come far."""
    start, end = (x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6) for x in (test.past[:, 0], test.future[:, -1]))
    far = test.future[:, -1].norm(dim=-1) > min(LONG, float(test.future[:, -1].norm(dim=-1).max()) / 2)
    chosen = int(torch.where(far, (start * end).sum(-1), -2).argmax())
    return test.past[chosen], test.future[chosen]


def _about_z(degrees: float) -> torch.Tensor:
    return rotation_about((0.0, 0.0, 1.0), torch.tensor(degrees).double().deg2rad())


def depth(outcome: Outcome, data_folder: Path | None) -> Picture:
    """Figure 10: how the violation of an ε-biased model grows from layer to layer, measured."""
    config = RunFolder(outcome.folder).config()
    few = as_batch(load_split(config, "val", data_folder), config.attributes).rows(torch.arange(2))
    report = audit(load(outcome.folder).eval(), *arguments_of(few), also=(), num_certified=0)
    figure = draw_depth(report)
    if figure is None:
        raise ValueError(f"{outcome.folder}: a model whose layers cannot be traced")
    return "fig10", figure, "The violation behind each layer, as the audit measures it, in two precisions."


def _place(name: str) -> tuple[str, str]:
    """Where on a curve a row lies, and on which: ("16", "read back") for m16_read_back."""
    value = "".join(filter(str.isdigit, name))
    return value, name.partition(value)[2].replace("_", " ").strip()


def curve(experiment: Experiment, outcomes: list[Outcome]) -> Picture | None:
    """Figures 7 and 8: the score and the speed of training against what the rows differ in."""
    groups = [[o for o in outcomes if o.row == row.name and o.scores] for row in experiment.rows]
    if not all(groups):
        return None
    places = [_place(row.name) for row in experiment.rows]
    values = list(dict.fromkeys(value for value, _ in places))
    speeds = [mean_speed(group) for group in groups]
    unit = next((speed for speed in speeds if speed), 1.0)
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    kinds = list(dict.fromkeys(kind for _, kind in places))
    for number, kind in enumerate(kinds):
        mine = [i for i, place in enumerate(places) if place[1] == kind]
        at = [values.index(places[i][0]) for i in mine]
        for test, style in {"I": ":", "SO3": "-"}.items():
            line = [statistics.mean(o.scores[test] for o in groups[i] if o.scores) for i in mine]
            left.plot(at, line, style, color=f"C{number}", marker="o", label=f"test {test} {kind}".strip())
        relative = [(speeds[i] or math.nan) / unit for i in mine]
        right.plot(at, relative, color=f"C{number}", marker="o", label=kind or "pooled")
    left.legend(fontsize=8)
    if len(kinds) > 1:
        right.legend(fontsize=8)
    left.set_ylabel(experiment.score)
    right.set_ylabel(f"speed of training, of that at {values[0]}")
    for axes in (left, right):
        axes.set_xticks(range(len(values)), values)
        axes.set_xlabel(experiment.against or "")
        axes.grid(alpha=0.3)
    return experiment.name, figure, experiment.title
