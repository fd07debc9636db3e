"""`shapes`: objects of many kinds as a scanner sees them, generated from a seed.

Distances from the centre do not tell the kinds apart: within each, proportions and the number of parts vary too much.
How the parts are arranged does, and rotation leaves that alone.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from vnt.data.embedded import hardware, household
from vnt.data.embedded.items import Split, check_draw, item_generator, on_grid
from vnt.data.embedded.solids import Triangles, sample_surface

_KINDS = (
    hardware.airplane,
    household.bottle,
    household.bowl,
    hardware.bracket,
    household.chair,
    hardware.dumbbell,
    hardware.elbow,
    household.frame,
    hardware.gear,
    hardware.helix,
    household.ladder,
    household.lamp,
    household.mug,
    hardware.ring,
    hardware.rocket,
    household.shelf,
    household.stairs,
    hardware.star,
    household.table,
    household.umbrella,
    hardware.wheel,
)

SHAPE_CLASSES: tuple[str, ...] = tuple(kind.__name__ for kind in _KINDS)


def make_shapes(
    num_per_class: int, *, num_points: int = 256, seed: int = 0, split: Split = "train"
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Clouds (M, N, 3) and the index (M,) of each one's name in `SHAPE_CLASSES`; M is ``num_per_class`` of each.

    Every cloud stands upright along z, about the origin, in the pose of its class: turning it is for those who test
    what turning does. Classes take turns, so that a smaller draw is the beginning of a larger one. Coordinates are
    rounded as `on_grid` says, and come out the same on every machine.

    >>> points, labels = make_shapes(2, num_points=64)
    >>> points.shape == (2 * len(SHAPE_CLASSES), 64, 3), SHAPE_CLASSES[labels[1]]
    (True, 'bottle')
    """
    check_draw(num_per_class, seed, split, name="num_per_class")
    if num_points < 1:
        raise ValueError(f"num_points must be at least 1, got {num_points}")
    clouds = []
    for index in range(num_per_class):
        for label, kind in enumerate(_KINDS):
            rng = item_generator(seed, split, label, index)
            clouds.append(_scan(kind(rng), num_points, rng))
    return np.stack(clouds), np.tile(np.arange(len(_KINDS), dtype=np.int64), num_per_class)


def _scan(triangles: Triangles, num_points: int, rng: Generator) -> NDArray[np.float32]:
    """Points as a scanner returns them: uneven in density, with a patch missing at times, and noisy.

    The object is stretched along its axes first, so that its proportions say little.
    """
    stretch, size = np.exp(rng.uniform(-0.3, 0.3, 3)), np.exp(rng.uniform(-0.5, 0.5))
    points = sample_surface(triangles * stretch, 3 * num_points, rng)
    points -= points.mean(0)
    points /= np.sqrt(np.square(points).sum(-1).mean())
    scanner = rng.standard_normal(3)
    scanner /= np.linalg.norm(scanner)
    points = points[_in_view(points, scanner, rng)]
    # Near the scanner points are dense. Those with the smallest of exponential variates, each divided by its point's
    # weight, are a draw by these weights without repetition.
    weight = np.exp(rng.uniform(0.0, 0.8) * points @ scanner)
    points = points[np.argsort(rng.standard_exponential(len(points)) / weight)[:num_points]]
    points = points + rng.uniform(0.005, 0.02) * rng.standard_normal(points.shape)
    return on_grid(size * (points - points.mean(0)), 1.0)


def _in_view(points: NDArray[np.float64], scanner: NDArray[np.float64], rng: Generator) -> NDArray[np.bool_]:
    """Which points the scanner can see: all in one half of the clouds, three quarters of them or more in the other."""
    case, hidden = rng.random(), rng.uniform(0.05, 0.25)
    if case < 0.25:  # the far end is out of reach
        clearance = points @ scanner
    elif case < 0.5:  # something stands in front of a part
        clearance = np.linalg.norm(points - points[rng.integers(len(points))], axis=-1)
    else:
        return np.ones(len(points), dtype=bool)
    return clearance >= np.quantile(clearance, hidden)
