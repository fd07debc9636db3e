"""Users' own tracks: a table with a line for each sighting of each track.

    track_id, t,     x,   y,    z,   speed, heading, type
    car 7,    12.30, 4.1, -2.0, 0.1, 8.3,   1.57,    vehicle

Sightings come in any order and at any time; models need all tracks at the same steps, so they are put on one clock.
"""

import csv
import math
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vnt.data.recording import Recording
from vnt.files import FREE_EXPANSION, blame, require_file, require_sane_size

ALIASES = {"track": "track_id", "id": "track_id", "time": "t", "timestamp": "t", "seconds": "t"}
OTHER_IDS = ("trackid", "vehicle_id", "agent_id")
"""What tells tracks apart where no column is called track_id, track or id. (Clouds have objects, too.)"""
SAY_TRACKS = {"track_id", "track", *OTHER_IDS}
"""Names that nothing but tracks have."""
REQUIRED = ("track_id", "t", "x", "y")
ANGLES = ("heading", "yaw")
MOST_RADIANS = 20 * math.pi
"""An angle that counts whole turns may grow so far; more of it, and they are degrees."""
GAP_STEPS = 2.5
MOST_MADE_UP = 200
"""Steps between two sightings, as a rule: more of them, and the times are not in seconds."""
TEXTS = (".csv", ".tsv", ".txt", ".xyz", ".pts")
"""What a table of tracks may be called."""
LONGEST_HEADER = 2**16
REAL_TABLE = 100_000
LARGE = 2**31
"""A file of ``REAL_TABLE`` bytes may become ``LARGE`` bytes: tracks that come and go for hours fill little of it."""
ON_THE_CLOCK = 1e-4
"""A sighting this close to a step, in steps, is at that step: times in text are rounded."""


@dataclass(frozen=True, eq=False)
class _Table:
    """Sightings by track and time, those of track i at bounds[i]:bounds[i + 1]; values are x, y, z, attributes."""

    t: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    track_ids: tuple[str, ...]
    types: tuple[str, ...]
    attribute_names: tuple[str, ...]


