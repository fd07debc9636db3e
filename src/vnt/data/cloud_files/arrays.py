"""Clouds in NumPy's own formats, NPY and NPZ."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnt.data import archives
from vnt.data.cloud import Cloud
from vnt.data.cloud_files.columns import cloud_from_columns, cloud_from_table, require_real

POINTS = ("points", "xyz", "pos", "arr_0")
NORMALS = ("normals", "normal")


def read_npy(path: Path) -> Cloud:
    """(N, 3), (N, 6) with unit normals, (N, k) with attributes, or (N,) with named fields."""
    return _cloud(archives.read_npy(path))


def read_npz(path: Path) -> Cloud:
    """Points under "points", "xyz", "pos" or "arr_0", perhaps "normals"; other (N,) arrays are attributes.

    Arrays of any other shape (a label of the whole cloud) are left out.
    """
    arrays = archives.read_npz(path)
    key = next((name for name in POINTS if name in arrays), None)
    if key is None:
        raise ValueError(f"no array {', '.join(POINTS)} among {', '.join(arrays) or 'none'}")
    cloud = _cloud(arrays.pop(key))
    normals, attributes = cloud.normals, dict(cloud.attributes)
    for name, values in arrays.items():
        if name in NORMALS and values.shape == (len(cloud), 3):
            require_real(values.dtype, name)
            normals = values.astype(np.float64)
        elif values.shape == (len(cloud),):
            require_real(values.dtype, name)
            attributes[name] = values
    return Cloud(cloud.points, normals, attributes)


def _cloud(values: NDArray) -> Cloud:
    if values.dtype.names is None:
        return cloud_from_table(values)
    columns = {}
    for name in values.dtype.names:
        column = values[name]
        require_real(column.dtype, f"field {name!r}")
        if column.ndim == 1:
            columns[name] = column
        elif values.ndim == 1 and column.ndim == 2:
            columns |= {f"{name}_{i}": part for i, part in enumerate(column.T)}
        else:
            raise ValueError(f"field {name!r} has shape {column.shape}, expected one number or a row of them per point")
    return cloud_from_columns(columns)
