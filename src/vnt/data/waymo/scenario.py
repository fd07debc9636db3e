"""Waymo's `Scenario` messages as recordings.

The messages are described here by the field numbers that we need, so neither protoc nor Waymo's package (which brings
TensorFlow) is involved. The parser skips every other field: maps, traffic lights, lidar.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vnt.data.recording import Recording
from vnt.data.waymo.tfrecord import FRAME, read_records
from vnt.files import blame, require_library

ATTRIBUTES = ("speed", "heading", "velocity_x", "velocity_y", "length", "width", "height")
TYPES = {1: "vehicle", 2: "pedestrian", 3: "cyclist", 4: "other"}

# message -> field -> (number, type, repeated). Enums are read as int32, which is the same on the wire and keeps values
# that were added after this was written.
_MESSAGES = {
    "ObjectState": {
        "center_x": (2, "DOUBLE", False),
        "center_y": (3, "DOUBLE", False),
        "center_z": (4, "DOUBLE", False),
        "length": (5, "FLOAT", False),
        "width": (6, "FLOAT", False),
        "height": (7, "FLOAT", False),
        "heading": (8, "FLOAT", False),
        "velocity_x": (9, "FLOAT", False),
        "velocity_y": (10, "FLOAT", False),
        "valid": (11, "BOOL", False),
    },
    "Track": {"id": (1, "INT32", False), "object_type": (2, "INT32", False), "states": (3, "ObjectState", True)},
    "RequiredPrediction": {"track_index": (1, "INT32", False)},
    "Scenario": {
        "timestamps_seconds": (1, "DOUBLE", True),
        "tracks": (2, "Track", True),
        "scenario_id": (5, "STRING", False),
        "sdc_track_index": (6, "INT32", False),
        "current_time_index": (10, "INT32", False),
        "tracks_to_predict": (11, "RequiredPrediction", True),
    },
}


def read_scenarios(path: Path | str) -> Iterator[Recording]:
    """The scenarios of one shard, each as it is needed.

    Raises:
        ValueError: a record is damaged or is no scenario. The message has the file and the record's number.
    """
    for recording, _ in sized_scenarios(path):
        yield recording


def sized_scenarios(path: Path | str) -> Iterator[tuple[Recording, int]]:
    """As `read_scenarios`, each with the bytes that it takes in the file: for whoever shows progress."""
    for number, payload in enumerate(read_records(path)):
        with blame(f"{path}: record {number}"):
            recording = parse_scenario(payload, default_name=f"{Path(path).name}:{number}")
        yield recording, len(payload) + FRAME


def parse_scenario(payload: bytes, *, default_name: str = "") -> Recording:
    """One serialized `Scenario`; ``default_name`` is for one that has no id of its own.

    Attributes are ``ATTRIBUTES`` in metres, seconds and radians; ``own`` marks the car that recorded.
    """
    scenario = _scenario_class().FromString(payload)
    dt = _seconds_per_step(np.array(scenario.timestamps_seconds))
    n, T = len(scenario.tracks), len(scenario.timestamps_seconds)
    if n == 0:
        raise ValueError("the scenario has no tracks")
    for track in scenario.tracks:
        if len(track.states) != T:
            raise ValueError(f"track {track.id} has {len(track.states)} states, the scenario {T} timestamps")

    # One pass over the states into one array: attribute by attribute would take three times as long.
    rows = [
        (
            s.valid,
            s.center_x,
            s.center_y,
            s.center_z,
            s.heading,
            s.velocity_x,
            s.velocity_y,
            s.length,
            s.width,
            s.height,
        )
        for track in scenario.tracks
        for s in track.states
    ]
    table = np.array(rows, dtype=np.float64).reshape(n, T, -1)
    valid = table[..., 0] != 0
    table[~valid] = 0  # Waymo writes −1 or nothing at all into states that were not seen
    with np.errstate(over="ignore", invalid="ignore"):
        speed = np.hypot(table[..., 5], table[..., 6])
        attributes = np.concatenate([speed[..., None], table[..., 4:]], axis=-1).astype(np.float32)

    return Recording(
        name=scenario.scenario_id or default_name,
        dt=dt,
        positions=table[..., 1:4].copy(),
        valid=valid,
        track_ids=tuple(str(track.id) for track in scenario.tracks),
        types=tuple(TYPES.get(track.object_type, "unknown") for track in scenario.tracks),
        attributes=attributes,
        attribute_names=ATTRIBUTES,
        current=_current(scenario, T),
        to_predict=_marked([each.track_index for each in scenario.tracks_to_predict], n, "tracks_to_predict"),
        own=_marked([scenario.sdc_track_index] if scenario.HasField("sdc_track_index") else [], n, "sdc_track_index"),
    )


def _seconds_per_step(timestamps: np.ndarray) -> float:
    steps = np.diff(timestamps)
    if len(steps) == 0 or not np.all(steps > 0) or not np.isfinite(steps).all():
        raise ValueError(f"the scenario's {len(timestamps)} timestamps do not increase")
    return float(np.median(steps))


def _current(scenario: Any, T: int) -> int | None:
    if not scenario.HasField("current_time_index"):
        return None
    if not 0 <= scenario.current_time_index < T:
        raise ValueError(f"current_time_index is {scenario.current_time_index}, there are {T} steps")
    return scenario.current_time_index


def _marked(indices: list[int], n: int, what: str) -> np.ndarray:
    marks = np.zeros(n, bool)
    for index in indices:
        if not 0 <= index < n:
            raise ValueError(f"{what} names track {index}, there are {n}")
        marks[index] = True
    return marks


@cache
def _scenario_class() -> Any:
    """The message class, in a pool of its own: Waymo's package may be installed and registers the same names."""
    descriptors = require_library("google.protobuf.descriptor_pb2", "reading Waymo scenarios")
    pools = require_library("google.protobuf.descriptor_pool", "reading Waymo scenarios")
    factory = require_library("google.protobuf.message_factory", "reading Waymo scenarios")
    file = descriptors.FileDescriptorProto(name="vnt/scenario.proto", package="vnt.waymo", syntax="proto2")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            field = described.field.add(name=name, number=number)
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if kind in _MESSAGES:
                field.type, field.type_name = field.TYPE_MESSAGE, f".vnt.waymo.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind}")
    pool = pools.DescriptorPool()
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName("vnt.waymo.Scenario"))
