"""Surfaces as triangles, and points on them.

A surface is an array (T, 3, 3): triangles, corners, coordinates. Solids join by concatenation, stretch and move by
arithmetic on the array, and a single function draws points from all of them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from vnt.data.triangles import draw_places

Triangles = NDArray[np.float64]

_CUBE_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
_CUBE_FACES = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]
_UNIT_CUBE = np.array(
    [_CUBE_CORNERS[list(face)][list(half)] for face in _CUBE_FACES for half in ((0, 1, 2), (0, 2, 3))]
)


def box(size: Sequence[float], center: Sequence[float] = (0.0, 0.0, 0.0)) -> Triangles:
    """The six faces of a box.

    >>> box((1, 2, 3)).shape
    (12, 3, 3)
    """
    return _UNIT_CUBE * np.asarray(size) + np.asarray(center)


def sheet(points: NDArray[np.float64]) -> Triangles:
    """Two triangles for each cell of a grid (U, V, 3) of points on a surface."""
    a, b, c, d = points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]
    return np.concatenate([np.stack([a, b, c], -2).reshape(-1, 3, 3), np.stack([a, c, d], -2).reshape(-1, 3, 3)])


def lathe(profile: Sequence[tuple[float, float]] | NDArray[np.float64], sides: int = 24) -> Triangles:
    """A polyline of (radius, height) turned about the z axis: cylinders, cones, discs, spheres, rings, bottles."""
    radius, height = np.asarray(profile, dtype=np.float64).T
    cos, sin = np.moveaxis(circle(sides), -1, 0)
    return sheet(np.stack([np.outer(radius, cos), np.outer(radius, sin), np.outer(height, np.ones_like(cos))], -1))


def tube(path: NDArray[np.float64], radius: float, across: Sequence[float], sides: int = 10) -> Triangles:
    """A pipe along a path (P, 3), open at its ends.

    ``across`` is a direction that the path never takes, such as the normal of the plane it lies in: the rings of the
    pipe are laid out from it.
    """
    along = np.gradient(path, axis=0)
    first = np.cross(along, np.asarray(across, dtype=np.float64))
    first /= np.linalg.norm(first, axis=-1, keepdims=True)
    second = np.cross(along, first)
    second /= np.linalg.norm(second, axis=-1, keepdims=True)
    ring = radius * circle(sides)
    return sheet(path[:, None] + ring[None, :, :1] * first[:, None] + ring[None, :, 1:] * second[:, None])


def bar(start: Sequence[float], end: Sequence[float], radius: float, sides: int = 8) -> Triangles:
    """A straight pipe between two points."""
    ends = np.array([start, end], dtype=np.float64)
    across = np.zeros(3)
    across[np.abs(ends[1] - ends[0]).argmin()] = 1.0
    return tube(ends, radius, across.tolist(), sides)


def prism(outline: NDArray[np.float64], depth: float, hole: NDArray[np.float64] | float = 0.0) -> Triangles:
    """A closed outline (P, 2) around the z axis, given a depth.

    ``hole`` is an outline of as many points, or a number: the outline of the hole as a share of the outer one. The
    lids run straight from the hole to the outline, so every point of the outline must be seen from the axis.
    """
    inner = outline * hole if isinstance(hole, float) else hole
    low, high = np.full((len(outline), 1), -depth / 2), np.full((len(outline), 1), depth / 2)
    walls = [(inner, low), (outline, low), (outline, high), (inner, high), (inner, low)]
    return sheet(np.stack([np.concatenate([edge, height], -1) for edge, height in walls]))


def circle(sides: int, turn: float = 1.0) -> NDArray[np.float64]:
    """(sides + 1, 2): points on the unit circle, from angle zero through a share ``turn`` of the full angle."""
    angle = np.linspace(0.0, 2 * np.pi * turn, sides + 1)
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def turn_about_z(triangles: Triangles, angle: float) -> Triangles:
    """The surface, turned about the z axis."""
    cos, sin = np.cos(angle), np.sin(angle)
    return triangles @ np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])


def sample_surface(triangles: Triangles, num_points: int, rng: Generator) -> NDArray[np.float64]:
    """Points drawn evenly from a surface: a triangle by its area, then a place within it."""
    origin, u, v = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    pick, s, t = draw_places(np.linalg.norm(np.cross(u, v), axis=-1), num_points, rng)
    return origin[pick] + s[:, None] * u[pick] + t[:, None] * v[pick]
