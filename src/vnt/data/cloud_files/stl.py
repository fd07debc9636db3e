"""STL, ascii and binary: triangles by their corners."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnt.data.cloud_files.surfaces import Mesh

TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
HEADER = 84  # the last four bytes are the number of triangles


def read_stl(path: Path) -> Mesh:
    """The triangles of all solids in the file. Their stored normals are not used: the corners say the same, exactly.

    Some programs begin a binary file with "solid" or leave bytes after the triangles. It is binary all the same if it
    is long enough for the number of triangles that it names: letters in that place would be a number far too large.
    """
    data = path.read_bytes()
    count = int.from_bytes(data[HEADER - 4 : HEADER], "little")
    if count and len(data) >= HEADER + count * TRIANGLE.itemsize:
        vertices = np.frombuffer(data, TRIANGLE, count, HEADER)["corners"].reshape(-1, 3).astype(np.float64)
    elif data[:100].lstrip()[:5].lower() == b"solid":
        vertices = _ascii(data.decode("utf-8", errors="replace"))
    else:
        vertices = np.zeros((0, 3))
    if len(vertices) == 0:
        raise ValueError(f"no vertices as text, and {count:,} triangles promised, not held by {len(data):,} bytes")
    return Mesh(vertices, np.arange(len(vertices)).reshape(-1, 3))


def _ascii(text: str) -> NDArray[np.float64]:
    corners: list[tuple[float, float, float]] = []
    open_solids = 0
    for line in io.StringIO(text):
        match line.lower().split():
            case ["vertex", x, y, z]:
                corners.append((float(x), float(y), float(z)))
            case ["vertex", *_]:
                raise ValueError(f"a vertex needs three numbers, got {line.strip()[:80]!r}")
            case ["endfacet", *_] if len(corners) % 3:
                raise ValueError(f"a facet that is no triangle, after {len(corners):,} vertices")
            case ["solid", *_]:
                open_solids += 1
            case ["endsolid", *_]:
                open_solids -= 1
    if open_solids or len(corners) % 3:
        raise ValueError("the file ends within a solid")
    return np.array(corners).reshape(-1, 3)
