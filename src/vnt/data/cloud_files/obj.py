"""Wavefront OBJ: ``v``, ``vn`` and ``f`` lines; materials and textures are not looked at, nor the files they name.

By hand, because indices may count backwards from the line that they stand on, which needs the lines in their order.
"""

import io
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnt.data.cloud import Cloud
from vnt.data.cloud_files.columns import COLOURS
from vnt.data.cloud_files.surfaces import Mesh, triangulate


def read_obj(path: Path) -> Cloud | Mesh:
    """A mesh where there are faces; otherwise the vertices, with normals if there is one for each."""
    text = path.read_text(encoding="utf-8-sig", errors="replace").replace("\\\n", " ")
    vertices: list[list[str]] = []
    normals: list[list[str]] = []
    faces: list[list[int]] = []
    for line in io.StringIO(text):
        match line.partition("#")[0].split():
            case ["v", *numbers]:
                vertices.append(numbers)
            case ["vn", *numbers]:
                normals.append(numbers)
            case ["f", *corners]:
                faces.append([_index(corner, len(vertices)) for corner in corners])
    rows = _rows(vertices, "v")
    if rows.shape[1] not in (3, 4, 6, 7):
        raise ValueError(f"'v' lines of {rows.shape[1]} numbers, expected x y z, x y z w, or x y z and a colour")
    points = rows[:, :3]
    # A fourth number alone is the weight of a rational curve, which clouds do not have.
    attributes = {} if rows.shape[1] == 4 else dict(zip(COLOURS, rows[:, 3:].T, strict=False))
    if faces:
        sizes = np.array([len(face) for face in faces])
        return Mesh(points, triangulate(np.array(list(chain.from_iterable(faces))), sizes), attributes)
    return Cloud(points, _rows(normals, "vn") if len(normals) == len(points) else None, attributes)


def _index(corner: str, num_vertices: int) -> int:
    """The vertex of "7", "7/1", "7//3" or "-1", counted from 0."""
    index = int(corner.partition("/")[0])
    if index == 0 or index < -num_vertices or abs(index) > 2**53:
        raise ValueError(f"a face names vertex {index} after {num_vertices}; they count from 1 on, or from -1 back")
    return index - 1 if index > 0 else num_vertices + index


def _rows(lines: list[list[str]], key: str) -> NDArray[np.float64]:
    if not lines:
        raise ValueError(f"no {key!r} lines")
    width = len(lines[0])
    if any(len(line) != width for line in lines):
        raise ValueError(f"{key!r} lines of different lengths")
    return np.array([float(number) for line in lines for number in line]).reshape(len(lines), width)
