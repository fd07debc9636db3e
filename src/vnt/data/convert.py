"""From the files that people have to one file of windows that trains."""

import glob
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vnt.data.argoverse2 import read_scenario
from vnt.data.kitti import read_poses
from vnt.data.motion_set import MotionSet, cut_windows, join, load, save_parts, select, split_of
from vnt.data.recording import Recording
from vnt.data.track_tables import read_tracks
from vnt.data.waymo.scenario import sized_scenarios

Progress = Callable[[int, int, int], None]
"""Called with the bytes read, the bytes there are, and the windows found so far."""

_SHARD = re.compile(r"\.tfrecords?(-\d+-of-\d+)?$")  # training.tfrecord-00000-of-01000
_TABLES = (".csv", ".tsv")
_ONE_EACH = {".parquet": read_scenario, ".txt": read_poses}


def convert(
    sources: str | Path | Sequence[str | Path],
    target: str | Path,
    *,
    past: int = 11,
    future: int = 80,
    stride: int = 10,
    types: Collection[str] | None = None,
    moving: bool | None = None,
    to_predict: bool | None = None,
    own: bool | None = None,
    test_fraction: float = 0.2,
    rate: float | None = None,
    progress: Progress | None = None,
) -> MotionSet:
    """Cut the windows of all sources, choose among them, write them to ``target``, and return them.

    Args:
        sources: files, directories or globs: Waymo TFRecord shards, Argoverse 2 parquet, KITTI poses, CSV tables.
        target: the file to write, which `vnt.data.motion_set.load` reads. It appears only when it is whole.
        past: steps that are seen; see `cut_windows`.
        future: steps that follow.
        stride: steps from window to window, where a recording does not say which step is now.
        types: keep tracks of these types only; see `select`.
        moving: keep what moves, or what does not.
        to_predict: keep what the set's authors want predicted, or the rest.
        own: keep the recording car, or the others.
        test_fraction: about this part of the scenarios is marked as test, see `split_of`.
        rate: steps per second that tables of tracks are resampled to, unless it is their own.
        progress: called after each recording.
    """
    files, target = find_files(sources), Path(target)
    if target.is_dir() or target.resolve() in [file.resolve() for file in files]:
        raise ValueError(f"{target}: the target is a directory or one of the sources")
    split_of("", test_fraction)  # a bad fraction is better refused now than after an hour
    total = sum(file.stat().st_size for file in files)
    done = count = 0
    parts = []
    for file in files:
        found = []
        for recording, size in _sized_recordings(file, rate):
            windows = cut_windows(recording, past=past, future=future, stride=stride)
            windows = select(windows, types=types, moving=moving, to_predict=to_predict, own=own)
            if len(windows):
                found.append(windows)
            done, count = done + size, count + len(windows)
            if progress is not None:
                progress(done, total, count)
        if found:
            parts.append(_with_split(join(found, name=str(file)), test_fraction))
    if not parts:
        raise ValueError(f"no window of {past} + {future} steps fits what was asked, in {len(files)} files")
    save_parts(parts, target, name=target.stem)
    parts.clear()  # so that the set is in memory once when it comes back from the disk
    return load(target)


def recordings_in(path: str | Path, *, rate: float | None = None) -> Iterator[Recording]:
    """What a file holds, of the kind that its name tells: ``.tfrecord``, ``.parquet``, ``.txt`` (KITTI), ``.csv``."""
    for recording, _ in _sized_recordings(Path(path), rate):
        yield recording


def find_files(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that sources mean, each once. A directory means every file below it of a kind that we read.

    KITTI's folders also hold calibrations and times as text, so from a directory only numbered ``.txt`` are taken.
    """
    files: dict[Path, Path] = {}
    for source in [sources] if isinstance(sources, str | Path) else sources:
        matches = [source] if Path(source).exists() else sorted(glob.glob(str(source), recursive=True))
        found = []
        for match in map(Path, matches):
            below = (file for file in sorted(match.rglob("*")) if file.is_file() and _is_ours(file))
            found += below if match.is_dir() else [match]
        if not found:
            raise FileNotFoundError(f"{source}: no such file, or a directory without recordings")
        files |= {file.resolve(): file for file in found}
    return list(files.values())


def _is_ours(file: Path) -> bool:
    if file.suffix == ".txt":
        return file.stem.isdigit()
    return bool(_SHARD.search(file.name)) or file.suffix in (*_ONE_EACH, *_TABLES)


def _sized_recordings(path: Path, rate: float | None) -> Iterator[tuple[Recording, int]]:
    if _SHARD.search(path.name):
        yield from sized_scenarios(path)
    elif path.suffix in _TABLES:
        yield read_tracks(path, rate=rate), path.stat().st_size
    elif path.suffix in _ONE_EACH:
        yield _ONE_EACH[path.suffix](path), path.stat().st_size
    else:
        raise ValueError(f"{path}: unknown kind of recording; known are .tfrecord, {', '.join((*_ONE_EACH, *_TABLES))}")


def _with_split(windows: MotionSet, test_fraction: float) -> MotionSet:
    scenarios, index = np.unique(windows.scenario, return_inverse=True)
    is_test = np.array([split_of(scenario, test_fraction) == "test" for scenario in scenarios.tolist()])
    return replace(windows, is_test=is_test[index])
