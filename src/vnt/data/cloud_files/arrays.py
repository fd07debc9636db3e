"""Clouds in NumPy's own formats, NPY and NPZ."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnt.data import archives
from vnt.data.cloud import Cloud
from vnt.data.cloud_files.columns import cloud_from_columns, cloud_from_table, require_distinct, require_real

POINTS = ("points", "xyz", "pos", "arr_0")
NORMALS = ("normals", "normal")
COLOURS = ("colors", "colours", "rgb")


def read_npy_cloud(path: Path) -> Cloud:
    """(N, 3), (N, 6) with unit normals, (N, k) with attributes, or (N,) with named fields."""
    return _cloud(archives.read_npy(path))


def read_npz_cloud(path: Path) -> Cloud:
    """Points under "points", "xyz", "pos" or "arr_0", perhaps "normals"; what else has N rows is attributes.

    An array (N,) or (N, 1) is an attribute of its name, (N, k) is name_0, name_1, ..., and "colors", "colours" or
    "rgb" (N, 3) are red, green and blue. Arrays of any other shape (a label of the whole cloud) are left out.
    """
    arrays = archives.read_npz(path)
    key = next((name for name in POINTS if name in arrays), None)
    if key is None:
        raise ValueError(f"no array {', '.join(POINTS)} among {', '.join(arrays) or 'none'}")
    cloud = _cloud(arrays.pop(key))
    normals, columns = cloud.normals, list(cloud.attributes.items())
    for name, values in arrays.items():
        if values.shape[:1] != (len(cloud),) or values.ndim > 2:
            continue
        require_real(values.dtype, name)
        if name in NORMALS and values.shape[1:] == (3,):
            normals = values.astype(np.float64)
        else:
            columns += _named_columns(name, values)
    require_distinct([name for name, _ in columns])
    return Cloud(cloud.points, normals, dict(columns))


def write_npz_cloud(cloud: Cloud, path: Path) -> None:
    """Write a cloud for `read_npz_cloud`; an attribute whose name has a meaning there gets an underscore after it."""
    arrays = {"points": cloud.points} | ({} if cloud.normals is None else {"normals": cloud.normals})
    for name, values in cloud.attributes.items():
        while name in ("points", "normals") or name in arrays:
            name += "_"
        arrays[name] = values
    archives.write_npz(path, arrays)


def _named_columns(name: str, values: NDArray) -> list[tuple[str, NDArray]]:
    if values.ndim == 1:
        return [(name, values)]
    width = values.shape[1]
    names = [name] if width == 1 else [f"{name}_{i}" for i in range(width)]
    if name.lower() in COLOURS and width == 3:
        names = ["red", "green", "blue"]
    return list(zip(names, values.T, strict=True))


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
