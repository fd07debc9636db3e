"""From the files that people have to one file of windows that trains."""

import glob
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from vnt.data.argoverse2 import read_scenario
from vnt.data.kitti import is_pose_file, read_poses
from vnt.data.motion_set import MotionSet, cut_windows, join, load, save_parts, select, split_of
from vnt.data.recording import Recording
from vnt.data.track_tables import TEXTS, is_track_table, read_tracks
from vnt.data.waymo.scenario import sized_scenarios
from vnt.files import require_file

Progress = Callable[[int, int, int], None]
"""Called with the bytes read, the bytes there are, and the windows found so far."""

Kind = Literal["Waymo scenarios", "Argoverse 2 scenario", "table of tracks", "KITTI poses"]

_SHARD = re.compile(r"\.tfrecords?(-\d+-of-\d+)?$", re.IGNORECASE)  # training.tfrecord-00000-of-01000
_NAMED_BY_FILE = ("table of tracks", "KITTI poses")


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
    names, seen = _scenario_names(files), _Seen()
    done = count = 0
    parts = []
    for file in files:
        found = []
        for recording, size in _sized_recordings(file, rate):
            if rate is not None and abs(recording.dt * rate - 1) > 0.01:
                raise ValueError(
                    f"{file}: its steps are {recording.dt:g} s apart; tables of tracks alone are resampled"
                )
            recording = replace(recording, name=names.get(file, recording.name))
            windows = cut_windows(recording, past=past, future=future, stride=stride)
            seen.add(recording, len(windows))
            windows = select(windows, types=types, moving=moving, to_predict=to_predict, own=own)
            if len(windows):
                found.append(windows)
            done, count = done + size, count + len(windows)
            if progress is not None:
                progress(done, total, count)
        if found:
            parts.append(_with_split(join(found, name=str(file)), test_fraction))
    if not parts:
        raise ValueError(f"no window of {past} + {future} steps fits what was asked, in {len(files)} files: {seen}")
    save_parts(parts, target, name=target.stem)
    parts.clear()  # so that the set is in memory once when it comes back from the disk
    return load(target)


def recordings_in(path: str | Path, *, rate: float | None = None) -> Iterator[Recording]:
    """What a file holds, of the kind that `kind_of` tells."""
    for recording, _ in _sized_recordings(Path(path), rate):
        yield recording


def find_files(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that sources mean, each once. A directory means every file below it of a kind that we read."""
    files: dict[Path, Path] = {}
    for source in [sources] if isinstance(sources, str | Path) else sources:
        matches = [source] if Path(source).exists() else sorted(glob.glob(str(source), recursive=True))
        found = []
        for match in map(Path, matches):
            below = (file for file in sorted(match.rglob("*")) if file.is_file() and kind_of(file))
            found += below if match.is_dir() else [match]
        if not found:
            raise FileNotFoundError(f"{source}: no such file, or a directory without recordings")
        files |= {file.resolve(): file for file in found}
    return list(files.values())


def kind_of(path: Path | str) -> Kind | None:
    """What kind of recording a file is, by its name and, of a text, its first line; None for clouds and all else.

    A text is a table of tracks if its first line names the columns of one. KITTI's folders also hold calibrations and
    times as text, and clouds come as text too, so poses are known by their rotations.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if _SHARD.search(path.name):
        return "Waymo scenarios"
    if suffix == ".parquet":
        return "Argoverse 2 scenario"
    if suffix not in TEXTS or not path.is_file():
        return None
    if is_track_table(path):
        return "table of tracks"
    return "KITTI poses" if suffix == ".txt" and is_pose_file(path) else None


def _sized_recordings(path: Path, rate: float | None) -> Iterator[tuple[Recording, int]]:
    size = require_file(path).stat().st_size
    match kind_of(path):
        case "Waymo scenarios":
            yield from sized_scenarios(path)
        case "Argoverse 2 scenario":
            yield read_scenario(path), size
        case "table of tracks":
            yield read_tracks(path, rate=rate), size
        case "KITTI poses":
            yield read_poses(path), size
        case _:
            raise ValueError(
                f"{path}: unknown kind of recording; known are .tfrecord, .parquet, .csv, .tsv and .txt whose first "
                "line names track_id, t, x, y, and .txt of KITTI poses. A cloud is converted to .npz"
            )


def _scenario_names(files: Sequence[Path]) -> dict[Path, str]:
    """Names for recordings that are named by their file, where two files would share one: with the folders above it.

    Windows of scenarios with one name would be taken for one scenario, and held out together.
    """
    alike = defaultdict(list)
    for file in files:
        if kind_of(file) in _NAMED_BY_FILE:
            alike[file.stem].append(file)
    names: dict[Path, str] = {}
    for group in alike.values():
        if len(group) == 1:
            continue
        paths = [file.resolve() for file in group]
        found = [f"{path.parent.name}/{path.stem}" for path in paths]
        if len(set(found)) < len(paths):  # the folders have one name as well, or only the suffixes differ
            common = os.path.commonpath([path.parent for path in paths])
            found = [path.relative_to(common).as_posix() for path in paths]
        names |= dict(zip(group, found, strict=True))
    return names


@dataclass
class _Seen:
    """What a conversion came across, for the message that nothing of it fits."""

    steps: list[int] = field(default_factory=list)
    current: set[int] = field(default_factory=set)
    types: Counter[str] = field(default_factory=Counter)
    windows: int = 0

    def add(self, recording: Recording, windows: int) -> None:
        self.steps.append(recording.num_steps)
        self.current |= set() if recording.current is None else {recording.current}
        self.types.update(recording.types)
        self.windows += windows

    def __str__(self) -> str:
        if not self.steps:
            return "there is no recording in them"
        types = ", ".join(f"{name} ({count:,})" for name, count in self.types.most_common(10))
        return (
            f"{len(self.steps):,} recordings of {_span(self.steps)} steps"
            f"{f', now is step {_span(self.current)}' if self.current else ''}; tracks of type {types}; "
            f"{self.windows:,} windows before selection"
        )


def _span(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _with_split(windows: MotionSet, test_fraction: float) -> MotionSet:
    scenarios, index = np.unique(windows.scenario, return_inverse=True)
    is_test = np.array([split_of(scenario, test_fraction) == "test" for scenario in scenarios.tolist()])
    return replace(windows, is_test=is_test[index])
