"""Sampling, augmentation and the rotation protocols, on whole batches and on any device.

Each transform is a frozen object, called with a batch and the generator that all its randomness comes from. What a
cloud's padding holds does not matter, and padding stays padding.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from vnt.data.batches import B, CloudBatch, MotionBatch, pick
from vnt.data.cloud_set import Axis
from vnt.geometry import center, masked_max, masked_mean, random_rotation, rotation_about

Protocol = Literal["I", "z", "SO3"]
AXES: dict[str, tuple[float, float, float]] = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class RandomRotation:
    """A rotation for each item, by protocol: "I" none, "z" about the set's own ``up`` axis, "SO3" any.

    ModelNet's up is y. The Vector Neurons code turns about literal z whatever the set: that is ``up="z"``.
    """

    protocol: Protocol
    up: Axis = "z"

    def __post_init__(self) -> None:
        if self.protocol not in ("I", "z", "SO3"):
            raise ValueError(f"protocol must be 'I', 'z' or 'SO3', got {self.protocol!r}")
        if self.up not in AXES:
            raise ValueError(f"up must be 'x', 'y' or 'z', got {self.up!r}")

    def __call__(self, batch: B, generator: Generator) -> B:
        if self.protocol == "I":
            return batch
        device = generator.device
        if self.protocol == "SO3":
            R = random_rotation(len(batch), generator=generator, dtype=torch.float32, device=device)
        else:
            angle = 2 * torch.pi * torch.rand(len(batch), generator=generator, device=device)
            R = rotation_about(AXES[self.up], angle)
        return batch.rotated(R)


@dataclass(frozen=True)
class RandomSample:
    """``num_points`` of the points that exist, drawn without replacement; clouds with fewer repeat some of theirs.

    There is no padding afterwards. With ``num_points`` equal to N this is a random order.
    """

    num_points: int

    def __call__(self, batch: CloudBatch, generator: Generator) -> CloudBatch:
        key = torch.rand(batch.points.shape[:2], generator=generator, device=batch.points.device)
        return _keep_first(batch, key, self.num_points)


@dataclass(frozen=True)
class FarthestPoints:
    """``num_points`` points, each the farthest from those before it: even coverage whatever the density."""

    num_points: int

    def __call__(self, batch: CloudBatch, generator: Generator) -> CloudBatch:
        index = farthest_points(batch.points, self.num_points, batch.mask, generator=generator)
        return replace(batch.take_points(index), mask=None)


@dataclass(frozen=True)
class UnitSphere:
    """Each cloud about the mean of its points, and divided by the distance of the farthest of them from it.

    A cloud whose points are all in one place stays there. Vectors are directions and keep their lengths.
    """

    def __call__(self, batch: CloudBatch, generator: Generator) -> CloudBatch:
        points, _ = center(batch.points, batch.mask)
        radius = masked_max(points.norm(dim=-1), batch.mask, -1).clamp(min=torch.finfo(points.dtype).tiny)
        return replace(batch, points=points / radius[:, None, None])


@dataclass(frozen=True)
class RandomScale:
    """Points multiplied by a factor drawn uniformly from [low, high], one for the cloud or one ``per_axis``.

    Vectors are taken for normals: stretched along an axis, a surface turns them the other way, so per axis they are
    divided by the factor and given their old length again. A zero vector stays zero.
    """

    low: float = 2 / 3
    high: float = 3 / 2
    per_axis: bool = True

    def __call__(self, batch: CloudBatch, generator: Generator) -> CloudBatch:
        shape = (len(batch), 1, 3 if self.per_axis else 1)
        factor = torch.empty(shape, device=batch.points.device).uniform_(self.low, self.high, generator=generator)
        vectors = batch.vectors
        if vectors is not None and self.per_axis:
            turned = vectors / factor[:, :, None]
            length = turned.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(turned.dtype).tiny)
            vectors = turned * (vectors.norm(dim=-1, keepdim=True) / length)
        return replace(batch, points=batch.points * factor, vectors=vectors)


@dataclass(frozen=True)
class RandomShift:
    """Each cloud moved by up to ``limit`` along each axis."""

    limit: float = 0.2

    def __call__(self, batch: CloudBatch, generator: Generator) -> CloudBatch:
        shift = torch.empty(len(batch), 1, 3, device=batch.points.device)
        return replace(batch, points=batch.points + shift.uniform_(-self.limit, self.limit, generator=generator))


@dataclass(frozen=True)
class Jitter:
    """Gaussian noise on each coordinate, clipped."""

    std: float = 0.01
    clip: float = 0.05

    def __call__(self, batch: CloudBatch, generator: Generator) -> CloudBatch:
        noise = torch.empty_like(batch.points).normal_(0, self.std, generator=generator).clamp_(-self.clip, self.clip)
        return replace(batch, points=batch.points + noise)


@dataclass(frozen=True)
class MixClouds:
    """Some clouds are cut by a plane, and what lies beyond it is taken from another cloud of the batch.

    The plane has a random direction and leaves a random share of the points. Labels become shares of the
    ``num_classes`` classes, (B, num_classes), by the points that came from each cloud.
    """

    probability: float
    num_classes: int

    def __call__(self, batch: CloudBatch, generator: Generator) -> CloudBatch:
        if batch.labels is None:
            raise ValueError("clouds without labels cannot be mixed")
        (B, N), device = batch.points.shape[:2], batch.points.device
        is_mixed = torch.rand(B, 1, generator=generator, device=device) < self.probability
        share = torch.where(is_mixed, torch.rand(B, 1, generator=generator, device=device), 0)
        axis = torch.randn(B, 1, 3, generator=generator, device=device)
        mine = _sort_along(batch, axis)
        theirs = _sort_along(batch.rows(torch.arange(B, device=device).roll(1)), axis)
        beyond = torch.arange(N, device=device) >= N - (share * N).round()
        mixed = {
            name: torch.where(beyond.view(B, N, *[1] * (x.ndim - 2)), theirs.tensors()[name], x)
            for name, x in mine.tensors().items()
            if name != "labels"
        }
        from_them = masked_mean(beyond[..., None].to(batch.points.dtype), mixed.get("mask"), 1)
        labels, others = (F.one_hot(x.labels, self.num_classes) for x in (mine, theirs))  # type: ignore[bad-argument-type]
        return replace(mine, **mixed, labels=(1 - from_them) * labels + from_them * others)


def _sort_along(batch: CloudBatch, axis: Float[Tensor, "B 1 3"]) -> CloudBatch:
    """The points of each cloud in their order along an axis, padding last."""
    place = (batch.points * axis).sum(-1)
    return batch.take_points(_argsort(place if batch.mask is None else torch.where(batch.mask, place, torch.inf)))


@dataclass(frozen=True)
class SlideWindow:
    """Windows of tracks moved on by up to ``most`` steps: some of the future becomes past, and the oldest is forgotten.

    What would come after the end of the recording is not known, and what is not known of the future is not observed
    when it becomes past. Positions are relative to the last step of the past again.
    Attributes and vectors move on with them, and so must be known of the future too, which is then forgotten.
    """

    most: int

    def __call__(self, batch: MotionBatch, generator: Generator) -> MotionBatch:
        (count, T_past), T_out, device = batch.past.shape[:2], batch.future.shape[1], batch.past.device
        T = T_past + T_out
        shift = torch.randint(min(self.most, T_out) + 1, (count, 1), generator=generator, device=device)
        if batch.known is not None:  # where what would be the last step of the past is not known, the window stays
            shift = torch.where(F.pad(batch.known, (1, 0), value=True).gather(1, shift), shift, 0)
        step = shift + torch.arange(T, device=device)
        inside = step.clamp(max=T - 1)

        def slide(seen: Tensor, to_come: Tensor) -> tuple[Tensor, Tensor]:
            moved = pick(torch.cat([seen, to_come], 1), inside)
            return moved[:, :T_past], moved[:, T_past:]

        past, future = slide(batch.past, batch.future)
        changed: dict[str, Any] = {"past": past - past[:, -1:], "future": future - past[:, -1:]}
        for name in ("attributes", "vectors"):
            values, to_come = getattr(batch, name), getattr(batch, f"future_{name}")
            if values is not None and to_come is None:
                raise ValueError(f"windows with {name} cannot slide where these are known of the past alone")
            if values is not None:
                changed[name] = pick(torch.cat([values, to_come], 1), inside[:, :T_past])
                changed[f"future_{name}"] = None
        observed = batch.past.new_ones(count, T_past, dtype=torch.bool) if batch.mask is None else batch.mask
        known = batch.past.new_ones(count, T_out, dtype=torch.bool) if batch.known is None else batch.known
        mask, known = slide(observed, known)
        if batch.mask is not None or batch.known is not None:
            changed["mask"] = mask
        return replace(batch, **changed, known=known & (step[:, T_past:] < T))


@dataclass(frozen=True)
class DropPoints:
    """Masks out a share of the points, drawn for each cloud from [0, ``highest``]; at least one point stays."""

    highest: float = 0.5

    def __call__(self, batch: CloudBatch, generator: Generator) -> CloudBatch:
        device = batch.points.device
        key = torch.rand(batch.points.shape[:2], generator=generator, device=device)
        share = self.highest * torch.rand(len(batch), 1, generator=generator, device=device)
        if batch.mask is not None:
            key = torch.where(batch.mask, key, -1)
        return replace(batch, mask=(key >= share) | ((key == key.amax(1, keepdim=True)) & (key >= 0)))


def farthest_points(
    points: Float[Tensor, "B N 3"],
    num_points: int,
    mask: Bool[Tensor, "B N"] | None = None,
    *,
    generator: Generator | None = None,
) -> Int[Tensor, "B num_points"]:
    """Indices of points, each the farthest from those before it; the first is random, or with no generator the farthest
    from the mean. Clouds with fewer points than wanted repeat them.
    """
    exists = torch.ones_like(points[..., 0], dtype=torch.bool) if mask is None else mask
    points = torch.where(exists[..., None], points, 0)
    if generator is None:
        mean = points.sum(1, keepdim=True) / exists.sum(1)[:, None, None]
        key = (points - mean).square().sum(-1)
    else:
        key = torch.rand(exists.shape, generator=generator, device=points.device)
    nearest = torch.where(exists, torch.inf, -1.0)
    chosen = torch.where(exists, key, -1).argmax(1)
    index = torch.empty(len(points), num_points, dtype=torch.long, device=points.device)
    rows = torch.arange(len(points), device=points.device)
    for step in range(num_points):
        index[:, step] = chosen
        distance = (points - points[rows, chosen, None]).square().sum(-1)
        nearest = torch.minimum(nearest, distance)
        chosen = nearest.argmax(1)
    return index


def _keep_first(batch: CloudBatch, key: Float[Tensor, "B N"], count: int) -> CloudBatch:
    """The ``count`` existing points with the least keys; clouds with fewer points begin again."""
    order = _argsort(key if batch.mask is None else torch.where(batch.mask, key, 2))
    if batch.mask is None and count <= key.shape[1]:
        return batch.take_points(order[:, :count])
    lengths = torch.full_like(order[:, :1], key.shape[1]) if batch.mask is None else batch.mask.sum(1, keepdim=True)
    place = torch.arange(count, device=key.device) % lengths
    return replace(batch.take_points(order.gather(1, place)), mask=None)


def _argsort(key: Float[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """Along the last axis; on the CPU by NumPy, whose vectorised sort takes a third of the time of torch's."""
    return torch.from_numpy(key.numpy().argsort(axis=1)) if key.device.type == "cpu" else key.argsort(1)
