"""The demo: five short runs, a table, and a page to look at."""

import shutil
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from vnt.cli.training import watching
from vnt.data.batches import CloudBatch, MotionBatch
from vnt.data.sets import as_batch, load_set
from vnt.evaluation.evaluate import forward
from vnt.evaluation.metrics import Classification
from vnt.evaluation.protocols import Evaluation, evaluate_model
from vnt.evaluation.report import Page
from vnt.files import atomic_write
from vnt.geometry import random_rotation, rotate, rotation_about
from vnt.testing import equivariance_error
from vnt.training.config import TrainConfig
from vnt.training.loop import Trained, train
from vnt.view.pictures import draw_clouds, draw_confusion, draw_curves, draw_forecasts

EXAMPLES = 4


def demonstrate(folder: Path, configs: dict[str, TrainConfig]) -> None:
    """Train, test, measure, and write ``report.html``."""
    console = Console()
    targets = {name: folder / _file_name(name) for name in configs}
    _clear(folder, list(targets.values()))
    started = time.monotonic()
    runs: dict[str, Trained] = {}
    for name, config in configs.items():
        console.print(f"[bold]{name}[/]: {config.dataset}, {config.epochs} epochs, training rotation {config.rotation}")
        with watching(console) as watch:
            runs[name] = train(config, targets[name], watch=watch)
        if not runs[name].finished:
            raise KeyboardInterrupt
    seconds = time.monotonic() - started

    clouds, tracks = load_set("shapes", "test"), load_set("motion", "test")
    tests = {"shapes": as_batch(clouds), "motion": as_batch(tracks)}
    found = {
        name: evaluate_model(
            runs[name].model,
            tests[config.dataset],
            trained=config.rotation,
            protocols=("I", "SO3"),
            num_points=config.num_points,
            class_names=clouds.class_names if config.dataset == "shapes" else (),  # type: ignore[missing-attribute]
        )
        for name, config in configs.items()
    }
    errors = {name: measured_error(trained, tests[configs[name].dataset]) for name, trained in runs.items()}
    rows = result_rows(runs, found, errors)
    console.print()
    for header, lines in rows:
        table = Table(*header, box=None, header_style="bold", pad_edge=False)
        for line in lines:
            table.add_row(*line)
        console.print(table)
        console.print()
    page = write_page(runs, found, rows, tests, seconds)
    with atomic_write(folder / "report.html") as path:
        path.write_text(page.html())
    console.print(f"trained for {seconds / 60:.1f} minutes; look at [bold]{folder / 'report.html'}[/]")


