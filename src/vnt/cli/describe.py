"""What ``vnt data info`` says."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from vnt.cli.content import Content, open_content
from vnt.data.cloud import Cloud
from vnt.data.cloud_files import FORMATS
from vnt.data.cloud_set import CloudSet
from vnt.data.motion_set import MotionSet
from vnt.data.recording import Recording
from vnt.data.sets import SETS

SPLITS = ("train", "val", "test")


def describe(word: str, data: Path | None = None) -> dict[str, Any]:
    """Facts about a file, folder or data set, by name, ready for JSON, with every digit that there is."""
    content = open_content(word, data)
    facts: dict[str, Any] = {"path" if Path(word).exists() else "name": str(word), "form": content.form}
    match content.value:
        case Cloud():
            return facts | _files(content) | _cloud(content.value)
        case Recording():
            facts |= _files(content) | _recording(content.value)
            return facts | ({"further recordings": content.more} if content.more else {})
        case CloudSet():
            sizes = {split: len(open_content(word, data, split=split).value) for split in SPLITS}  # type: ignore[bad-argument-type]
            return facts | _cloud_set(content.value) | {"clouds": sizes}
        case MotionSet():
            if word in SETS:
                sizes = {split: len(open_content(word, data, split=split).value) for split in SPLITS}  # type: ignore[bad-argument-type]
            else:
                tests = int(content.value.is_test.sum())
                sizes = {"train": len(content.value) - tests, "test": tests}
            return facts | _motion_set(content.value) | {"windows": sizes}


def _files(content: Content) -> dict[str, Any]:
    """Of a folder: which file is described, and what else there is."""
    if not content.files:
        return {}
    first = {"described": str(content.files[0])}
    if isinstance(content.value, Cloud):
        kinds = {"files": dict(Counter(FORMATS[path.suffix.lower()] for path in content.files).most_common())}
        return kinds | _classes(content) | first
    return first | {"further files": len(content.files) - 1}


def _classes(content: Content) -> dict[str, Any]:
    """How many clouds of each class there are to train and to test with."""
    if not content.classes:
        return {}
    counts = Counter((file.name, "test" if file.side == "test" else "train") for file in content.classes)
    names = sorted({file.name for file in content.classes})
    return {
        "classes to train with": {name: counts[name, "train"] for name in names},
        "and to test with": {name: counts[name, "test"] for name in names},
    }


def _cloud(cloud: Cloud) -> dict[str, Any]:
    return {
        "points": len(cloud),
        "bounds": _bounds(cloud.points),
        "normals": cloud.normals is not None,
        "attributes": {name: [float(x.min()), float(x.max())] for name, x in cloud.attributes.items()},
    }


def _bounds(points: np.ndarray) -> dict[str, list[float]]:
    """Least and largest coordinate by axis; none where there are no points."""
    if not len(points):
        return {}
    return {axis: [float(x.min()), float(x.max())] for axis, x in zip("xyz", points.T, strict=True)}


def _recording(recording: Recording) -> dict[str, Any]:
    return {
        "scenario": recording.name,
        "tracks": dict(Counter(recording.types).most_common()),
        "steps": recording.num_steps,
        "rate": f"{1 / recording.dt:.4g} Hz",
        "current step": recording.current,
        "to predict": [id for id, wanted in zip(recording.track_ids, recording.to_predict, strict=True) if wanted],
        "own car": [id for id, own in zip(recording.track_ids, recording.own, strict=True) if own],
        "attributes": list(recording.attribute_names),
        "bounds": _bounds(recording.positions[recording.valid]),
    }


def _cloud_set(clouds: CloudSet) -> dict[str, Any]:
    counts = clouds.labels.bincount(minlength=len(clouds.class_names)).tolist()
    return {
        "points per cloud": clouds.points.shape[1],
        "up": clouds.up,
        "vectors per point": 0 if clouds.vectors is None else clouds.vectors.shape[2],
        "attributes": list(clouds.attribute_names),
        "classes": dict(zip(clouds.class_names, counts, strict=True)),
    }


def _motion_set(windows: MotionSet) -> dict[str, Any]:
    return {
        "past": f"{windows.past.shape[1]} steps",
        "future": f"{windows.future.shape[1]} steps",
        "rate": f"{1 / windows.dt:.4g} Hz",
        "scenarios": len(np.unique(windows.scenario)),
        "types": dict(Counter(windows.types.tolist()).most_common()),
        "moving": int(windows.moving.sum()),
        "attributes": list(windows.attribute_names),
    }
