"""What a word on the command line means: a data set, a cloud, recordings, or a file of windows."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from vnt.data.cloud import Cloud
from vnt.data.cloud_files import FORMATS, read_cloud
from vnt.data.cloud_set import CloudSet, Split
from vnt.data.convert import find_files, recordings_in
from vnt.data.motion_set import MotionSet, load
from vnt.data.recording import Recording
from vnt.data.sets import SETS, load_set
from vnt.spelling import suggest


@dataclass(frozen=True)
class Content:
    """Something that was read, and in what form it was."""

    form: str
    value: CloudSet | MotionSet | Cloud | Recording
    more: int = 0
    """Further recordings in the same place."""


def open_content(word: str, data: Path | None = None, *, split: Split = "train", seed: int = 0) -> Content:
    """Read what ``word`` names. A file is tried as what its name and first line say it is."""
    if word in SETS and not Path(word).exists():
        return Content("data set", load_set(word, split, data))
    path = Path(word)
    if not path.exists() and not path.suffix:
        raise ValueError(f"{word}: no such file, and no data set of that name; {suggest(word, SETS)}")
    if path.is_dir():
        return _recordings(chain.from_iterable(map(recordings_in, find_files(path))), "folder of recordings")
    suffix = path.suffix.lower()
    if suffix == ".safetensors" or (suffix == ".npz" and _has_windows(path)):
        return Content("motion set", load(path))
    if ".tfrecord" in path.name:
        return _recordings(recordings_in(path), "Waymo scenarios")
    if suffix == ".parquet":
        return _recordings(recordings_in(path), "Argoverse 2 scenario")
    if suffix in (".csv", ".tsv", ".txt") and path.is_file():
        first = _first_line(path)
        if any(name in first for name in ("track_id", "track,", "timestamp")):
            return _recordings(recordings_in(path), "table of tracks")
        if suffix == ".txt" and len(first.split()) == 12:
            return _recordings(recordings_in(path), "KITTI poses")
    return Content(FORMATS.get(suffix, suffix), read_cloud(path, seed=seed))


def _recordings(recordings: Iterator[Recording], form: str) -> Content:
    first = next(recordings, None)
    if first is None:
        raise ValueError(f"{form}: no recording in it")
    return Content(form, first, more=sum(1 for _ in recordings))


def _has_windows(path: Path) -> bool:
    import zipfile

    return zipfile.is_zipfile(path) and {"past.npy", "future.npy"} <= set(zipfile.ZipFile(path).namelist())


def _first_line(path: Path) -> str:
    with open(path, errors="replace") as file:
        return file.readline(4096).lower()
