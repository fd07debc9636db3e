"""What the page shows: built-in clouds and tracks, and the files of its users."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnt.data.cloud import Cloud
from vnt.data.cloud_files import FORMATS, read_cloud
from vnt.data.conversion import kind_of, recordings_in
from vnt.data.embedded import SHAPE_CLASSES, make_shapes
from vnt.data.motion_set import cut_windows
from vnt.data.sets import load_set
from vnt.view.studio import Pair

MOST_POINTS = 5_000_000
MOST_TRACKS = 50


@dataclass(frozen=True, eq=False)
class CloudSample:
    """A cloud and what to call it."""

    name: str
    cloud: Cloud


@dataclass(frozen=True, eq=False)
class TrackSample:
    """A track, seen and to come; ``future`` is None where the recording ends with what was seen."""

    name: str
    past: NDArray
    future: NDArray | None


def built_in_clouds(num_points: int = 1024) -> dict[str, tuple[Cloud, str]]:
    """One of each class of the built-in shapes, none of which a model was trained on."""
    points, labels = make_shapes(1, num_points=num_points, split="test")
    return {SHAPE_CLASSES[label]: (Cloud(x), "z") for x, label in zip(points, labels, strict=True)}


def built_in_tracks(about: Mapping[str, Any] | None = None, count: int = 8) -> dict[str, TrackSample]:
    """Some of the built-in test tracks: those that turn the most while they are seen.

    None for a model that is ``about`` longer tracks, or tracks of another rate.
    """
    tracks = load_set("motion", "test")
    wanted, dt = (11, 0.1) if about is None else (int(about.get("past") or 11), float(about.get("dt", 0.1)))
    if wanted > tracks.past.shape[1] or not np.isclose(dt, tracks.dt):  # type: ignore[missing-attribute]
        return {}
    past, future = np.asarray(tracks.past), np.asarray(tracks.future)  # type: ignore[missing-attribute]
    first, last = past[:, 3] - past[:, 0], past[:, -1] - past[:, -4]
    cosine = (first * last).sum(1) / np.maximum(np.linalg.norm(first, axis=1) * np.linalg.norm(last, axis=1), 1e-9)
    seen, came = (np.linalg.norm(x[:, -1] - x[:, 0], axis=1) for x in (past, future))
    order = np.argsort(np.where((seen > 4) & (came > 10), cosine, 1))  # what stands still has no direction
    return {f"track {i}": TrackSample(f"track {i}", past[i], future[i]) for i in order[:count].tolist()}


def read_file(path: Path, pairs: Iterable[Pair]) -> CloudSample | Sequence[TrackSample]:
    """The cloud, or the tracks, that a file holds."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if kind_of(path):
        return _tracks(path, list(pairs))
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path.name}: neither a cloud ({', '.join(FORMATS)}) nor a table of tracks")
    cloud = read_cloud(path)
    if len(cloud) > MOST_POINTS:
        cloud = read_cloud(path, num_points=MOST_POINTS)
    if len(cloud) < 4:
        raise ValueError(f"{path.name}: {len(cloud)} points are too few to look at")
    return CloudSample(path.name, cloud)


def _tracks(path: Path, pairs: Sequence[Pair]) -> list[TrackSample]:
    forecasters = [pair.ours for pair in pairs if not pair.ours.classifies]
    if not forecasters:
        raise ValueError(f"{path.name}: tracks, and there is no model that forecasts: --model names one")
    about = forecasters[0].about
    past, future = int(about.get("past") or 11), int(about["model"]["num_future"])
    dt = float(about.get("dt", 0.1))
    found: list[TrackSample] = []
    for recording in recordings_in(path, rate=1 / dt):
        if not np.isclose(recording.dt, dt, rtol=0.02):
            raise ValueError(f"{path.name}: steps of {recording.dt:g} s, and the model is for steps of {dt:g} s")
        windows = cut_windows(recording, past=past, future=future, stride=past + future)
        for seen, came, track in zip(windows.past, windows.future, windows.track, strict=True):
            found.append(TrackSample(f"{recording.name}: {track} ({len(found)})", seen, came))
            if len(found) == MOST_TRACKS:
                return found
    if not found:
        raise ValueError(f"{path.name}: no track in it is seen for {past + future} steps of {dt:g} s")
    return found


def read_upload(name: str, content: bytes, pairs: Iterable[Pair]) -> CloudSample | Sequence[TrackSample]:
    """What a visitor sent. Of its name only the last part is kept, and the file is gone when it has been read."""
    safe = Path(name.replace("\\", "/")).name
    if not safe or safe.startswith("."):
        raise ValueError(f"{name!r}: not the name of a file")
    if not content:
        raise ValueError(f"{safe}: an empty file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / safe
        path.write_bytes(content)
        try:
            return read_file(path, pairs)
        except (ValueError, OSError) as error:
            raise ValueError(str(error).replace(f"{path}", safe)) from error
