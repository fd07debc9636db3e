"""From columns of numbers to a cloud: which are coordinates, which are normals, and what the others are called."""

import warnings
from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vnt.data.cloud import Cloud

NORMALS = (("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z"))
COLOURS = ("red", "green", "blue", "alpha")
UNIT_LENGTH = 1e-2


def cloud_from_columns(columns: Mapping[str, NDArray]) -> Cloud:
    """Columns by name: x, y, z; nx, ny, nz or normal_x, normal_y, normal_z; and the rest as attributes."""
    lower = {name.lower(): name for name in columns}
    missing = [name for name in "xyz" if name not in lower]
    if missing:
        raise ValueError(f"no column {', '.join(missing)} among {', '.join(columns) or 'none'}")
    points = _stack(columns, [lower[name] for name in "xyz"])
    used = {lower[name] for name in "xyz"}
    normals = None
    for names in NORMALS:
        if normals is None and all(name in lower for name in names):
            normals = _stack(columns, [lower[name] for name in names])
            used.update(lower[name] for name in names)
    return Cloud(points, normals, {name: values for name, values in columns.items() if name not in used})


FEW_COLUMNS, MANY_COLUMNS = 16, 256
"""Columns without names up to which three rows are three points, and up to which rows are points at all."""


def cloud_from_table(values: NDArray) -> Cloud:
    """Columns without names: x, y, z, then unit normals (or zeros, for none) if there are three more; else numbers.

    >>> cloud_from_table(np.array([[1.0, 2.0, 3.0, 0.5]])).attributes
    {'column_3': array([0.5], dtype=float32)}
    """
    if values.ndim != 2 or values.shape[1] < 3:
        raise ValueError(f"expected (N, 3) or more columns, got {values.shape}")
    require_real(values.dtype, "the array")
    rows, columns = values.shape
    if rows == 3 and columns > FEW_COLUMNS:
        raise ValueError(f"three rows of {columns} numbers: points are rows, so this looks transposed")
    if columns > MANY_COLUMNS:
        raise ValueError(f"{rows} rows of {columns} columns without names: an image is no cloud of points")
    points, rest = values[:, :3].astype(np.float64), values[:, 3:].astype(np.float64)
    if rest.shape[1] == 3:
        length = np.linalg.norm(rest, axis=1)
        none = length == 0  # of this point, where others have one
        if not none.all() and (none | (np.abs(length - 1) < UNIT_LENGTH)).all():
            return Cloud(points, rest)
    return Cloud(points, attributes={f"column_{3 + i}": column for i, column in enumerate(rest.T)})


def require_real(dtype: np.dtype, what: str) -> None:
    """Refuse what is no number: text, dates, complex numbers, objects."""
    if dtype.kind not in "biuf":
        raise ValueError(f"{what} holds {dtype}, expected real numbers")


def require_distinct(names: list[str]) -> None:
    """Refuse two columns of one name, of which one would be lost."""
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise ValueError(f"{times} columns are called {name[:80]!r}")


def parse_numbers(text: str) -> NDArray[np.float64]:
    """All numbers of a text, whatever white space is between them; anything else in it is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy before 2.3 only warns of what it cannot read
        # Of white space alone NumPy makes the number -1.
        return np.fromstring(text, sep=" ") if text and not text.isspace() else np.zeros(0)


def _stack(columns: Mapping[str, NDArray], names: list[str]) -> NDArray[np.float64]:
    return np.stack([np.asarray(columns[name], dtype=np.float64) for name in names], 1)
