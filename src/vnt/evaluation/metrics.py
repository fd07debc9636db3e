"""Accuracy, and ADE, FDE and miss rate, as sums and counts that add up exactly over batches and processes."""

import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vnt.geometry import masked_mean
from vnt.processes import are_several

MISS_METRES = 2.0
"""A forecast misses if it ends further than this from the truth."""


@dataclass(frozen=True)
class Classification:
    """How many clouds of each class were taken for which.

    Attributes:
        confusion: (K, K), int64; row: the class it is, column: the class it was taken for.
        loss: sum of the cross-entropies, float64.
    """

    confusion: Int[Tensor, "K K"]
    loss: Float[Tensor, ""]

    @property
    def count(self) -> int:
        """How many clouds were looked at."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """Share of all clouds that was right."""
        return float(self.confusion.diagonal().sum()) / max(self.count, 1)

    @property
    def class_accuracy(self) -> list[float]:
        """Share of each class that was right; NaN for a class with no cloud."""
        right, total = self.confusion.diagonal().tolist(), self.confusion.sum(1).tolist()
        return [a / b if b else math.nan for a, b in zip(right, total, strict=True)]

    def summary(self) -> dict[str, float]:
        """The numbers that a table shows."""
        low, high = wilson(int(self.confusion.diagonal().sum()), self.count)
        per_class = [value for value in self.class_accuracy if not math.isnan(value)]
        return {
            "accuracy": self.accuracy,
            "accuracy_low": low,
            "accuracy_high": high,
            "class_accuracy": sum(per_class) / max(len(per_class), 1),
            "loss": float(self.loss) / max(self.count, 1),
            "count": self.count,
        }


@dataclass(frozen=True)
class Forecast:
    """Distances between forecasts and truth, one row for each track.

    Attributes:
        sums: (5,), float64: of average distances and their squares, of last distances and their squares, of misses.
        count: number of tracks.
    """

    sums: Float[Tensor, "5"]
    count: int

    def summary(self) -> dict[str, float]:
        """The numbers that a table shows, NaN of no track; ADE and FDE with half the width of a 95 % interval."""
        n = self.count or math.nan
        ade, ade2, fde, fde2, misses = (float(value) / n for value in self.sums)
        low, high = wilson(round(float(self.sums[4])), self.count)
        return {
            "ade": ade,
            "ade_95": 1.96 * math.sqrt(max(ade2 - ade**2, 0) / n),
            "fde": fde,
            "fde_95": 1.96 * math.sqrt(max(fde2 - fde**2, 0) / n),
            "miss_rate": misses,
            "miss_rate_low": low,
            "miss_rate_high": high,
            "count": self.count,
        }


def classification(logits: Float[Tensor, "B K"], labels: Int[Tensor, "B"]) -> Classification:
    """Of one batch."""
    K = logits.shape[-1]
    pairs = torch.bincount(labels * K + logits.argmax(-1), minlength=K * K)
    loss = torch.nn.functional.cross_entropy(logits.double(), labels, reduction="sum")
    return Classification(pairs.view(K, K).cpu(), loss.detach().cpu())


def forecast(
    predicted: Float[Tensor, "B T 3"], future: Float[Tensor, "B T 3"], known: Bool[Tensor, "B T"] | None = None
) -> Forecast:
    """Of one batch, over the steps that are ``known``, all by default; the last of them is the one that FDE is of."""
    distance = (predicted[..., :3].double() - future.double()).norm(dim=-1)
    average, last = distance.mean(-1), distance[:, -1]
    if known is not None:
        some = known.any(1)  # a track of which nothing is known does not count
        distance, known = distance[some], known[some]
        end = torch.where(known, torch.arange(known.shape[1], device=known.device), 0).amax(1, keepdim=True)
        average, last = masked_mean(distance, known, -1), distance.gather(1, end).squeeze(1)
    missed = ~(last <= MISS_METRES)  # a forecast that is no number misses, too
    rows = torch.stack([average, average.square(), last, last.square(), missed.double()])
    return Forecast(rows.sum(1).cpu(), rows.shape[1])


def add(parts: list[Classification] | list[Forecast]) -> Classification | Forecast:
    """All batches, and all processes, together."""
    first = parts[0]
    if isinstance(first, Classification):
        confusion = torch.stack([part.confusion for part in parts]).sum(0)  # type: ignore[missing-attribute]
        loss = torch.stack([part.loss for part in parts]).sum()  # type: ignore[missing-attribute]
        return Classification(_everywhere(confusion), _everywhere(loss))
    sums = torch.stack([part.sums for part in parts]).sum(0)  # type: ignore[missing-attribute]
    count = torch.tensor(sum(part.count for part in parts))
    return Forecast(_everywhere(sums), int(_everywhere(count)))


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson's score interval, which stays within [0, 1]).

    >>> tuple(round(x, 3) for x in wilson(90, 100))
    (0.826, 0.945)
    """
    if total == 0:
        return 0.0, 1.0
    z, p = 1.96, right / total
    middle, half = p + z * z / (2 * total), z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max((middle - half) / scale, 0.0), min((middle + half) / scale, 1.0)


def _everywhere(x: Tensor) -> Tensor:
    if are_several():
        x = x.to(torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else "cpu")
        dist.all_reduce(x)
    return x.cpu()
