"""OFF, ModelNet's format: counts, one vertex per line, one face per line.

COFF has a colour after each vertex, NOFF a normal. Programs do not agree on the order of both together (CNOFF), so
then, as in every other case, what follows on the coordinates is left out.
"""

import re
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnt.data.cloud import Cloud
from vnt.data.cloud_files.columns import COLOURS
from vnt.data.cloud_files.surfaces import Mesh, triangulate


def read_off(path: Path) -> Cloud | Mesh:
    """A mesh, or a cloud where there are no faces. In some files of ModelNet the counts are glued on the "OFF"."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = [line for line in (line.partition("#")[0].strip() for line in file) if line]
    start = re.match(r"((?:ST|C|N)*)OFF\s*(.*)", lines[0] if lines else "")
    if start is None:
        raise ValueError("not an OFF file: it must start with 'OFF'")
    lines = [start[2], *lines[1:]] if start[2] else lines[1:]
    counts = re.match(r"(\d{1,18})\s+(\d{1,18})(\s|$)", lines[0] if lines else "")
    if counts is None:
        raise ValueError("'OFF' must be followed by the numbers of vertices and faces")
    num_vertices, num_faces = int(counts[1]), int(counts[2])
    if len(lines) < 1 + num_vertices + num_faces:
        raise ValueError(f"{num_vertices} vertices and {num_faces} faces promised, {len(lines) - 1} lines found")
    vertices = np.array([_coordinates(line) for line in lines[1 : 1 + num_vertices]]).reshape(-1, 3)
    rest = _rest(lines[1 : 1 + num_vertices]) if start[1] in ("C", "N") else np.zeros((num_vertices, 0))
    has_colours = start[1] == "C" and rest.shape[1] in (3, 4)
    attributes = dict(zip(COLOURS, rest.T, strict=False)) if has_colours else {}
    if num_faces == 0:
        return Cloud(vertices, rest if start[1] == "N" and rest.shape[1] == 3 else None, attributes)
    faces = [_corners(line) for line in lines[1 + num_vertices : 1 + num_vertices + num_faces]]
    sizes = np.array([len(face) for face in faces])
    return Mesh(vertices, triangulate(np.array(list(chain.from_iterable(faces))), sizes), attributes)


def _coordinates(line: str) -> list[float]:
    words = line.split(maxsplit=3)
    if len(words) < 3:
        raise ValueError(f"a vertex needs three numbers, got {line[:80]!r}")
    return [float(word) for word in words[:3]]


def _rest(lines: list[str]) -> NDArray[np.float64]:
    """What follows on the coordinates of each vertex; no columns where the lines differ in length."""
    rows = [line.split()[3:] for line in lines]
    width = len(rows[0]) if rows and all(len(row) == len(rows[0]) for row in rows) else 0
    return np.array([[float(word) for word in row[:width]] for row in rows]).reshape(len(rows), width)


def _corners(line: str) -> list[int]:
    size, *words = line.split()
    if not size.isdecimal() or int(size) > len(words):
        raise ValueError(f"a face needs its number of corners and then as many, got {line[:80]!r}")
    corners = [int(word) for word in words[: int(size)]]
    if any(abs(corner) > 2**53 for corner in corners):
        raise ValueError(f"a face names vertex {max(corners)}")
    return corners
