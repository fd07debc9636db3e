"""Machines and their parts: each function draws one object of its kind, as triangles, in the pose of its kind.

What varies within a kind, and what must not be alike between kinds, is as in `household`.
"""

import numpy as np
from numpy.random import Generator

from vnt.data.embedded.solids import Triangles, bar, box, circle, lathe, prism, sheet, tube, turn_about_z


def airplane(rng: Generator) -> Triangles:
    """A body along x, wings and a tail plane across it, a fin on top."""
    length, radius, span = rng.uniform(1.4, 2.4), rng.uniform(0.1, 0.2), rng.uniform(0.7, 1.6)
    wing, tail, fin = rng.uniform(0.2, 0.5), rng.uniform(0.25, 0.5) * span, rng.uniform(0.25, 0.55)
    middle, sweep, end = rng.uniform(-0.1, 0.3), rng.uniform(0.0, 0.5), -length / 2 + 0.15
    body = lathe([(0.0, -length / 2), (radius, -length / 4), (radius, length / 4), (0.0, length / 2)], 12)
    parts = [body[..., [2, 1, 0]], _plate((end, 0, 0), (end - 0.1, 0, fin), wing * 0.8, wing * 0.5)]
    for side in (-1, 1):
        parts.append(_plate((middle, 0, 0), (middle - sweep, side * span, 0), wing, wing * 0.6))
        parts.append(_plate((end, 0, 0), (end - 0.05, side * tail, 0), wing * 0.6, wing * 0.4))
    return np.concatenate(parts)


def bracket(rng: Generator) -> Triangles:
    """Two plates that meet at a right angle along an edge."""
    width, thick = rng.uniform(0.4, 1.4), rng.uniform(0.05, 0.2)
    foot, height = rng.uniform(0.6, 1.4), rng.uniform(0.6, 1.4)
    flat = box((foot, width, thick), (foot / 2, 0, thick / 2))
    return np.concatenate([flat, box((thick, width, height), (thick / 2, 0, height / 2))])


def dumbbell(rng: Generator) -> Triangles:
    """Two weights, balls or discs, not always alike, on the ends of a bar along x."""
    length, thin = rng.uniform(0.8, 2.2), rng.uniform(0.05, 0.13)
    parts = [lathe([(thin, -length / 2), (thin, length / 2)])]
    for end in (-length / 2, length / 2):
        size, flatness = rng.uniform(0.25, 0.5), rng.uniform(0.4, 1.2)
        if rng.random() < 0.5:
            across, along = circle(10, 0.5).T[::-1]
        else:
            across, along = np.array([[0.0, 1.0, 1.0, 0.0], [-0.8, -0.8, 0.8, 0.8]])
        parts.append(lathe(np.stack([size * across, size * flatness * along + end], -1)))
    return np.concatenate(parts)[..., [2, 1, 0]]


def elbow(rng: Generator) -> Triangles:
    """A wide pipe that turns a corner."""
    turn, radius, bend = rng.uniform(0.17, 0.36), rng.uniform(0.15, 0.4), rng.uniform(0.5, 0.9)
    before, after = rng.uniform(0.1, 1.0, 2)
    arc = bend * circle(10, turn)
    onward = np.array([-np.sin(2 * np.pi * turn), np.cos(2 * np.pi * turn)])
    path = np.concatenate([arc[:1] - (0.0, before), arc, arc[-1:] + after * onward])
    return tube(np.insert(path, 1, 0.0, axis=-1), radius, (0.0, 1.0, 0.0), 16)


def gear(rng: Generator) -> Triangles:
    """A disc with six to fourteen teeth and a hole for the shaft."""
    teeth, depth = int(rng.integers(6, 15)), rng.uniform(0.1, 0.7)
    hole, valley = rng.uniform(0.15, 0.45), rng.uniform(0.68, 0.82)
    radius = np.append(np.tile([1.0, 1.0, valley, valley], teeth), 1.0)
    around = circle(4 * teeth)
    return prism(radius[:, None] * around, depth, hole * around)


def helix(rng: Generator) -> Triangles:
    """A spring of two to five turns, wound either way, its turns perhaps narrower at the top."""
    turns, height, radius = rng.uniform(2.0, 5.0), rng.uniform(0.8, 2.4), rng.uniform(0.35, 0.8)
    wire, top, hand = rng.uniform(0.03, 0.08), rng.uniform(0.6, 1.0), 1 if rng.random() < 0.5 else -1
    pieces = int(16 * turns)
    narrowing, rise = np.linspace(1.0, top, pieces + 1), np.linspace(0.0, height, pieces + 1)
    around = radius * narrowing[:, None] * circle(pieces, turns) * (1, hand)
    return tube(np.concatenate([around, rise[:, None]], -1), wire, (0.0, 0.0, 1.0), 6)


def ring(rng: Generator) -> Triangles:
    """A torus, its band round or flat."""
    band, flatness = rng.uniform(0.12, 0.4), rng.uniform(0.6, 2.0)
    return lathe(circle(10) * (band, band * flatness) + (1.0, 0.0))


def rocket(rng: Generator) -> Triangles:
    """A cylinder under a cone, with three to five fins at the bottom."""
    radius, height, nose = rng.uniform(0.2, 0.4), rng.uniform(0.6, 1.6), rng.uniform(0.3, 0.9)
    fins, reach, fin = int(rng.integers(3, 6)), rng.uniform(0.25, 0.6), rng.uniform(0.3, 0.6)
    body = lathe([(0, 0), (radius, 0), (radius, height), (0, height + nose)])
    plate = _plate((radius, 0, 0.4 * fin), (radius + reach, 0, 0), fin, 0.5 * fin, along=(0, 0, 1))
    return np.concatenate([body, *(turn_about_z(plate, 2 * np.pi * k / fins) for k in range(fins))])


def star(rng: Generator) -> Triangles:
    """A solid star of four to seven points, standing upright."""
    points, depth, valley = int(rng.integers(4, 8)), rng.uniform(0.15, 0.8), rng.uniform(0.3, 0.5)
    radius = np.append(np.tile([1.0, valley], points), 1.0)
    return prism(radius[:, None] * circle(2 * points), depth)[..., [2, 1, 0]]


def wheel(rng: Generator) -> Triangles:
    """A rim, a hub, and three to eight spokes, standing upright."""
    spokes, thick = int(rng.integers(3, 9)), rng.uniform(0.03, 0.07)
    width, rim, hub = rng.uniform(0.1, 0.5), rng.uniform(0.06, 0.15), rng.uniform(0.12, 0.3)
    parts = [lathe(circle(6) * (rim, width / 2) + (1.0, 0.0))]
    parts.append(lathe([(0, -width / 2), (hub, -width / 2), (hub, width / 2), (0, width / 2)], 12))
    parts += [bar((hub * x, hub * y, 0), (x, y, 0), thick, 6) for x, y in circle(spokes)[:-1]]
    return np.concatenate(parts)[..., [2, 1, 0]]


def _plate(
    root: tuple[float, float, float],
    tip: tuple[float, float, float],
    root_width: float,
    tip_width: float,
    along: tuple[float, float, float] = (1, 0, 0),
) -> Triangles:
    """A flat wing from root to tip; its width, in the direction ``along``, changes from one to the other."""
    start, end, half = np.array(root), np.array(tip), np.array(along) / 2
    near = [start - root_width * half, start + root_width * half]
    far = [end - tip_width * half, end + tip_width * half]
    return sheet(np.array([near, far]))
