"""A user's own labelled clouds: a folder for each class, files of any format in it.

    scans/chair/a.ply            scans/train/chair/a.ply            scans/chair/train/a.ply
    scans/table/b.las     or     scans/test/table/b.las      or     scans/table/test/b.las

With ``train`` and ``test`` (or ``Training``, ``testing``) there may be ``val``; without it a tenth of the training
clouds is held out. Without any of them, a fifth of the files is test, chosen by a hash of their names. Hidden folders
are not looked into.
"""

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from vnt.data.batches import collate
from vnt.data.cache import cached
from vnt.data.cloud_files import FORMATS, read_cloud
from vnt.data.cloud_set import CloudSet, Split, carve, require_split
from vnt.data.track_tables import TEXTS, names_tracks

TEST_SHARE = 0.2
SIDES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
"""Names of folders, in small letters, that say what a cloud is for."""

NOT_OURS = (".", "__MACOSX")
"""What the names of files and folders begin with that programs leave behind: .ipynb_checkpoints, .DS_Store."""


class LabelledFile(NamedTuple):
    """A cloud file, its class, and what it is for: "train", "val" or "test"."""

    path: Path
    name: str
    side: str


def load_folder(
    folder: Path | str,
    split: Split = "train",
    *,
    num_points: int = 1024,
    attributes: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> CloudSet:
    """One split of a folder of clouds, each of at most ``num_points`` points about its own centre.

    ``attributes`` names those to keep, which every file must have; normals are kept where every file has them.
    """
    require_split(split)
    root = Path(folder)
    files = labelled_files(root)
    names = tuple(sorted({file.name for file in files}))

    def build() -> dict[str, torch.Tensor]:
        clouds = []
        for number, file in enumerate(files):
            clouds.append(read_cloud(file.path, num_points=num_points))
            clouds[-1].require(attributes, str(file.path))
            if progress is not None:
                progress(number + 1, len(files))
        return collate(clouds, [names.index(file.name) for file in files], attributes=attributes).tensors()

    settings = {
        "num_points": num_points,
        "attributes": list(attributes),
        "labels": [file.name for file in files],  # a link may be moved to another class, and what it leads to stays
    }
    tensors = cached("folder", settings, [file.path for file in files], build)
    clouds = CloudSet(name=root.name, class_names=names, attribute_names=tuple(attributes), **tensors)  # type: ignore[bad-argument-type]
    sides = [file.side for file in files]
    if split == "test":
        return _of_sides(clouds, sides, "test")
    if "val" in sides:
        return _of_sides(clouds, sides, *split.split("+"))
    return carve(_of_sides(clouds, sides, "train"), split)


def labelled_files(root: Path) -> list[LabelledFile]:
    """Every cloud below a folder, in a fixed order; there must be two classes, and clouds to train on and to test."""
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder")
    classes = _folders(root)
    sides = [folder for folder in classes if _side(folder.name)]
    others = [folder.name for folder in classes if sides and not _side(folder.name) and clouds_below(folder)]
    if (len(sides) == 1 and len(classes) > 1) or (others and not any(map(_folders, sides))):
        sides = []  # a class may be called "train"
    if sides:
        if loose := [path for side in sides for path in clouds_below(side) if path.parent == side]:
            raise ValueError(f"{loose[0]}: it is in no folder of a class")
        if others:
            raise ValueError(f"{root}: clouds in {', '.join(others)} are neither in train nor in test")
        files = [
            LabelledFile(path, label.name, _side(side.name))
            for side in sides
            for label in _folders(side)
            for path in _clouds_of_class(label)
        ]
    else:
        files = [LabelledFile(path, label.name, "train") for label in classes for path in _clouds_of_class(label)]
        files = _divided(root, files)
    names = sorted({file.name for file in files})
    if len(names) < 2:
        found = f"only {names[0]!r}" if names else "none"
        hint = "; tables of tracks become a file to train on by vnt data convert" if _has_tracks(root) else ""
        raise ValueError(
            f"{root}: expected folders of clouds, one for each of two classes at least, found {found}{hint}"
        )
    there = {file.side for file in files}
    if missing := [side for side in ("train", "test") if side not in there]:
        if sides or "val" in there:
            raise ValueError(f"{root}: clouds for {' and '.join(sorted(there))}, and none for {' and '.join(missing)}")
        raise ValueError(f"{root}: {len(files)} clouds are too few to split into training and test")
    return files


def _divided(root: Path, files: list[LabelledFile]) -> list[LabelledFile]:
    """What each cloud is for, by a folder below that of its class, or else by a hash of its name."""
    below = [file.path.relative_to(root / file.name).parts[0] for file in files]
    said = [bool(_side(name)) for name in below]
    if not any(said):
        return [file._replace(side="test" if _is_test(file.path.relative_to(root)) else "train") for file in files]
    if not all(said):
        lost = files[said.index(False)].path
        raise ValueError(f"{lost}: other clouds are in folders train and test of their class, this one is in neither")
    return [file._replace(side=_side(name)) for file, name in zip(files, below, strict=True)]


def _side(name: str) -> str:
    """What clouds in a folder of this name are for, or nothing."""
    return SIDES.get(name.lower(), "")


def _has_tracks(root: Path) -> bool:
    texts = [path for path in _visible_files(root) if path.suffix.lower() in TEXTS][:20]
    with contextlib.suppress(OSError):
        return any(map(names_tracks, texts))
    return False


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(NOT_OURS))


def _visible_files(root: Path) -> list[Path]:
    """The files below a folder, but for what programs leave behind."""
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return [path for path in found if not any(part.startswith(NOT_OURS) for part in path.relative_to(root).parts)]


def clouds_below(root: Path) -> list[Path]:
    """The cloud files below a folder, in a fixed order."""
    return [path for path in _visible_files(root) if path.suffix.lower() in FORMATS]


def _clouds_of_class(folder: Path) -> list[Path]:
    """The clouds of a class; a folder with files of which none is a cloud is not passed over."""
    found = clouds_below(folder)
    if not found and (others := _visible_files(folder)):
        known = ", ".join(sorted(FORMATS))
        raise ValueError(f"{others[0]}: no cloud in this class is of a known format; known are {known}")
    return found


def _of_sides(clouds: CloudSet, sides: list[str], *wanted: str) -> CloudSet:
    return clouds.take(torch.tensor([number for number, side in enumerate(sides) if side in wanted]))


def _is_test(name: Path) -> bool:
    digest = hashlib.sha256(name.as_posix().encode()).digest()
    return int.from_bytes(digest[:8], "big") < TEST_SHARE * 2**64
