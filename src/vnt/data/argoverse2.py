"""Argoverse 2 motion forecasting: one parquet file per scenario, 11 s at 10 Hz."""

from pathlib import Path
from typing import Any

import numpy as np

from vnt.data.recording import Recording
from vnt.files import blame, require_file, require_library, require_sane_size

DT = 0.1
ATTRIBUTES = ("speed", "heading", "velocity_x", "velocity_y")
SCORED = 2
"""object_category: 0 is a fragment, 1 seen throughout but not scored, 2 scored, 3 the focal track."""

_WORDS = ("track_id", "object_type", "scenario_id", "focal_track_id")
_WHOLE = ("object_category", "timestep", "num_timestamps")
_REAL = ("position_x", "position_y", "heading", "velocity_x", "velocity_y")
_COLUMNS = (*_WORDS, *_WHOLE, *_REAL, "observed")
_CELL = 8 * 3 + 1 + 4 * len(ATTRIBUTES)

LONGEST_WORD = 200
"""Characters of an id or a type. The published files have at most 36."""


def read_scenario(path: Path | str) -> Recording:
    """The tracks of one ``scenario_*.parquet``.

    The set has no heights: z is 0. ``current`` is the last step marked as observed (49 in the published files),
    ``own`` the track called "AV". ``to_predict`` holds the focal track and the tracks whose category is "scored".
    Types stay Argoverse's words: vehicle, pedestrian, cyclist, motorcyclist, bus, static, background, ...
    """
    path = require_file(path)
    # What overflows becomes infinite, and the recording refuses it.
    with blame(path), np.errstate(over="ignore", invalid="ignore"):
        columns = _read_columns(path)
        names, first, track = np.unique(columns["track_id"], return_index=True, return_inverse=True)
        step, n = columns["timestep"], len(names)
        T = _the_one(columns, "num_timestamps")
        # Steps that no row has may be announced (the test split does so), but not without bound.
        if not 1 <= T <= max(1000, 10 * len(step)):
            raise ValueError(f"num_timestamps is {T}, for {len(step)} rows")
        if step.min() < 0 or step.max() >= T:
            raise ValueError(f"timesteps run from {step.min()} to {step.max()}, num_timestamps is {T}")
        require_sane_size(path, n * T * _CELL, f"{n} tracks of {T} steps")

        valid = np.zeros((n, T), bool)
        valid[track, step] = True
        if valid.sum() != len(step):
            raise ValueError(f"{len(step) - valid.sum()} rows repeat a track and a timestep")
        positions = np.zeros((n, T, 3))
        positions[track, step, 0] = columns["position_x"]
        positions[track, step, 1] = columns["position_y"]
        attributes = np.zeros((n, T, len(ATTRIBUTES)), np.float32)
        columns["speed"] = np.hypot(columns["velocity_x"], columns["velocity_y"])
        for i, name in enumerate(ATTRIBUTES):
            attributes[track, step, i] = columns[name]

        observed = step[columns["observed"]]
        scored = columns["object_category"][first] >= SCORED
        return Recording(
            name=_the_one(columns, "scenario_id"),
            dt=DT,
            positions=positions,
            valid=valid,
            track_ids=tuple(names.tolist()),
            types=tuple(columns["object_type"][first].tolist()),
            attributes=attributes,
            attribute_names=ATTRIBUTES,
            current=int(observed.max()) if len(observed) else None,
            to_predict=scored | (names == _the_one(columns, "focal_track_id")),
            own=names == "AV",
        )


def _the_one(columns: dict[str, np.ndarray], name: str) -> Any:
    values = columns[name]
    if (values != values[0]).any():
        raise ValueError(f"column {name!r} must be the same in every row")
    return values[:1].tolist()[0]


def _read_columns(path: Path) -> dict[str, np.ndarray]:
    """The columns we need as numpy arrays of the kinds we expect."""
    parquet = require_library("pyarrow.parquet", "reading Argoverse 2")
    # No threads and no memory map: what goes wrong in a damaged file then goes wrong here, as an exception. Words stay
    # in their dictionary: written out for each row, one long word of a small file could fill the memory.
    options = {"memory_map": False, "page_checksum_verification": True, "read_dictionary": list(_WORDS)}
    with parquet.ParquetFile(path, **options) as file:
        missing = sorted(set(_COLUMNS) - set(file.schema_arrow.names))
        if missing:
            raise ValueError(f"not an Argoverse 2 scenario: no column {', '.join(missing)}")
        rows = file.metadata.num_rows
        if rows == 0:
            raise ValueError("the table has no rows")
        require_sane_size(path, rows * 8 * len(_COLUMNS), f"{rows} rows")
        # Not column by column, which would be nearer: of a damaged one pyarrow would end the process.
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        require_sane_size(path, sum(group.total_byte_size for group in groups), "the columns")
        table = file.read(columns=list(_COLUMNS), use_threads=False)
    columns = {}
    for name in _COLUMNS:
        column = table.column(name)
        if column.null_count:
            raise ValueError(f"column {name!r} has {column.null_count} empty cells")
        columns[name] = _words(name, column) if name in _WORDS else _of_kind(name, column.to_numpy())
    return columns


def _words(name: str, column: Any) -> np.ndarray:
    """A column of words as (rows,) Python strings, each word once in memory however often it occurs."""
    arrow = require_library("pyarrow", "reading Argoverse 2")
    compute = require_library("pyarrow.compute", "reading Argoverse 2")
    kind = column.type
    if not arrow.types.is_dictionary(kind) or not (
        arrow.types.is_string(kind.value_type) or arrow.types.is_large_string(kind.value_type)
    ):
        raise ValueError(f"column {name!r} has the type {kind}, expected words")
    rows = column.unify_dictionaries().combine_chunks()
    # Before they become Python's: a damaged file may have one word of a gigabyte.
    longest = compute.max(compute.binary_length(rows.dictionary)).as_py() or 0
    if longest > 4 * LONGEST_WORD:
        raise ValueError(f"column {name!r} has a word of {longest:,} bytes, expected at most {LONGEST_WORD} characters")
    words = rows.dictionary.to_pylist()
    if wrong := [word for word in words if len(word) > LONGEST_WORD]:
        raise ValueError(f"column {name!r} has the word {wrong[0][:40]!r}, longer than {LONGEST_WORD} characters")
    return np.array(words, dtype=object)[rows.indices.to_numpy()]


def _of_kind(name: str, values: np.ndarray) -> np.ndarray:
    kinds = "iu" if name in _WHOLE else "fiu" if name in _REAL else "b"
    if values.dtype.kind not in kinds:
        raise ValueError(f"column {name!r} has the type {values.dtype}")
    return values.astype(np.int64) if name in _WHOLE else values
