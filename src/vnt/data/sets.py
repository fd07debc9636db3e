"""Every data set by name: what it is, whether it is here, and one call that loads a split of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from vnt.data import modelnet, scanobjectnn
from vnt.data.batches import CloudBatch, MotionBatch
from vnt.data.cloud_set import CloudSet, Split, carve, require_split
from vnt.data.embedded import SHAPE_CLASSES, make_motion, make_shapes
from vnt.data.locations import find_set, is_named_only, look_up
from vnt.data.motion_inputs import later_inputs, motion_inputs
from vnt.data.motion_set import MotionSet, Subset, load
from vnt.data.polka_dot import add_polka_dots
from vnt.spelling import suggest

SHAPES_PER_CLASS = {"train": 200, "val": 25, "test": 50}
TRACKS = {"train": 4000, "val": 500, "test": 1000}


@dataclass(frozen=True)
class DataSet:
    """A set that `load_set` knows.

    Attributes:
        kind: what it holds.
        about: one line for people.
        files: what to look for in the data folder; empty for a set that is generated.
        load: called with a split and the data folder.
        is_set: whether a folder of any other name is this set.
    """

    kind: Literal["clouds", "motion"]
    about: str
    files: tuple[str, ...]
    load: Callable[[Split, Path | None], CloudSet | MotionSet]
    is_set: Callable[[Path], bool] = is_named_only

    def path(self, folder: Path | None = None) -> Path | None:
        """Where it is, or None where it is not (or is generated)."""
        return look_up(self.files, folder, self.is_set)


def load_set(name: str, split: Split = "train", folder: Path | str | None = None) -> CloudSet | MotionSet:
    """One split of a set by name; see `SETS`.

    >>> load_set("shapes", "test").points.shape[1:]
    torch.Size([256, 3])
    """
    if name not in SETS:
        raise ValueError(f"no data set {name!r}; {suggest(name, SETS)}")
    require_split(split)
    return SETS[name].load(split, None if folder is None else Path(folder))


def as_batch(
    data: CloudSet | MotionSet, attributes: Sequence[str] = (), *, slides: bool = False
) -> CloudBatch | MotionBatch:
    """A set as one batch, from which `vnt.data.batches.Batches` are cut; of a motion set the ``attributes`` named, and
    of clouds all there are.

    Velocities and headings become vectors, see `motion_inputs`. Where windows are to slide (`SlideWindow`), what these
    inputs will be is there too.
    """
    if isinstance(data, CloudSet):
        if attributes and tuple(attributes) != data.attribute_names:
            raise ValueError(
                f"the clouds of {data.name} come with attributes {data.attribute_names}, and not {tuple(attributes)}"
            )
        return CloudBatch(**data.tensors())
    past, future = torch.from_numpy(data.past), torch.from_numpy(data.future)
    numbers, vectors = motion_inputs(data.attributes, data.attribute_names, attributes)
    batch = MotionBatch(past=past, future=future, attributes=numbers, vectors=vectors)
    if not (slides and attributes):
        return batch
    later_numbers, later_vectors = later_inputs(past, future, attributes, numbers, vectors, data.dt)
    return replace(batch, future_attributes=later_numbers, future_vectors=later_vectors)


def _shapes(split: Split, folder: Path | None) -> CloudSet:
    return _generated_shapes(split)


def _dotted_shapes(split: Split, folder: Path | None) -> CloudSet:
    return add_polka_dots(_generated_shapes(split))


@cache
def _generated_shapes(split: Split) -> CloudSet:
    """Generated once in a process: several runs in one program wait for it once."""
    sides = ("train", "val") if split == "train+val" else (split,)
    parts = [make_shapes(SHAPES_PER_CLASS[side], split=side) for side in sides]
    points, labels = (torch.from_numpy(np.concatenate(rows)) for rows in zip(*parts, strict=True))
    return CloudSet(name="shapes", points=points, labels=labels, class_names=SHAPE_CLASSES, up="z")


def _motion(split: Split, folder: Path | None) -> MotionSet:
    return _generated_motion(split)


@cache
def _generated_motion(split: Split) -> MotionSet:
    """Generated once in a process, too."""
    sides = ("train", "val") if split == "train+val" else (split,)
    past, future, speed, heading = (
        np.concatenate(rows) for rows in zip(*(make_motion(TRACKS[side], split=side) for side in sides), strict=True)
    )
    M = len(past)
    number = np.array([f"{split}-{i}" for i in range(M)])
    no, yes = np.zeros(M, bool), np.ones(M, bool)
    return MotionSet(
        name="motion",
        dt=0.1,
        past=past,
        future=future,
        attributes=np.concatenate([speed, heading], -1),
        attribute_names=("speed", "heading"),
        origin=np.zeros((M, 3)),
        scenario=number,
        track=number,
        types=np.full(M, "vehicle"),
        moving=np.linalg.norm(future, axis=-1).max(1) > 2,
        to_predict=yes,
        own=no,
        is_test=yes if split == "test" else no,
    )


def _modelnet(split: Split, folder: Path | None, *, num_classes: Literal[10, 40]) -> CloudSet:
    """The paper's experiment whatever the form that is at hand: coordinates alone, of 1,024 points."""
    clouds = modelnet.load_modelnet(split, num_classes=num_classes, num_points=1024, folder=folder)
    return replace(clouds, vectors=None)


