"""Batches with masks: padded from ragged clouds, or cut from a set that lies on the device as a whole."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Generator, Tensor

from vnt.data.cloud import Cloud

B = TypeVar("B", bound="Batch")


class Batch:
    """Rows of tensors that belong together; the subclasses say which."""

    AXES: ClassVar[dict[str, str]] = {}
    """Field -> its axes, a letter each, which stands for one length in all fields; * is for whatever follows."""

    def __post_init__(self) -> None:
        lengths, places = {"3": 3}, {"3": "of space"}
        for name, x in self.tensors().items():
            letters = self.AXES.get(name, "B*")
            axes, is_open = letters.removesuffix("*"), letters.endswith("*")
            if x.ndim < len(axes) or (x.ndim > len(axes) and not is_open):
                raise ValueError(f"{name} must have {len(axes)} axes, got the shape {tuple(x.shape)}")
            for axis, length in zip(axes, x.shape, strict=False):
                if lengths.setdefault(axis, length) != length:
                    wanted = f"{lengths[axis]} {places[axis]}"
                    raise ValueError(f"{name} of the shape {tuple(x.shape)} do not fit: {length}, and {wanted}")
                places.setdefault(axis, f"in {name}")

    def __len__(self) -> int:
        return len(next(iter(self.tensors().values())))

    def tensors(self) -> dict[str, Tensor]:
        """What the batch holds, by field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[bad-argument-type]
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def map(self: B, change: Callable[[Tensor], Tensor]) -> B:
        """The batch with every tensor changed in the same way."""
        return replace(self, **{name: change(value) for name, value in self.tensors().items()})  # type: ignore[bad-specialization]

    def to(self: B, device: torch.device | str) -> B:
        """The batch on another device."""
        return self.map(lambda x: x.to(device, non_blocking=True))

    def rows(self: B, index: Int[Tensor, "m"]) -> B:
        """The items at these places."""
        return self.map(lambda x: x.index_select(0, index))

    def rotated(self: B, R: Float[Tensor, "B 3 3"]) -> B:
        """Everything that turns, turned, each item by its own rotation."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class CloudBatch(Batch):
    """B clouds of up to N points, as the classifier takes them.

    Attributes:
        points: (B, N, 3); labels: (B,), or shares of each class (B, K) where clouds were mixed, or None.
        mask: (B, N), True where a point exists, or None where all do.
        attributes: (B, N, d) or None; vectors: (B, N, V, 3) or None.
    """

    AXES: ClassVar = {"points": "BN3", "labels": "B*", "mask": "BN", "attributes": "BNd", "vectors": "BNV3"}

    points: Float[Tensor, "B N 3"]
    labels: Int[Tensor, "B"] | Float[Tensor, "B K"] | None = None
    mask: Bool[Tensor, "B N"] | None = None
    attributes: Float[Tensor, "B N d"] | None = None
    vectors: Float[Tensor, "B N V 3"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels is not None and self.labels.ndim == 1 and self.labels.is_floating_point():
            raise ValueError(f"labels must be whole numbers, or shares of each class (B, K), got {self.labels.dtype}")

    def rotated(self, R: Float[Tensor, "B 3 3"]) -> "CloudBatch":
        """Points and vectors turned, each cloud by its own rotation."""
        return replace(self, points=turn(self.points, R), vectors=_turn_any(self.vectors, R))

    def take_points(self, index: Int[Tensor, "B n"]) -> "CloudBatch":
        """The points at these places of each cloud, with all that belongs to them."""
        picked = {name: pick(value, index) for name, value in self.tensors().items() if name != "labels"}
        return replace(self, **picked)


@dataclass(frozen=True, eq=False, kw_only=True)
class MotionBatch(Batch):
    """B tracks, as the forecaster takes them, past and future in one frame.

    Attributes:
        past: (B, T, 3); future: (B, T_out, 3).
        mask: (B, T), True where a step was observed, or None where all were.
        attributes: (B, T, d) or None; vectors: (B, T, V, 3) or None.
        known: (B, T_out), True where the future is known, or None where all of it is.
        future_attributes: (B, T_out, d) or None; future_vectors: (B, T_out, V, 3) or None: what a model does not get,
            unless the window slides.
    """

    AXES: ClassVar = {
        "past": "BT3",
        "future": "BF3",
        "mask": "BT",
        "attributes": "BTd",
        "vectors": "BTV3",
        "known": "BF",
        "future_attributes": "BFd",
        "future_vectors": "BFV3",
    }

    past: Float[Tensor, "B T 3"]
    future: Float[Tensor, "B T_out 3"]
    mask: Bool[Tensor, "B T"] | None = None
    attributes: Float[Tensor, "B T d"] | None = None
    vectors: Float[Tensor, "B T V 3"] | None = None
    known: Bool[Tensor, "B T_out"] | None = None
    future_attributes: Float[Tensor, "B T_out d"] | None = None
    future_vectors: Float[Tensor, "B T_out V 3"] | None = None

    def rotated(self, R: Float[Tensor, "B 3 3"]) -> "MotionBatch":
        """Past, future and vectors turned, each track by its own rotation."""
        return replace(
            self,
            past=turn(self.past, R),
            future=turn(self.future, R),
            vectors=_turn_any(self.vectors, R),
            future_vectors=_turn_any(self.future_vectors, R),
        )


Transform = Callable[[B, Generator], B]


class Batches(Generic[B]):
    """Batches of a set that lies on one device as a whole, shuffled and transformed there.

    Everything random follows from (seed, epoch, step), so an interrupted epoch goes on where it stopped, with the
    batches it would have had: ``epoch(number, start=step)``.

    Args:
        whole: the set as one batch, on the device where batches are wanted.
        batch_size: items in a batch; the last one of an epoch may be smaller unless ``drop_last``.
        transforms: called one after another with (batch, generator); the generator is on the set's device.
        shuffle: a new order in each epoch.

    >>> whole = CloudBatch(points=torch.arange(5.0)[:, None, None].expand(5, 1, 3), labels=torch.arange(5))
    >>> [batch.labels.tolist() for batch in Batches(whole, 2, shuffle=False).epoch(0)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        whole: B,
        batch_size: int,
        *,
        transforms: Sequence[Transform[B]] = (),
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.whole, self.batch_size, self.transforms = whole, batch_size, tuple(transforms)
        self.seed, self.shuffle, self.drop_last = seed, shuffle, drop_last

    def __len__(self) -> int:
        full, rest = divmod(len(self.whole), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def epoch(self, number: int, *, start: int = 0) -> Iterator[B]:
        """The batches of one epoch, from batch ``start`` on."""
        device = next(iter(self.whole.tensors().values())).device
        order = torch.arange(len(self.whole))
        if self.shuffle:  # drawn on the CPU: the same order on every device
            order = torch.randperm(len(self.whole), generator=Generator().manual_seed(item_seed(self.seed, number)))
        order = order.to(device, non_blocking=True)
        generator = Generator(device)
        for step in range(start, len(self)):
            batch = self.whole.rows(order[step * self.batch_size : (step + 1) * self.batch_size])
            generator.manual_seed(item_seed(self.seed, number, step))
            for transform in self.transforms:
                batch = transform(batch, generator)
            yield batch


def collate(
    clouds: Sequence[Cloud], labels: Sequence[int] | None = None, *, attributes: Sequence[str] = ()
) -> CloudBatch:
    """Clouds of different sizes as one padded batch, each about its own centre.

    Coordinates are centred in float64 before they are rounded to float32. Normals come along if all clouds have them;
    ``attributes`` names those to keep, in this order.

    >>> batch = collate([Cloud(np.zeros((2, 3))), Cloud(np.ones((3, 3)))])
    >>> batch.points.shape, batch.mask.sum(1).tolist()
    (torch.Size([2, 3, 3]), [2, 3])
    """
    if not clouds:
        raise ValueError("collate needs at least one cloud, got none")
    for number, cloud in enumerate(clouds):
        cloud.require(attributes, f"cloud {number}")
    lengths = torch.tensor([len(cloud) for cloud in clouds])
    normals = [cloud.normals[:, None] for cloud in clouds if cloud.normals is not None]
    columns = [np.stack([cloud.attributes[name] for name in attributes], -1) for cloud in clouds if attributes]
    return CloudBatch(
        points=_pad([cloud.points - cloud.points.mean(0) for cloud in clouds]),
        labels=None if labels is None else torch.tensor(labels),
        mask=torch.arange(int(lengths.max())) < lengths[:, None],
        attributes=_pad(columns) if columns else None,
        vectors=_pad(normals) if len(normals) == len(clouds) else None,
    )


def turn(x: Float[Tensor, "B *shape 3"], R: Float[Tensor, "B 3 3"]) -> Float[Tensor, "B *shape 3"]:
    """x R in the precision of x, one matrix for each item. For training; `vnt.geometry.rotate` is for measuring."""
    return (x.flatten(1, -2) @ R.to(x.dtype)).view(x.shape)


def _turn_any(x: Tensor | None, R: Tensor) -> Tensor | None:
    return None if x is None else turn(x, R)


def pick(x: Shaped[Tensor, "B N *shape"], index: Int[Tensor, "B n"]) -> Shaped[Tensor, "B n *shape"]:
    """x at n places of each item, as one selection of rows: twice as fast as a gather."""
    start = torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
    return x.flatten(0, 1).index_select(0, (index + start).flatten()).unflatten(0, index.shape)


def _pad(rows: Sequence[np.ndarray]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.from_numpy(row.astype(np.float32)) for row in rows], batch_first=True)


def item_seed(*numbers: int) -> int:
    """One seed from several numbers, so that neighbouring ones have nothing in common."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "little") >> 1
