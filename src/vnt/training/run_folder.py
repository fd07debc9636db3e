"""A run on disk: what it was asked, what it was run with, how it went, what came out.

runs/shapes-1/
  config.json         the model's config, the data's classes, and the whole training config
  run.json            versions, git commit, hardware, seed, times, and the test results
  metrics.jsonl       a line for each look at the validation split
  model.safetensors   the weights (`vnt.load` reads the folder)
  checkpoints/        what the run can be resumed from
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vnt.files import atomic_write, for_json, held
from vnt.models.saving import read_about
from vnt.training.config import TrainConfig
from vnt.version import __version__


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Where states are."""
        return self.path / "checkpoints"

    @property
    def exists(self) -> bool:
        """Whether a run has begun here."""
        return (self.path / "config.json").exists()

    @contextmanager
    def claimed(self) -> Generator[None]:
        """Nobody else trains this run meanwhile: two that did would write over one another's states and metrics."""
        new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with held(self.path / ".training") as mine:
                if not mine:
                    raise ValueError(
                        f"{self.path}: another process is training this run: wait for it, or --out names another folder"
                    )
                yield
        finally:
            if new:
                with suppress(OSError):  # it is not empty, as a rule
                    self.path.rmdir()

    def is_training(self) -> bool:
        """Whether another process trains this run now."""
        lock = self.path / ".training"
        if not lock.exists():
            return False
        try:
            with held(lock) as mine:
                return not mine
        except OSError:  # somebody else's folder
            return False

    def config(self) -> TrainConfig:
        """What the run was asked."""
        about = read_about(self.path)
        if "training" not in about:
            raise ValueError(f"{self.path}: a model that was not trained here; there is nothing to resume")
        return TrainConfig.from_dict(about["training"] | {"model": about["model"]})

    def about(self) -> dict[str, Any]:
        """What ``run.json`` says, or nothing where there is none yet."""
        return _read_json(self.path / "run.json")

    def note(self, facts: Mapping[str, Any]) -> None:
        """Add facts to ``run.json``."""
        with atomic_write(self.path / "run.json") as path:
            path.write_text(json.dumps(for_json(self.about() | dict(facts)), indent=2, allow_nan=False) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``; a last line that was cut off by a crash does not count."""
        path = self.path / "metrics.jsonl"
        records = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                records.append(json.loads(line))
            except ValueError:
                break
        return records

    def add_metrics(self, record: Mapping[str, Any]) -> None:
        """Append a line, and wait until it is on disk."""
        with open(self.path / "metrics.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def rewind(self, step: int) -> None:
        """Forget what was recorded after a step: the resumed run records it again."""
        kept = [record for record in self.metrics() if record["step"] <= step]
        with atomic_write(self.path / "metrics.jsonl") as path:
            path.write_text("".join(json.dumps(record) + "\n" for record in kept))


def machine_facts() -> dict[str, Any]:
    """Versions, commit and hardware: what a number means nothing without."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "vnt": __version__,
        "git": _git_commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "command": " ".join(sys.argv),
    }


def find_runs(root: Path) -> list[RunFolder]:
    """Every run below a folder, by name."""
    found = sorted(path.parent for path in root.glob("**/config.json") if (path.parent / "run.json").exists())
    return [RunFolder(path) for path in found]


def new_run_folder(root: Path, name: str) -> Path:
    """``root/name-1``, or the first number that is free."""
    number = 1
    while (root / f"{name}-{number}").exists():
        number += 1
    return root / f"{name}-{number}"


def _git_commit() -> str | None:
    """The commit of the code that runs, with a plus where it was changed since; None for an installed package."""
    source = Path(__file__).parents[3]
    if not (source / ".git").exists():
        return None
    command = ["git", "-C", str(source), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
