"""A labelled set of clouds, held in memory or in a memory-mapped file, on any device."""

from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

Axis = Literal["x", "y", "z"]
Split = Literal["train", "val", "test", "train+val"]


@dataclass(frozen=True, eq=False, kw_only=True)
class CloudSet:
    """M clouds of N points with a class each.

    Attributes:
        name: of the set: "modelnet40".
        points: (M, N, 3).
        labels: (M,), indices into ``class_names``.
        class_names: K names; alphabetical where the set's authors do not say otherwise.
        up: the axis that points up in this set's clouds; rotation protocol "z" turns about it.
        vectors: (M, N, V, 3), normals for one, or None.
        attributes: (M, N, d), with ``attribute_names`` of length d, or None.
        mask: (M, N), True where a point exists, or None where all do.

    >>> clouds = CloudSet(name="two", points=torch.zeros(2, 5, 3), labels=torch.tensor([0, 1]), class_names=("a", "b"))
    >>> len(clouds), len(clouds.take(torch.tensor([1])))
    (2, 1)
    """

    name: str
    points: Float[Tensor, "M N 3"]
    labels: Int[Tensor, "M"]
    class_names: tuple[str, ...]
    up: Axis = "z"
    vectors: Float[Tensor, "M N V 3"] | None = None
    attributes: Float[Tensor, "M N d"] | None = None
    attribute_names: tuple[str, ...] = ()
    mask: Bool[Tensor, "M N"] | None = None

    def __post_init__(self) -> None:
        M = len(self.points)
        for name, value in self.tensors().items():
            if len(value) != M:
                raise ValueError(f"{name} of set {self.name!r} must have {M} rows, as the points do, got {len(value)}")
        if M and not (int(self.labels.min()) >= 0 and int(self.labels.max()) < len(self.class_names)):
            raise ValueError(f"labels of set {self.name!r} must lie in 0..{len(self.class_names) - 1}")
        width = 0 if self.attributes is None else self.attributes.shape[-1]
        if len(self.attribute_names) != width:
            raise ValueError(f"set {self.name!r} has {width} attributes and {len(self.attribute_names)} names of them")

    def __len__(self) -> int:
        return len(self.points)

    def tensors(self) -> dict[str, Shaped[Tensor, "M ..."]]:
        """What the set holds for each cloud, by field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def take(self, index: Int[Tensor, "m"]) -> "CloudSet":
        """The clouds at these places."""
        return replace(self, **{name: value[index.to(value.device)] for name, value in self.tensors().items()})

    def to(self, device: torch.device | str) -> "CloudSet":
        """The set, resident on a device."""
        return replace(self, **{name: value.to(device) for name, value in self.tensors().items()})


def carve_validation(
    labels: Int[Tensor, "M"], *, fraction: float = 0.1, seed: int = 0
) -> tuple[Int[Tensor, "t"], Int[Tensor, "v"]]:
    """Indices of the clouds that stay for training and of those that are held out, about ``fraction`` of each class.

    Each class gives its share, rounded, and at least one cloud if it has two. The same seed carves the same clouds out
    of the same set on every machine.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction must be between 0 and 1, got {fraction}")
    generator = torch.Generator().manual_seed(seed)
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique().tolist():
        members = (labels == label).nonzero().squeeze(1)
        count = min(max(round(fraction * len(members)), 1), len(members) - 1)
        held_out[members[torch.randperm(len(members), generator=generator)[:count]]] = True
    return (~held_out).nonzero().squeeze(1), held_out.nonzero().squeeze(1)


def select_split(clouds: CloudSet, is_test: Bool[Tensor, "M"], split: Split) -> CloudSet:
    """One split of a set whose authors name a training and a test part.

    "train" and "val" are carved out of the training part, "train+val" is all of it.
    """
    if split == "test":
        return clouds.take(is_test.nonzero().squeeze(1))
    return carve(clouds.take((~is_test).nonzero().squeeze(1)), split)


def require_split(split: str) -> None:
    """A split must be one that there is."""
    if split not in ("train", "val", "train+val", "test"):
        raise ValueError(f"split must be 'train', 'val', 'train+val' or 'test', got {split!r}")


def carve(whole: CloudSet, split: Split) -> CloudSet:
    """The clouds of "train", "val" or "train+val", given all clouds of the official training part."""
    require_split(split)
    if split == "train+val":
        return whole
    train, val = carve_validation(whole.labels)
    return whole.take(train if split == "train" else val)
