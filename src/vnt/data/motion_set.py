"""Windows cut from recordings: what was seen, what came next, and where each comes from."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vnt.data.motion_files import pack_words, read_arrays, read_ready, unpack_words, write_arrays
from vnt.data.recording import Recording
from vnt.files import blame, require_file

MOVING_METRES = 2.0
"""A track moves if it is ever further than this from where its window began. Boxes of parked cars tremble by less."""

_NUMBERS = {"past": np.float32, "future": np.float32, "attributes": np.float32, "origin": np.float64}
_WORDS = ("scenario", "track", "types")
_MARKS = ("moving", "to_predict", "own", "is_test")
_ROWS = (*_NUMBERS, *_WORDS, *_MARKS)


@dataclass(frozen=True, eq=False, kw_only=True)
class MotionSet:
    """M windows of one length and one rate.

    Attributes:
        name: of the set.
        dt: seconds between steps.
        past, future: (M, Tp, 3) and (M, Tf, 3), float32, metres relative to ``origin``.
        attributes: (M, Tp, d), float32, of the past, with ``attribute_names``.
        origin: (M, 3), float64, the position at the last observed step. Zero where a file does not tell.
        scenario, track, types: (M,), the recording and the track that a window is from, and the kind of track.
        moving: (M,), see `MOVING_METRES`. It looks at the future, so it may choose windows but never be an input.
        to_predict, own: (M,), as in `Recording`.
        is_test: (M,), the set's own split. No scenario is on both sides.
    """

    name: str
    dt: float
    past: NDArray[np.float32]
    future: NDArray[np.float32]
    attributes: NDArray[np.float32]
    attribute_names: tuple[str, ...]
    origin: NDArray[np.float64]
    scenario: NDArray[np.str_]
    track: NDArray[np.str_]
    types: NDArray[np.str_]
    moving: NDArray[np.bool_]
    to_predict: NDArray[np.bool_]
    own: NDArray[np.bool_]
    is_test: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.past.ndim != 3 or self.future.ndim != 3:
            raise ValueError(f"past and future must be (M, T, 3), got {self.past.shape} and {self.future.shape}")
        M, Tp = self.past.shape[:2]
        shapes = {
            "past": (M, Tp, 3),
            "future": (M, self.future.shape[1], 3),
            "attributes": (M, Tp, len(self.attribute_names)),
            "origin": (M, 3),
        }
        for name in _ROWS:
            values = getattr(self, name)
            if values.shape != shapes.get(name, (M,)):
                raise ValueError(f"{name} must be {shapes.get(name, (M,))}, got {values.shape}")
            dtype = np.dtype(_NUMBERS.get(name, np.bool_ if name in _MARKS else values.dtype))
            if values.dtype != dtype or (name in _WORDS and dtype.kind != "U"):
                raise ValueError(f"{name} has the type {values.dtype}")
            if name in _NUMBERS and not np.isfinite(values).all():
                raise ValueError(f"{name} has numbers that are not finite")
        if not (np.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"dt must be positive, got {self.dt}")

    def __len__(self) -> int:
        return len(self.past)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "MotionSet":
        """The windows at these places, or those that a mask marks."""
        return replace(self, **{name: getattr(self, name)[index] for name in _ROWS})

    def split(self, fraction_val: float, seed: int = 0) -> tuple["MotionSet", "MotionSet"]:
        """The windows of most scenarios, and those of a ``fraction_val`` of the scenarios, at least one.

        Scenarios are drawn by hash: the same ones whatever the order of the windows.
        """
        if not 0 <= fraction_val < 1:
            raise ValueError(f"fraction_val must be in [0, 1), got {fraction_val}")
        scenarios = sorted(set(self.scenario.tolist()), key=lambda scenario: _hash(f"{seed} {scenario}"))
        count = max(1, round(fraction_val * len(scenarios))) if fraction_val > 0 else 0
        if count and count == len(scenarios):
            raise ValueError(
                f"{count} scenarios are too few to hold out {fraction_val:.0%} of them: record more, or cut a long "
                "recording into several files by time before vnt data convert"
            )
        held_out = np.isin(self.scenario, scenarios[:count])
        return self.take(~held_out), self.take(held_out)


def cut_windows(
    recording: Recording, *, past: int = 11, future: int = 80, stride: int = 10, at_current: bool = True
) -> MotionSet:
    """Windows of ``past`` + ``future`` steps in which a track is valid throughout, one each ``stride`` steps.

    Strides count from where a track is first seen, and again from where it is seen after a gap: whatever is seen long
    enough for one window gives one.

    Where the recording says which step is now (Waymo, Argoverse) there is one window to a track, with that step last
    in the past, unless ``at_current`` is False.
    """
    for name, value in (("past", past), ("future", future), ("stride", stride)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    length = past + future
    if at_current and recording.current is not None:
        start = recording.current - past + 1
        is_inside = 0 <= start <= recording.num_steps - length
        seen = np.flatnonzero(recording.valid[:, start : start + length].all(1)) if is_inside else []
        found = [(start, i) for i in seen]
    else:
        found = sorted((start, i) for i, seen in enumerate(recording.valid) for start in _starts(seen, length, stride))
    start, i = np.array(found, dtype=np.intp).reshape(-1, 2).T
    steps = start[:, None] + np.arange(length)
    positions = recording.positions[i[:, None], steps]
    origin = positions[:, past - 1]
    moving = np.linalg.norm(positions - positions[:, :1], axis=-1).max(axis=1) > MOVING_METRES
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and the set refuses it
        relative = (positions - origin[:, None]).astype(np.float32)
    return MotionSet(
        name=recording.name,
        dt=recording.dt,
        past=relative[:, :past],
        future=relative[:, past:],
        attributes=recording.attributes[i[:, None], steps[:, :past]],
        attribute_names=recording.attribute_names,
        origin=origin,
        scenario=np.full(len(i), recording.name),
        track=np.array(recording.track_ids, dtype=np.str_)[i],
        types=np.array(recording.types, dtype=np.str_)[i],
        moving=moving,
        to_predict=recording.to_predict[i],
        own=recording.own[i],
        is_test=np.zeros(len(i), bool),
    )


def _starts(seen: NDArray[np.bool_], length: int, stride: int) -> list[int]:
    """Where windows of a track begin: every ``stride`` steps from the start of each run of steps that are seen."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], seen, [False]]).astype(np.int8)))
    return [start for first, end in turns.reshape(-1, 2) for start in range(first, end - length + 1, stride)]


