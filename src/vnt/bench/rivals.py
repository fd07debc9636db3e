"""Models side by side: each trained on a budget, then turned, counted, timed and audited."""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vnt.bench.timing import fastest, markdown_table
from vnt.data.batches import Batch
from vnt.data.cloud_set import Split
from vnt.equivariance.audit import audit
from vnt.evaluation.evaluate import forward
from vnt.models.rivals.forecasting import Solved
from vnt.models.saving import load
from vnt.training.config import Rotation, TrainConfig
from vnt.training.distributed import choose_device
from vnt.training.loop import Moment, train
from vnt.training.recipes import recipe
from vnt.training.run_folder import RunFolder
from vnt.training.runs import evaluate
from vnt.training.task import Data, load_data

PROBE = 4
"""Batches in each of the two epochs that tell how long one takes."""
AUDITED = 4
"""Items that are turned to find the verdict."""


@dataclass(frozen=True)
class Standing:
    """What came out for one recipe, trained under one rotation.

    Attributes:
        recipe, trained: which, and the rotation of its training data.
        parameters: that are learned, or solved for.
        epochs, minutes: of training.
        scores: test rotation -> accuracy, or average displacement error in metres.
        microseconds: of inference for each item, in float32.
        verdict, worst: of the audit in float64, and the worst relative change under a rotation.
    """

    recipe: str
    trained: Rotation
    parameters: int
    epochs: int
    minutes: float
    scores: dict[str, float]
    microseconds: float
    verdict: str
    worst: float


def compare(
    names: list[str],
    folder: Path,
    *,
    minutes: float = 2.0,
    rotations: tuple[Rotation, ...] = ("I",),
    split: Split = "val",
    device: str = "auto",
    seed: int = 0,
    changes: dict[str, Any] | None = None,
    data_folder: Path | None = None,
    say: Callable[[str], None] = lambda words: None,
    watch: Callable[[Moment], None] | None = None,
) -> list[Standing]:
    """Train every recipe under every training rotation, for so many minutes each, and say how they stand.

    A recipe that has finished in ``folder`` is not trained again, and one that was interrupted goes on; what was
    trained there with other settings is refused. ``changes`` are settings of `TrainConfig` that all are given. ``say``
    hears what begins, ``watch`` how the training of it goes on.
    """
    if minutes <= 0:
        raise ValueError(f"minutes must be positive, got {minutes}")
    configs = [replace(recipe(name), device=device, seed=seed, **(changes or {})) for name in names]
    if len({config.task for config in configs}) > 1:
        raise ValueError(f"these are not one task: {', '.join(names)}")
    standings = []
    for name, config in zip(names, configs, strict=True):
        data = load_data(config, data_folder)
        for rotation in rotations:
            run = RunFolder(folder / f"{name}-{rotation}")
            planned = _plan(run, replace(config, rotation=rotation), data, minutes)
            if not run.about().get("finished"):
                say(f"{name}, trained under {rotation}: {planned.epochs} epochs")
                trained = train(planned, run.path, data_folder=data_folder, resume=run.exists, watch=watch)
                if not trained.finished:
                    raise KeyboardInterrupt
            standings.append(_standing(name, run, data, split, device, data_folder))
    return standings


def _plan(run: RunFolder, config: TrainConfig, data: Data, minutes: float) -> TrainConfig:
    """As many epochs as fit into the time; for a run that has begun those that it began with, timed or not."""
    plain = replace(config, epochs=1, evaluate_every=1, device="auto")
    asked = json.loads(plain.to_json()) | {"minutes": minutes}
    if run.exists:
        if (before := run.about().get("asked")) != asked:
            why = "settings that it does not tell" if before is None else "other settings than are asked for now"
            raise ValueError(f"{run.path}: trained with {why}; --out names another folder")
        known = run.config()
        return replace(config, epochs=known.epochs, evaluate_every=known.evaluate_every)
    planned = budgeted(config, data, minutes)
    run.path.mkdir(parents=True, exist_ok=True)
    run.note({"asked": asked})
    return planned


