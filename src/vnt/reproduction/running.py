"""Train the rows of an experiment, each in a folder of its own, and gather what came out. Stopped, it goes on."""

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vnt.bench.rivals import AUDITED, arguments_of, count_parameters
from vnt.data.cloud_set import Split
from vnt.data.sets import as_batch
from vnt.equivariance.audit import audit
from vnt.evaluation.protocols import PROTOCOLS
from vnt.models.saving import load
from vnt.reproduction.experiments import Experiment, Row
from vnt.training.combining import combine
from vnt.training.config import Rotation, TrainConfig
from vnt.training.distributed import choose_device
from vnt.training.loop import DivergedError, Moment, train
from vnt.training.run_folder import RunFolder
from vnt.training.runs import evaluate
from vnt.training.task import load_split


@dataclass(frozen=True)
class Outcome:
    """What came out of one run.

    Attributes:
        row, trained, seed: which run, and the rotation of its training data.
        folder: of the run.
        diverged: why it ended early, or nothing.
        scores: test rotation -> accuracy, or average displacement error.
        parameters: of the model.
        epochs, seconds, items: how long it was trained, on how much.
        speed: items trained on in a second, of the steps alone: without compiling and without looks at the validation
            split; None of a run that did not keep their time.
        violation: the largest relative change of the output under a rotation, in float32.
        machine: what it ran on.
    """

    row: str
    trained: Rotation
    seed: int
    folder: Path
    diverged: str = ""
    scores: dict[str, float] | None = None
    parameters: int = 0
    epochs: int = 0
    seconds: float = 0.0
    items: int = 0
    speed: float | None = None
    violation: float = 0.0
    machine: str = ""


@dataclass(frozen=True)
class Settings:
    """How to run: where, how often, on what."""

    folder: Path
    seeds: tuple[int, ...] = (0,)
    split: Split = "test"
    device: str = "auto"
    data_folder: Path | None = None
    rotations: tuple[Rotation, ...] = ()


def carry_out(
    experiment: Experiment,
    settings: Settings,
    *,
    say: Callable[[str], None] = lambda words: None,
    watch: Callable[[Moment], None] | None = None,
) -> list[Outcome]:
    """Every row under every training rotation with every seed; what has finished is not trained again."""
    trainer = _Trainer(experiment.name, settings, say, watch)
    split: Split = "val" if experiment.chooses else settings.split
    outcomes = []
    for row in experiment.rows:
        if row.config is None:
            continue
        for rotation in _rotations(experiment, row.config, settings):
            for seed in settings.seeds:
                outcome = trainer.train(row, rotation, seed, split)
                outcomes.append(outcome if outcome.diverged else _score(outcome, split, settings))
    return outcomes