def read_tracks(path: Path | str, *, rate: float | None = None, max_gap: float | None = None) -> Recording:
    """Tracks of a table (comma, semicolon, tab or blanks; the first line names the columns), resampled to one clock.

    Columns in any order: ``track_id`` (or track, id, vehicle_id, agent_id), ``t`` in seconds (or time,
    timestamp, seconds), ``x``, ``y``, perhaps ``z`` (else 0) and ``type``; every other column is a numeric attribute.
    Between sightings all numbers are interpolated linearly, but ``heading`` and ``yaw`` (radians) along the shorter
    arc, into [−π, π).

    Args:
        path: the file.
        rate: steps per second; None takes the median step of the data.
        max_gap: seconds. A track is not valid inside a longer gap between its sightings. None allows 2.5 median steps:
            one lost sighting is filled in, also where times are not quite regular.
    """
    path = require_file(path)
    for name, value in (("rate", rate), ("max_gap", max_gap)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive, got {value}")
    # What overflows becomes infinite, and the recording refuses it.
    with blame(path), np.errstate(over="ignore", invalid="ignore"):
        table = _read_table(path)
        step = _usual_step(table)
        dt = 1 / rate if rate is not None else step
        if dt is None:
            raise ValueError("no track was seen twice, so the table has no rate of its own: pass rate")
        if step is not None and max_gap is None and step > MOST_MADE_UP * dt:
            raise ValueError(
                f"by its times, sightings are {step:g} s apart, and steps of {dt:g} s are wanted, nearly all of which "
                "would be made up: are they milliseconds? Times must be in seconds; if they are, ask for a lower rate"
            )
        gap = max_gap if max_gap is not None else GAP_STEPS * (step or dt)
        return _resample(path, table, dt, gap / dt)


def _resample(path: Path, table: _Table, dt: float, max_gap: float) -> Recording:
    """All tracks at steps of ``dt`` from the first sighting of any; ``max_gap`` in steps."""
    n, d = len(table.track_ids), len(table.attribute_names)
    start = table.t.min()
    duration = (table.t.max() - start) / dt
    # Before anything is allocated: one wrong time can stand for a million years.
    cells = n * (int(duration) + 1) if duration < 2**60 else 2**60
    free = LARGE if path.stat().st_size >= REAL_TABLE else FREE_EXPANSION
    advice = "split the file by time, or ask for a lower rate"
    require_sane_size(path, cells * (25 + 4 * d), f"{n} tracks of {duration:.3g} steps", free=free, advice=advice)
    T = math.floor(duration + ON_THE_CLOCK) + 1

    valid, positions = np.zeros((n, T), bool), np.zeros((n, T, 3))
    attributes = np.zeros((n, T, d), np.float32)
    for i in range(n):
        rows = slice(table.bounds[i], table.bounds[i + 1])
        at, values = (table.t[rows] - start) / dt, table.values[rows]
        steps = _steps_seen(at, max_gap, T)
        valid[i, steps] = True
        for axis in range(3):
            positions[i, steps, axis] = np.interp(steps, at, values[:, axis])
        for j, name in enumerate(table.attribute_names):
            attributes[i, steps, j] = _interpolate(name, steps, at, values[:, 3 + j])
    return Recording(
        name=path.stem,
        dt=dt,
        start=float(start),
        positions=positions,
        valid=valid,
        track_ids=table.track_ids,
        types=table.types,
        attributes=attributes,
        attribute_names=table.attribute_names,
    )


def _steps_seen(at: np.ndarray, max_gap: float, T: int) -> np.ndarray:
    """The steps at a sighting, or between two that are no further apart than ``max_gap``."""
    steps = np.arange(math.ceil(at[0] - ON_THE_CLOCK), min(math.floor(at[-1] + ON_THE_CLOCK), T - 1) + 1)
    after = np.searchsorted(at, steps).clip(max=len(at) - 1)
    before = (after - 1).clip(min=0)
    bridged = at[after] - at[before] <= max_gap * (1 + 1e-9)
    on_the_clock = np.minimum(np.abs(steps - at[before]), np.abs(steps - at[after])) <= ON_THE_CLOCK
    return steps[bridged | on_the_clock]


def _interpolate(name: str, steps: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    if name not in ANGLES:
        return np.interp(steps, at, values)
    angles = np.interp(steps, at, np.unwrap(values))
    return (angles + np.pi) % (2 * np.pi) - np.pi


def _usual_step(table: _Table) -> float | None:
    """The median time between sightings of a track, or None where no track was seen twice."""
    steps = np.delete(np.diff(table.t), table.bounds[1:-1] - 1)
    return float(np.median(steps)) if len(steps) else None


def is_track_table(path: Path | str) -> bool:
    """Whether the first line of a file names the columns that `read_tracks` needs; a table of points does not."""
    names, delimiter = _first_names(path)
    return _are_columns(names) and (delimiter != " " or _say_tracks(names))  # clouds with a time and an id have blanks


def names_tracks(path: Path | str) -> bool:
    """Whether a file is a table of tracks that says so; points with a time and a number could be one, and are not."""
    names, _ = _first_names(path)
    return _are_columns(names) and _say_tracks(names)


def _are_columns(names: list[str]) -> bool:
    return set(_by_own_name(names)) >= set(REQUIRED)


def _say_tracks(names: list[str]) -> bool:
    return bool(SAY_TRACKS & set(names))


def _by_own_name(names: list[str]) -> list[str]:
    """The columns' names, and what those that are aliases stand for."""
    known = [ALIASES.get(name, name) for name in names]
    if "track_id" not in known and (other := next((name for name in OTHER_IDS if name in names), None)):
        known[names.index(other)] = "track_id"
    return known


def _first_names(path: Path | str) -> tuple[list[str], str]:
    """The words of a file's first line, as names of columns, and what is between them."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        line = file.readline(LONGEST_HEADER)
    try:
        return _parse_header(line)
    except csv.Error:
        return [], ","


def _parse_header(line: str) -> tuple[list[str], str]:
    """The names in a first line, and what is between them."""
    delimiter = max(",;\t", key=line.count)
    delimiter = delimiter if delimiter in line else " "
    words = next(csv.reader([line.strip(" \r\n")], delimiter=delimiter, skipinitialspace=True), [])
    return [word.strip().lower() for word in words], delimiter


def _read_table(path: Path) -> _Table:
    with open(path, encoding="utf-8-sig", newline="") as file:
        names, delimiter = _parse_header(file.readline())
        # Spreadsheets end every line with a delimiter: a last column without a name that is empty throughout.
        ends_empty = len(names) > 1 and not names[-1]
        names = names[:-1] if ends_empty else names
        places, attribute_names = _columns(names)
        numeric = ["t", "x", "y", *(["z"] if "z" in places else []), *attribute_names]
        tracks: dict[str, int] = {}
        types: list[str] = []
        # Arrays of C numbers take a tenth of the memory of lists of Python's.
        track, numbers = array("q"), array("d")
        reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
        for row in reader:
            if delimiter == " ":
                row = [word for word in row if word]
            if not row:
                continue
            line = reader.line_num + 1
            if ends_empty and len(row) == len(names) + 1 and not row[-1].strip():
                row.pop()
            if len(row) != len(names):
                raise ValueError(f"line {line} has {len(row)} columns, the header {len(names)}")
            name = row[places["track_id"]].strip()
            if name not in tracks:
                tracks[name] = len(tracks)
                word = row[places["type"]].strip().lower() if "type" in places else ""
                types.append(word or "unknown")
            track.append(tracks[name])
            numbers.extend([_number(row[places[column]], column, line) for column in numeric])
    if not track:
        raise ValueError("the table has no lines after its header")

    table = np.array(numbers).reshape(len(track), -1)
    for place, column in enumerate(numeric):
        if column in ANGLES and (most := np.abs(table[:, place]).max()) > MOST_RADIANS:
            raise ValueError(f"column {column!r} has an angle of {most:g}: radians are wanted; are these degrees?")
    if "z" not in places:
        table = np.insert(table, 3, 0.0, axis=1)
    owner = np.array(track)
    order = np.lexsort((table[:, 0], owner))
    table, owner = table[order], owner[order]
    repeated = np.flatnonzero((np.diff(owner) == 0) & (np.diff(table[:, 0]) == 0))
    if len(repeated):
        first = repeated[0]
        raise ValueError(f"track {list(tracks)[owner[first]]!r} has two lines at time {table[first, 0]:.12g}")
    return _Table(
        t=table[:, 0],
        values=table[:, 1:],
        bounds=np.searchsorted(owner, np.arange(len(tracks) + 1)),
        track_ids=tuple(tracks),
        types=tuple(types),
        attribute_names=attribute_names,
    )


def _columns(names: list[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Where each column is, by its own name rather than an alias, and which columns are attributes."""
    places: dict[str, int] = {}
    for place, name in enumerate(_by_own_name(names)):
        if not name or name in places:
            alias = f", as {names[places[name]]!r} too" if name in places else ""
            raise ValueError(f"column {place + 1} of the header is {names[place]!r}: empty, or there twice{alias}")
        places[name] = place
    missing = [name for name in REQUIRED if name not in places]
    if missing:
        raise ValueError(f"no column {', '.join(missing)} in the header {names}")
    return places, tuple(name for name in places if name not in (*REQUIRED, "z", "type"))


def _number(text: str, column: str, line: int) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"line {line}: column {column!r} is not a finite number: {text[:40]!r}")
    return number