def _polka_dot(split: Split, folder: Path | None) -> CloudSet:
    """Dots are drawn on a whole official part, then carved: a cloud has the same dots in "train" and "train+val"."""
    dotted = add_polka_dots(_modelnet("test" if split == "test" else "train+val", folder, num_classes=40))
    return dotted if split == "test" else carve(dotted, split)


def _scans(split: Split, folder: Path | None, *, variant: scanobjectnn.Variant) -> CloudSet:
    return scanobjectnn.load_scanobjectnn(split, variant=variant, folder=folder)


def _windows(
    split: Split, folder: Path | None, *, name: str, files: tuple[str, ...], subset: Subset | None = None
) -> MotionSet:
    hint = "`vnt data convert` makes it from the recordings that its authors hand out."
    if subset is not None:
        hint = f"It is a part of the ready-made {files[0]}, which `vnt data convert` does not write."
    return split_windows(load(find_set(name, files, hint, folder), subset=subset), split)


def split_windows(data: MotionSet, split: Split) -> MotionSet:
    """One split of a file's windows: the file says what is test, and a tenth of the other scenarios is held out."""
    if split == "test":
        return data.take(data.is_test)
    whole = data.take(~data.is_test)
    if split == "train+val":
        return whole
    train, val = whole.split(0.1)
    return train if split == "train" else val


def _windows_of(name: str, about: str, *files: str, subset: Subset | None = None) -> DataSet:
    load = partial(_windows, name=name, files=files, subset=subset)
    return DataSet("motion", f"{name}, {about}", files, load)


def _modelnet_of(about: str, load: Callable[[Split, Path | None], CloudSet]) -> DataSet:
    return DataSet("clouds", about, modelnet.CANDIDATES, load, modelnet.is_modelnet)


def _scans_of(variant: scanobjectnn.Variant, about: str) -> DataSet:
    load = partial(_scans, variant=variant)
    about = f"scans of real objects, {about}"
    return DataSet("clouds", about, scanobjectnn.CANDIDATES, load, scanobjectnn.is_scanobjectnn)


SETS: dict[str, DataSet] = {
    "shapes": DataSet("clouds", f"{len(SHAPE_CLASSES)} kinds of objects as a scanner sees them", (), _shapes),
    "shapes_polka_dot": DataSet("clouds", "the same with the paper's attribute", (), _dotted_shapes),
    "motion": DataSet("motion", "a vehicle on hilly ground, 1.1 s -> 3 s", (), _motion),
    "modelnet40": _modelnet_of("CAD models of 40 classes", partial(_modelnet, num_classes=40)),
    "modelnet10": _modelnet_of("10 of these classes", partial(_modelnet, num_classes=10)),
    "modelnet40_polka_dot": _modelnet_of("ModelNet40 with the paper's attribute", _polka_dot),
    **{f"scanobjectnn_{variant}": _scans_of(variant, about) for variant, about in scanobjectnn.VARIANTS.items()},
    "womd": _windows_of("Waymo Open Motion", "vehicles, 1.1 s -> 8 s", "womd.safetensors", "womd_vehicles.npz"),
    "womd_paper": _windows_of(
        "Waymo Open Motion", "4,894 that move, the paper's number", "womd_vehicles.npz", subset="paper"
    ),
    "womd_large": _windows_of(
        "Waymo Open Motion", "the same test vehicles, all others to train on", "womd_vehicles.npz", subset="paper_test"
    ),
    "kitti": _windows_of("KITTI odometry", "the car itself on hilly roads", "kitti.safetensors", "kitti_ego.npz"),
    "av2": _windows_of("Argoverse 2", "vehicles", "av2.safetensors", "av2_sensor_vehicles.npz"),
}
