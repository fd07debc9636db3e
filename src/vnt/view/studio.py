"""What the page asks of the models: answers for a turned cloud or track, as numbers. No browser here."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vnt import functional
from vnt.data.cloud import Cloud
from vnt.data.transforms import farthest_points
from vnt.evaluation.predict import in_known_units
from vnt.layers import VNMultiheadAttention
from vnt.models.backbone import VNTrunk
from vnt.models.saving import load, read_about
from vnt.view.turning import Matrix

NUM_ARROWS = 48
"""Points that an arrow is drawn at."""

ONE_AT_A_TIME = threading.RLock()
"""Models are watched while they run, and must not be run by another thread meanwhile."""

PAIRS = {
    "built-in shapes": ("shapes", "shapes-transformer"),
    "ModelNet40": ("modelnet40-small", "modelnet40-transformer"),
    "built-in tracks": ("motion", "motion-transformer"),
}
"""Models that come with vnt: an equivariant one and an ordinary one that learned the same."""


@dataclass(frozen=True)
class Known:
    """A model and what its ``config.json`` says of it."""

    name: str
    model: nn.Module
    about: Mapping[str, Any]

    @classmethod
    def load(cls, name: str | Path) -> "Known":
        """A model that comes with vnt, or a folder."""
        return cls(Path(name).name, load(name), read_about(name))

    @property
    def classifies(self) -> bool:
        """Or else it forecasts."""
        return "num_classes" in self.about["model"]


@dataclass(frozen=True)
class Pair:
    """Two models that answer the same question: one that the frame does not matter to, and one that it does."""

    ours: Known
    plain: Known | None = None

    def __post_init__(self) -> None:
        for known in self.both:
            if known.about["model"].get("num_vectors") or known.about.get("attribute_names"):
                raise ValueError(f"{known.name}: the page gives models coordinates alone, and this one wants more")
        if self.plain is None:
            return
        if self.ours.name == self.plain.name:
            raise ValueError(f"two models are called {self.ours.name}")
        if self.ours.classifies != self.plain.classifies:
            raise ValueError(f"{self.ours.name} and {self.plain.name} do not answer the same question")
        if self.ours.about.get("class_names") != self.plain.about.get("class_names"):
            raise ValueError(f"{self.ours.name} and {self.plain.name} know different classes")

    @classmethod
    def load(cls, ours: str | Path, plain: str | Path | None = None) -> "Pair":
        """By the names or folders of the two."""
        both = [Known.load(name) for name in (ours, plain) if name is not None]
        if len({known.name for known in both}) < len(both):  # runs/a/best and runs/b/best
            named = zip(both, (ours, plain), strict=True)
            both = [replace(known, name="/".join(Path(str(path)).parts[-2:])) for known, path in named]
        return cls(*both)

    @property
    def both(self) -> tuple[Known, ...]:
        """The models that are there."""
        return (self.ours,) if self.plain is None else (self.ours, self.plain)


@dataclass(frozen=True)
class Classes:
    """What one model says of a turned cloud.

    Attributes:
        probabilities: of the classes.
        change: the largest difference from what it says of the cloud as it lies.
        violation: the relative change of its logits less their mean, by Euclidean length.
    """

    probabilities: NDArray[np.float32]
    change: float
    violation: float


@dataclass(frozen=True)
class Look:
    """All that depends on how the cloud is turned.

    Attributes:
        classes: what each model says, by its name.
        arrows: (M, 2, 3), a channel of the equivariant model's last features as it computes them from the turned cloud:
            from a point along its vector, the longest a quarter of the cloud's radius. Latents have no place, and their
            arrows begin at the centre. None where no channel was asked for.
        attention: (N,), how much a point attends to each seen one, the mean over heads: they sum to 1. Or None.
    """

    classes: dict[str, Classes]
    arrows: NDArray[np.float32] | None = None
    attention: NDArray[np.float32] | None = None


class CloudStudio:
    """A cloud, and two classifiers that look at it.

    Attributes:
        points: all of the cloud, about its centre, the farthest at distance 1: what is drawn.
        seen: indices of the points that the models get.
    """

    def __init__(self, pair: Pair, cloud: Cloud, *, num_points: int = 1024, seed: int = 0):
        if not pair.ours.classifies:
            raise ValueError(f"{pair.ours.name} forecasts tracks, it does not classify clouds")
        self.pair, self.cloud = pair, cloud
        points = cloud.points - cloud.points.mean(0)
        radius = float(np.linalg.norm(points, axis=1).max())
        self.points = points / (radius or 1.0)
        order = np.random.default_rng(seed).permutation(len(points))
        self.seen = order[:num_points]
        self._inputs = {known.name: self._input(known) for known in pair.both}
        self._rest = {known.name: self._logits(known, np.eye(3)) for known in pair.both}
        few = torch.from_numpy(self.points[self.seen]).float()[None]
        self.arrow_places = farthest_points(few, min(NUM_ARROWS, few.shape[1]))[0].numpy()

    def _input(self, known: Known) -> Tensor:
        """In the file's own units, or in those that the model knows where they are far from them: as `vnt predict`."""
        cloud, _ = in_known_units(self.cloud.take(self.seen), known.about.get("radius"))
        return torch.from_numpy(cloud.points - cloud.points.mean(0)).float()[None]

    def _logits(self, known: Known, R: Matrix) -> Tensor:
        with ONE_AT_A_TIME, torch.no_grad():
            return known.model(self._inputs[known.name] @ torch.from_numpy(R.T).float())[0].float()

    def look(self, R: Matrix, *, channel: int | None = None, point: int | None = None, block: int = 0) -> "Look":
        """What each model says of the cloud turned by R, and what else was asked for, all from one pass."""
        with ONE_AT_A_TIME, _watched(self.pair.ours.model, VNTrunk, VNMultiheadAttention) as calls:
            turned = {known.name: self._logits(known, R) for known in self.pair.both}
        found = {}
        for name, logits in turned.items():
            rest = self._rest[name]
            before, after = rest.softmax(-1), logits.softmax(-1)
            change = (logits - rest) - (logits - rest).mean()  # what all logits share means nothing
            violation = float(change.norm() / (rest - rest.mean()).norm())
            found[name] = Classes(after.numpy(), float((after - before).abs().max()), violation)
        trunks = [call for call in calls if isinstance(call.module, VNTrunk)]
        attentions = [call for call in calls if isinstance(call.module, VNMultiheadAttention)]
        return Look(
            found,
            None if channel is None else self._arrows(trunks[-1], R, channel),
            None if point is None else _weights(attentions[block], point),
        )

    def name_of(self, index: int) -> str:
        """Of a class."""
        names = self.pair.ours.about.get("class_names", ())
        return names[index] if names else str(index)

    @property
    def has_vectors(self) -> bool:
        """Whether the equivariant model has vectors to draw, and attention to paint."""
        return any(isinstance(module, VNTrunk) for module in self.pair.ours.model.modules())

    def _arrows(self, call: "_Call", R: Matrix, channel: int) -> NDArray[np.float32]:
        V = call.output[0][0, :, :, :3].float().numpy()
        vectors, starts = V[:, channel % V.shape[1]], np.zeros((len(V), 3))
        if len(V) == len(self.seen):
            vectors, starts = vectors[self.arrow_places], self.points[self.seen[self.arrow_places]] @ R.T
        longest = max(float(np.linalg.norm(vectors, axis=1).max()), 1e-12)
        return np.stack([starts, starts + vectors * (0.25 / longest)], 1).astype(np.float32)

    @property
    def num_channels(self) -> int:
        """Of the equivariant model's features."""
        return int(self.pair.ours.about["model"].get("channels", 1))

    @property
    def num_blocks(self) -> int:
        """Blocks of the equivariant model in which points attend to points; one that is used twice counts twice."""
        model, settings = self.pair.ours.model, self.pair.ours.about["model"]
        if settings.get("num_latents"):
            return 0  # points attend to latents
        return settings.get("repeats", 1) * sum(isinstance(module, VNMultiheadAttention) for module in model.modules())

    def nearest(self, R: Matrix, origin: NDArray, direction: NDArray) -> int | None:
        """The seen point that a ray passes closest to, if by less than a tenth of the cloud's radius."""
        turned = self.points[self.seen] @ R.T - origin
        direction = np.asarray(direction) / np.linalg.norm(direction)
        along = turned @ direction
        away = np.linalg.norm(turned - along[:, None] * direction, axis=1)
        near = np.flatnonzero((away < max(0.03, away.min() + 1e-9)) & (along > 0))
        if not len(near) or away[near].min() > 0.1:
            return None
        return int(near[np.argmin(along[near])])


