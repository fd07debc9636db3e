"""A trained model on its test split, turned and not turned, in one call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vnt.data.batches import Batch
from vnt.data.cloud_set import Axis
from vnt.data.transforms import Protocol
from vnt.evaluation.evaluate import evaluate_batches
from vnt.evaluation.metrics import Classification, Forecast

PROTOCOLS: tuple[Protocol, ...] = ("I", "z", "SO3")


@dataclass(frozen=True)
class Evaluation:
    """What was measured, and how the model had been trained.

    Attributes:
        trained: rotation of the training data.
        results: test rotation -> what was found.
        class_names: of a classifier.
    """

    trained: str
    results: dict[Protocol, Classification | Forecast]
    class_names: tuple[str, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Each protocol as "training/test", with its numbers, ready for JSON."""
        return {f"{self.trained}/{rotation}": self._numbers(found) for rotation, found in self.results.items()}

    def _numbers(self, found: Classification | Forecast) -> dict[str, Any]:
        if isinstance(found, Forecast) or not self.class_names:
            return found.summary()
        return found.summary() | {"classes": dict(zip(self.class_names, found.class_accuracy, strict=True))}


def evaluate_model(
    model: nn.Module,
    test: Batch,
    *,
    trained: str = "?",
    protocols: tuple[Protocol, ...] = PROTOCOLS,
    up: Axis = "z",
    num_points: int = 0,
    class_names: tuple[str, ...] = (),
    device: str | torch.device = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """A model under several test rotations; ``trained`` names the rotation of its training data.

    ``progress`` hears of (items done, items in all), each rotation counted by itself.
    """
    model, test = model.to(device), test.to(device)
    done = 0

    def one_more(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, len(protocols) * len(test))

    results = {
        rotation: evaluate_batches(model, test, rotation=rotation, up=up, num_points=num_points, progress=one_more)
        for rotation in protocols
    }
    return Evaluation(trained, results, class_names)