def budgeted(config: TrainConfig, data: Data, minutes: float) -> TrainConfig:
    """The config with as many epochs as fit into the time, judged by a few batches of each of two epochs."""
    few = data.train.rows(torch.arange(min(len(data.train), PROBE * config.batch_size)))
    probe = replace(config, epochs=2, evaluate_every=1)
    small = replace(data, train=few, val=data.val.rows(torch.arange(min(len(data.val), 2))))
    with tempfile.TemporaryDirectory() as folder:
        records = train(probe, Path(folder) / "probe", data=small).metrics
    if len(records) < 2:  # solved, not trained
        return replace(config, epochs=1, evaluate_every=1)
    each = (float(records[1]["seconds"]) - float(records[0]["seconds"])) / max(1, len(few) // config.batch_size)
    epochs = max(1, int(60 * minutes / (each * max(1, len(data.train) // config.batch_size))))
    return replace(config, epochs=epochs, evaluate_every=epochs)


def _standing(
    name: str, run: RunFolder, data: Data, split: Split, device: str, data_folder: Path | None
) -> Standing:  # fmt: skip
    model, config = load(run.path), run.config()
    found = evaluate(run.path, split=split, device=device, data_folder=data_folder).summary()
    scores = {key.split("/")[1]: value.get("accuracy", value.get("ade")) for key, value in found.items()}
    few = data.val.rows(torch.arange(min(len(data.val), AUDITED)))
    report = audit(model, *arguments_of(few), also=(), precisions=("float64",), num_certified=0, num_samples=6)
    return Standing(
        recipe=name,
        trained=config.rotation,
        parameters=count_parameters(model),
        epochs=config.epochs,
        minutes=float(run.about().get("seconds", 0)) / 60,
        scores=scores,
        microseconds=_microseconds(model, data.val, choose_device(device)),
        verdict=report.verdicts["float64"].word,
        worst=float(report.violations["float64"].worst),
    )


def count_parameters(model: nn.Module) -> int:
    """Numbers that are learned, or solved for."""
    return sum(w.numel() for w in (model.buffers() if isinstance(model, Solved) else model.parameters()))


def arguments_of(batch: Batch) -> list[torch.Tensor | None]:
    """What a model is called with; those that are not there at the end are left out."""
    given = batch.tensors()
    found = [given.get("points", given.get("past")), *(given.get(name) for name in ("attributes", "mask", "vectors"))]
    while found[-1] is None:
        found.pop()
    return found


def _microseconds(model: nn.Module, batch: Batch, device: torch.device) -> float:
    batch = batch.rows(torch.arange(min(len(batch), 32))).to(device)
    model = model.to(device).eval()
    with torch.no_grad():
        return 1e6 * fastest(lambda: forward(model, batch), device, rounds=5) / len(batch)


def table(standings: list[Standing]) -> str:
    """One line for each, best under SO(3) first."""
    clouds = _are_accuracies(standings)
    rotations = list(standings[0].scores)
    rows = [
        [
            s.recipe,
            s.trained,
            *(f"{s.scores[r]:.1%}" if clouds else f"{s.scores[r]:.2f} m" for r in rotations),
            f"{s.parameters:,}",
            f"{s.microseconds:,.0f}",
            f"{s.epochs} in {s.minutes:.1f} min",
            f"{s.verdict} ({s.worst:.0e})",
        ]
        for s in sorted(standings, key=lambda s: s.scores[rotations[-1]], reverse=clouds)
    ]
    header = [
        "recipe",
        "trained",
        *(f"test {r}" for r in rotations),
        "parameters",
        "µs per item",
        "epochs",
        "verdict",
    ]
    return markdown_table(header, rows)


def _are_accuracies(standings: list[Standing]) -> bool:
    return recipe(standings[0].recipe).task == "classify"


def record(standings: list[Standing]) -> dict[str, Any]:
    """All of it, for a file."""
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    return {
        "when": when,
        "score": "accuracy" if _are_accuracies(standings) else "ade",
        "rows": [asdict(s) for s in standings],
    }
