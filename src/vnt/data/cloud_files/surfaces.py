"""Meshes, and points drawn uniformly from their surfaces."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vnt.data.cloud import Cloud
from vnt.data.triangles import draw_places

NUM_MESH_POINTS = 1024  # what the paper and most work on ModelNet40 take


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices (V, 3), triangles (F, 3) of indices into them, and named numbers (V,) for each vertex."""

    vertices: NDArray[np.float64]
    triangles: NDArray[np.int64]
    attributes: Mapping[str, NDArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cloud = Cloud(self.vertices, attributes=self.attributes)  # the vertices must be a cloud of their own
        object.__setattr__(self, "attributes", cloud.attributes)
        outside = (self.triangles < 0) | (self.triangles >= len(self.vertices))
        if outside.any():
            wrong = int(self.triangles[outside][0])
            raise ValueError(f"a face names vertex {wrong} (counted from 0), there are {len(self.vertices)}")


def triangulate(corners: NDArray, sizes: NDArray) -> NDArray[np.int64]:
    """Polygons as fans of triangles: ``sizes`` says how many of the ``corners`` belong to each polygon in turn.

    Polygons of fewer than three corners have no area and give no triangle.

    >>> triangulate(np.array([0, 1, 2, 3, 5, 6, 7]), np.array([4, 3]))
    array([[0, 1, 2],
           [0, 2, 3],
           [5, 6, 7]])
    """
    corners, sizes = _whole(corners, "vertex of a face"), _whole(sizes, "size of a face")
    starts = np.cumsum(sizes) - sizes
    fans = [np.zeros((0, 3), np.int64)]
    for size in np.unique(sizes[sizes >= 3])[::-1]:
        polygons = corners[starts[sizes == size][:, None] + np.arange(size)]
        first = np.broadcast_to(polygons[:, :1], (len(polygons), size - 2))
        fans.append(np.stack([first, polygons[:, 1:-1], polygons[:, 2:]], -1).reshape(-1, 3))
    return np.concatenate(fans)


def _whole(numbers: NDArray, what: str) -> NDArray[np.int64]:
    """Indices as integers; text files and odd writers hand them over as floats."""
    # Beyond 2^62 the conversion itself is undefined.
    wrong = ~(np.abs(numbers) < 2.0**62) | (numbers != np.floor(numbers))
    if wrong.any():
        raise ValueError(f"{numbers[wrong][0]} is no {what}")
    return numbers.astype(np.int64)


def sample(mesh: Mesh, num_points: int, rng: np.random.Generator) -> Cloud:
    """Points drawn uniformly by area, with face normals and interpolated attributes."""
    corners = mesh.vertices[mesh.triangles]
    edges = corners[:, 1:] - corners[:, :1]
    # In units of the longest edge: neither microns nor light years may under- or overflow when multiplied.
    unit = np.abs(edges).max(initial=0)
    if not np.isfinite(unit):
        raise ValueError("the vertices are too far apart for float64")
    cross = np.cross(edges[:, 0] / (unit or 1), edges[:, 1] / (unit or 1))
    doubled_area = np.linalg.norm(cross, axis=1)
    if not doubled_area.any():
        raise ValueError(f"{len(corners)} triangles with a total area of zero: there is no surface to draw points from")
    chosen, u, v = draw_places(doubled_area, num_points, rng)
    weights = np.stack([1 - u - v, u, v], 1)
    used = mesh.triangles[chosen]
    return Cloud(
        corners[chosen, 0] + (weights[:, 1:, None] * edges[chosen]).sum(1),
        cross[chosen] / doubled_area[chosen, None],
        {name: (weights * values.astype(np.float64)[used]).sum(1) for name, values in mesh.attributes.items()},
    )