@dataclass(frozen=True)
class Forecast:
    """What one model says of a turned track.

    Attributes:
        future: (T_out, 3), the forecast from the turned past.
        gap: metres between it and the turned forecast from the past as it lay, on average over the steps.
        error: metres to what came, on average; None where that is not known.
    """

    future: NDArray[np.float64]
    gap: float
    error: float | None


class TrackStudio:
    """A track about the place where it was last seen, and two forecasters that look at it."""

    def __init__(self, pair: Pair, past: NDArray, future: NDArray | None = None):
        if pair.ours.classifies:
            raise ValueError(f"{pair.ours.name} classifies clouds, it does not forecast tracks")
        wanted = int(pair.ours.about.get("past") or 11)
        if len(past) < wanted:
            raise ValueError(f"a track of {len(past)} steps is too short: the model wants {wanted}")
        origin = past[-1]
        self.pair, self.past = pair, np.asarray(past[-wanted:] - origin, dtype=np.float64)
        self.future = None if future is None else np.asarray(future - origin, dtype=np.float64)
        self._rest = {known.name: self._forecast(known, np.eye(3)) for known in pair.both}

    def _forecast(self, known: Known, R: Matrix) -> NDArray[np.float64]:
        with ONE_AT_A_TIME, torch.no_grad():
            x = torch.from_numpy(self.past @ R.T).float()[None]
            return known.model(x)[0, :, :3].double().numpy()

    def answer(self, R: Matrix) -> dict[str, Forecast]:
        """What each model says of the track in a frame turned by R."""
        found = {}
        for known in self.pair.both:
            future = self._forecast(known, R)
            gap = np.linalg.norm(future - self._rest[known.name] @ R.T, axis=1).mean()
            error = None
            if self.future is not None:
                steps = min(len(future), len(self.future))
                error = float(np.linalg.norm(future[:steps] - self.future[:steps] @ R.T, axis=1).mean())
            found[known.name] = Forecast(future, float(gap), error)
        return found

    def at_rest(self, name: str) -> NDArray[np.float64]:
        """A model's forecast in the frame as it was."""
        return self._rest[name]


@dataclass(frozen=True)
class _Call:
    """A call of a module, as it happened."""

    module: Any
    inputs: tuple[Any, ...]
    output: Any


@contextmanager
def _watched(model: nn.Module, *kinds: type[nn.Module]) -> Iterator[list[_Call]]:
    """Every call of modules of some kinds."""
    calls: list[_Call] = []
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: calls.append(_Call(module, inputs, output)))
        for module in model.modules()
        if isinstance(module, kinds)
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def _weights(call: _Call, point: int) -> NDArray[np.float32]:
    """Of an attention that has just happened: how much one query attended to each key, the mean over heads."""
    layer, (Q, K) = call.module, call.inputs[:2]
    q, k = layer.query(Q[:, point : point + 1]), layer.key(K)
    heads = (x[0].unflatten(1, (layer.num_heads, -1)).transpose(0, 1) for x in (q, k))
    return functional.attention_weights(*heads).mean(0)[0].numpy()