def _file_name(name: str) -> str:
    return "".join(letter for letter in name.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def _clear(folder: Path, targets: list[Path]) -> None:
    """Remove the runs of an earlier demo, and nothing else."""
    for target in targets:
        if target.exists():
            if not (target / "run.json").exists():
                raise ValueError(f"{target}: in the way, and no run of an earlier demo; --out names another folder")
            shutil.rmtree(target)
    (folder / "report.html").unlink(missing_ok=True)


def measured_error(trained: Trained, test: CloudBatch | MotionBatch) -> float:
    """The relative change of the answer under random rotations: logits less their mean, displacements of tracks."""
    match test:
        case CloudBatch():
            x, output = test.points[:16], "scalar"
        case MotionBatch():
            x, output = test.past[:16], "vector"

    def answer(x: torch.Tensor) -> torch.Tensor:
        result = trained.model(x)
        return result - result.mean(-1, keepdim=True) if output == "scalar" else result - x[:, -1:]

    with torch.no_grad():
        return equivariance_error(answer, [x], ["point" if output == "scalar" else "vector"], output)


def result_rows(
    runs: dict[str, Trained], found: dict[str, Evaluation], errors: dict[str, float]
) -> list[tuple[list[str], list[list[str]]]]:
    """Two tables, for clouds and for tracks: header and lines."""
    tables: dict[str, tuple[list[str], list[list[str]]]] = {
        "accuracy": (["shapes", "trained at", "test I", "test SO(3)", "equivariance error", "parameters"], []),
        "ade": (["tracks", "trained at", "ADE, I", "ADE, SO(3)", "equivariance error", "parameters"], []),
    }
    for name, evaluation in found.items():
        still, turned = (result.summary() for result in evaluation.results.values())
        key = "accuracy" if "accuracy" in still else "ade"
        show = "{:.1%}" if key == "accuracy" else "{:.2f} m"
        size = sum(parameter.numel() for parameter in runs[name].model.parameters())
        numbers = [show.format(still[key]), show.format(turned[key]), f"{errors[name]:.0e}", f"{size:,}"]
        tables[key][1].append([name, evaluation.trained, *numbers])
    return list(tables.values())


def write_page(
    runs: dict[str, Trained],
    found: dict[str, Evaluation],
    rows: list[tuple[list[str], list[list[str]]]],
    tests: dict,
    seconds: float,
) -> Page:
    """The report."""
    page = Page("Turn a chair and it is still a chair")
    page.text(
        "Each model was trained on shapes or tracks as they stand, or turned at random (SO(3)), and tested on both. "
        "The VN-Transformer's answers cannot depend on the pose; a plain Transformer has to see every pose in training."
    )
    for header, lines in rows:
        page.table(header, lines)
    page.note(
        "Equivariance error: the largest relative change of the answer under random rotations, in float32. "
        f"All five models were trained in {seconds / 60:.1f} minutes on this machine."
    )
    classifiers = {name: run for name, run in runs.items() if found[name].class_names}
    forecasters = {name: run for name, run in runs.items() if name not in classifiers}
    page.heading("Clouds before and after a rotation")
    page.figure(*_turned_clouds(classifiers, tests["shapes"], found))
    page.heading("Forecasts in the original and in a rotated frame")
    page.figure(*_turned_tracks(forecasters, tests["motion"]))
    page.heading("Learning curves")
    page.figure(
        draw_curves({name: run.metrics for name, run in classifiers.items()}, "val_accuracy", "validation accuracy"),
        "Shapes: loss and accuracy on the validation split, under the rotation that the model was trained at.",
    )
    page.figure(
        draw_curves({name: run.metrics for name, run in forecasters.items()}, "val_ade", "validation ADE, m"),
        "Tracks: loss and average displacement error on the validation split.",
    )
    page.heading("What is taken for what")
    name = next(iter(classifiers))
    result = found[name].results["SO3"]
    if isinstance(result, Classification):
        title = f"{name}, test clouds turned at random, per cent of each class"
        page.figure(draw_confusion(result.confusion.numpy(), found[name].class_names, title), title + ".")
    return page


def _turned_clouds(models: dict[str, Trained], test: CloudBatch, found: dict[str, Evaluation]) -> tuple:
    """A few clouds as they stand and turned, with what each model says of them."""
    generator = torch.Generator().manual_seed(3)
    index = torch.randperm(len(test), generator=generator)[:EXAMPLES]
    batch = test.rows(index)
    both = torch.cat([batch.points, rotate(batch.points, random_rotation(EXAMPLES, generator=generator))])
    names = next(iter(found.values())).class_names
    with torch.no_grad():
        said = {name: run.model(both).argmax(-1).tolist() for name, run in models.items()}
    labels = [] if batch.labels is None else batch.labels.tolist() * 2
    titles = [
        f"{names[label]}{', turned' if number >= EXAMPLES else ''}\n"
        + "\n".join(f"{name}: {names[said[name][number]]} {_mark(said[name][number] == label)}" for name in models)
        for number, label in enumerate(labels)
    ]
    about = "Above: test clouds as they stand. Below: the same, turned at random. What each model says is above each."
    return draw_clouds(list(both.numpy()), titles), about


def _mark(right: bool) -> str:
    return "✓" if right else "✗"


def _turned_tracks(models: dict[str, Trained], test: MotionBatch) -> tuple:
    """One curved track, as it is and turned by 45° about z and at random, with each model's forecast."""
    ends = test.future[:, -1] / test.future[:, -1].norm(dim=-1, keepdim=True).clamp(min=1e-6)
    starts = test.past[:, 0] / test.past[:, 0].norm(dim=-1, keepdim=True).clamp(min=1e-6)
    long = test.future[:, -1].norm(dim=-1) > 15
    turning = torch.where(long, (ends * starts).sum(-1), -2)  # −1 goes straight on
    chosen = int(turning.argmax())
    turns = [torch.eye(3).double(), rotation_about((0.0, 0.0, 1.0), torch.tensor(torch.pi / 4).double())]
    past, future, said = [], [], {name: [] for name in models}
    for R in turns:
        batch = MotionBatch(past=rotate(test.past[chosen], R)[None], future=rotate(test.future[chosen], R)[None])
        past.append(batch.past[0].numpy())
        future.append(batch.future[0].numpy())
        for name, run in models.items():
            with torch.no_grad():
                said[name].append(forward(run.model, batch)[0].numpy())
    about = "Blue: what was seen. Green: what came. Red: the forecast. Turn the frame, and one forecast turns with it."
    return draw_forecasts(np.stack(past), np.stack(future), said, ["as recorded", "turned by 45°"]), about