def select(
    windows: MotionSet,
    *,
    types: Collection[str] | None = None,
    moving: bool | None = None,
    to_predict: bool | None = None,
    own: bool | None = None,
) -> MotionSet:
    """The windows whose type is among ``types``, whatever its case, and whose marks are as asked; None asks nothing."""
    keep = np.ones(len(windows), bool)
    if types is not None:
        wanted_types = [word.lower() for word in ([types] if isinstance(types, str) else types)]
        keep &= np.isin(np.char.lower(windows.types), wanted_types)
    for name, wanted in (("moving", moving), ("to_predict", to_predict), ("own", own)):
        if wanted is not None:
            keep &= getattr(windows, name) == wanted
    return windows.take(keep)


def split_of(scenario: str, test_fraction: float) -> Literal["train", "test"]:
    """Which side a scenario is on: by a hash of its id, so it never depends on order, machine or other files.

    >>> split_of("637f20cafde22ff8", 0.0), split_of("637f20cafde22ff8", 1.0)
    ('train', 'test')
    """
    if not 0 <= test_fraction <= 1:
        raise ValueError(f"test_fraction must be in [0, 1], got {test_fraction}")
    return "test" if _hash(scenario) < test_fraction * 2**64 else "train"


def join(parts: Sequence[MotionSet], *, name: str) -> MotionSet:
    """Sets of the same lengths, rate and attributes as one."""
    _require_alike(parts)
    rows: dict[str, Any] = {key: np.concatenate([getattr(part, key) for part in parts]) for key in _ROWS}
    return replace(parts[0], name=name, dt=float(np.median([part.dt for part in parts])), **rows)


def save(windows: MotionSet, path: Path | str) -> None:
    """Write a set to one safetensors file, whole or not at all."""
    save_parts([windows], path, name=windows.name)


def save_parts(parts: Sequence[MotionSet], path: Path | str, *, name: str) -> None:
    """Write sets of the same lengths, rate and attributes as one, without joining them in memory first."""
    _require_alike(parts)
    arrays = {key: [getattr(part, key) for part in parts] for key in (*_NUMBERS, *_MARKS)}
    for key in _WORDS:
        index, names = pack_words(np.concatenate([getattr(part, key) for part in parts]))
        arrays |= {key: [index], f"{key}_names": [names]}
    dt = float(np.median([part.dt for part in parts]))
    write_arrays(path, arrays, {"name": name, "dt": dt, "attribute_names": parts[0].attribute_names})


Subset = Literal["paper", "paper_test"]


def load(path: Path | str, *, subset: Subset | None = None) -> MotionSet:
    """A set that `save` or `vnt.data.convert` wrote, or one of the ready ``.npz`` files.

    ``subset="paper"`` takes from ``womd_vehicles.npz`` the moving vehicles, and the split, of the paper's size;
    "paper_test" its test vehicles, and all that are in no test scenario to train on.
    """
    path = require_file(path)
    with blame(path):
        with open(path, "rb") as file:
            is_archive = file.read(2) == b"PK"
        if is_archive:
            return MotionSet(**read_ready(path, subset))
        if subset is not None:
            raise ValueError(f"a motion set has no subset {subset!r}")
        arrays, about = read_arrays(path)
        fields = {key: arrays[key] for key in (*_NUMBERS, *_MARKS)}
        fields |= {key: unpack_words(arrays[key], arrays[f"{key}_names"]) for key in _WORDS}
        names = tuple(str(name) for name in about["attribute_names"])
        return MotionSet(name=str(about["name"]), dt=float(about["dt"]), attribute_names=names, **fields)


def _require_alike(parts: Sequence[MotionSet]) -> None:
    first = parts[0]
    for part in parts:
        if abs(part.dt - first.dt) > 0.01 * first.dt:  # Waymo's clock ticks every 99.99 or 100.01 ms
            steps = f"{part.name!r} has a step of {part.dt:.6g} s, {first.name!r} of {first.dt:.6g} s"
            raise ValueError(f"{steps}; tables of tracks are brought to one by a rate, --rate {1 / first.dt:.3g} say")
        if part.attribute_names != first.attribute_names:
            raise ValueError(
                f"{part.name!r} has the attributes {part.attribute_names}, {first.name!r} {first.attribute_names}"
            )
        if (part.past.shape[1], part.future.shape[1]) != (first.past.shape[1], first.future.shape[1]):
            raise ValueError(f"the windows of {part.name!r} and {first.name!r} differ in length")


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
