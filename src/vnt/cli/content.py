"""What a word on the command line means: a data set, a cloud, recordings, or a file of windows."""

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vnt.data.cloud import Cloud
from vnt.data.cloud_files import FORMATS, read_cloud
from vnt.data.cloud_set import CloudSet, Split
from vnt.data.conversion import kind_of, recordings_in
from vnt.data.folder import LabelledFile, labelled_files
from vnt.data.motion_set import MotionSet, load
from vnt.data.recording import Recording
from vnt.data.sets import SETS, load_set
from vnt.files import blame
from vnt.spelling import suggest


@dataclass(frozen=True)
class Content:
    """Something that was read, and in what form it was."""

    form: str
    value: CloudSet | MotionSet | Cloud | Recording
    more: int = 0
    """Further recordings in the same file."""
    files: tuple[Path, ...] = ()
    """Of a folder: all files of the kind; ``value`` is what the first of them holds."""
    classes: tuple[LabelledFile, ...] = ()
    """Of a folder of clouds: each with its class and side, where `vnt train --dataset` would know them."""


def open_content(word: str, data: Path | None = None, *, split: Split = "train", seed: int = 0) -> Content:
    """Read what ``word`` names. A file is tried as what its name and first line say it is."""
    if word in SETS and not Path(word).exists():
        return Content("data set", load_set(word, split, data))
    path = Path(word)
    if not path.exists() and not path.suffix:
        raise ValueError(f"{word}: no such file, and no data set of that name; {suggest(word, SETS)}")
    if path.is_dir():
        return _folder(path, seed)
    if _is_motion_set(path):
        return Content("motion set", load(path))
    kind = kind_of(path)
    if kind is not None:
        first, rest = _first(path)
        return Content(kind, first, more=sum(1 for _ in rest))
    suffix = path.suffix.lower()
    return Content(FORMATS.get(suffix, suffix), read_cloud(path, seed=seed))


def _folder(folder: Path, seed: int) -> Content:
    """The first of the recordings below a folder, or else of the clouds: no more of a large set is read than that."""
    below = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    recordings = tuple(path for path in below if kind_of(path))
    if recordings:
        return Content("folder of recordings", _first(recordings[0])[0], files=recordings)
    clouds = tuple(path for path in below if path.suffix.lower() in FORMATS)
    if not clouds:
        raise ValueError(f"{folder}: neither recordings nor clouds in this folder; known are {', '.join(FORMATS)}")
    classes: tuple[LabelledFile, ...] = ()
    with suppress(ValueError):  # clouds without classes
        classes = tuple(labelled_files(folder))
    return Content("folder of clouds", read_cloud(clouds[0], seed=seed), files=clouds, classes=classes)


def _first(path: Path) -> tuple[Recording, Iterator[Recording]]:
    recordings = recordings_in(path)
    first = next(recordings, None)
    if first is None:
        raise ValueError(f"{path}: no recording in it")
    return first, recordings


def _is_motion_set(path: Path) -> bool:
    """By the suffix, or by what is inside: a ready-made set is an .npz, and `vnt data convert` takes any name."""
    suffix = path.suffix.lower()
    if suffix == ".safetensors" or not path.is_file():
        return suffix == ".safetensors"
    if suffix == ".npz":
        return _has_windows(path)
    if suffix in FORMATS or kind_of(path) is not None:
        return False
    with open(path, "rb") as file:
        start = file.read(9)
    return start[8:] == b"{" or (start[:2] == b"PK" and _has_windows(path))


def _has_windows(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with blame(path), zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    return {"past.npy", "future.npy"} <= names and "points.npy" not in names