@dataclass(frozen=True)
class _Trainer:
    """Trains the runs of an experiment, each after those that it builds on."""

    experiment: str
    settings: Settings
    say: Callable[[str], None]
    watch: Callable[[Moment], None] | None

    def train(self, row: Row, rotation: Rotation, seed: int, split: Split) -> Outcome:
        """One run, and before it those that it goes on from and learns from: an outcome that has no scores yet."""
        if row.config is None:
            raise ValueError(f"{row.title} is quoted, and cannot be trained")
        name = f"{row.name}-{rotation}-{seed}" + ("-held-out" if split == "val" else "")
        run = RunFolder(self.settings.folder / self.experiment / name)
        config = replace(row.config, rotation=rotation, seed=seed, device=self.settings.device, hold_out=split == "val")
        outcome = Outcome(row.name, rotation, seed, run.path, epochs=config.epochs)
        if row.parts is not None:
            shape, evidence = (self.train(part, rotation, seed, split) for part in row.parts)
            if failed := shape.diverged or evidence.diverged:
                return replace(outcome, diverged=f"one of its parts: {failed}")
            if not run.exists:
                combine(shape.folder, evidence.folder, run.path)
            return outcome
        if row.start is not None:
            start = self.train(row.start, rotation, seed, split)
            config = replace(config, start=str(start.folder))
            if start.diverged:
                return replace(outcome, diverged=f"its start: {start.diverged}")
        if row.teacher is not None:
            theirs: Split = "val" if row.teacher.hold_out else split
            teachers = [self.train(row.teacher.row, rotation, number, theirs) for number in row.teacher.seeds]
            config = replace(config, teachers=tuple(str(teacher.folder) for teacher in teachers))
            if failed := next((teacher.diverged for teacher in teachers if teacher.diverged), ""):
                return replace(outcome, diverged=f"its teacher: {failed}")
        self.say(f"{self.experiment}: {row.title}, trained under {rotation}, seed {seed}")
        return replace(outcome, diverged=self._train_once(config, run))

    def _train_once(self, config: TrainConfig, run: RunFolder) -> str:
        """Train, unless that has been done; says why the run diverged, where it did."""
        teachers = tuple(Path(teacher).name for teacher in config.teachers)  # wherever their folders lie
        anywhere = replace(config, teachers=teachers, start=Path(config.start).name, device="auto")
        asked = json.loads(anywhere.to_json())
        about = run.about()
        if "asked" in about and replace(TrainConfig.from_dict(about["asked"]), device="auto") != anywhere:
            raise ValueError(
                f"{run.path}: trained with other settings than are asked for now; --out names another folder"
            )
        if not (about.get("finished") or about.get("diverged")):
            try:
                trained = train(
                    config, run.path, resume=run.exists, data_folder=self.settings.data_folder, watch=self.watch
                )
            except DivergedError:
                pass  # the run says so itself
            else:
                if not trained.finished:
                    raise KeyboardInterrupt
            run.note({"asked": asked})
        return str(run.about().get("diverged", ""))


def _rotations(experiment: Experiment, config: TrainConfig, settings: Settings) -> tuple[Rotation, ...]:
    """Of the training data: the experiment's, those of them that were asked for, or the row's own."""
    if experiment.rotations is None:
        return (config.rotation,)
    return tuple(r for r in experiment.rotations if not settings.rotations or r in settings.rotations)


def _score(outcome: Outcome, split: Split, settings: Settings) -> Outcome:
    """What there is to know of a run that has finished."""
    run = RunFolder(outcome.folder)
    about, model = run.about(), load(run.path)
    epochs = [record["epoch_seconds"] for record in run.metrics() if "epoch_seconds" in record]
    return replace(
        outcome,
        scores=_scores(run, split, settings),
        parameters=count_parameters(model),
        seconds=float(about.get("seconds", 0)),
        items=int(about["items"]),
        speed=int(about["items"]) / max(statistics.median(epochs), 1e-9) if epochs else None,
        violation=_violation(run, model, settings),
        machine=f"{about['gpu'] or 'CPU, threads: ' + str(about['threads'])}, torch {about['torch']}",
    )


def _scores(run: RunFolder, split: Split, settings: Settings) -> dict[str, float]:
    """The score under each test rotation; the test split is looked at once, and what was seen is kept."""
    found: dict[str, Any] = run.about().get("test", {}) if split == "test" else {}
    trained = run.config().rotation
    whole = {name for name, numbers in found.items() if numbers.get("num_points", 0) == 0}
    if not whole.issuperset(f"{trained}/{rotation}" for rotation in PROTOCOLS):
        found = evaluate(run.path, split=split, device=settings.device, data_folder=settings.data_folder).summary()
    scores = {rotation: found[f"{trained}/{rotation}"] for rotation in PROTOCOLS}
    return {rotation: numbers.get("accuracy", numbers.get("ade")) for rotation, numbers in scores.items()}


def _violation(run: RunFolder, model: torch.nn.Module, settings: Settings) -> float:
    known = run.about().get("violation")
    if known is None:
        config = run.config()
        few = as_batch(load_split(config, "val", settings.data_folder), config.attributes).rows(torch.arange(AUDITED))
        precisions, device = ("float64", "float32"), choose_device(settings.device)
        report = audit(
            model.to(device),
            *arguments_of(few.to(device)),
            also=(),
            precisions=precisions,
            num_certified=0,
            num_samples=8,
            num_starts=0,
        )
        known = float(report.violations["float32"].worst)
        run.note({"violation": known})
    return known
