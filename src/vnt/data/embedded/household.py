"""Things of the house: each function draws one object of its kind, upright, as triangles.

Proportions and the number of parts vary as widely within a kind as they can while a person still names it right; what
holds a kind together is how its parts are arranged. No kind is the mirror image of another, nor a stretched copy.
"""

import numpy as np
from numpy.random import Generator

from vnt.data.embedded.solids import Triangles, bar, box, circle, lathe, prism, sheet, tube


def bottle(rng: Generator) -> Triangles:
    """A closed body, a shoulder, and a neck that is open at the top."""
    radius, height, shoulder = rng.uniform(0.25, 0.6), rng.uniform(0.6, 1.6), rng.uniform(0.05, 0.45)
    neck, neck_height = radius * rng.uniform(0.25, 0.5), rng.uniform(0.25, 0.8)
    top = height + shoulder
    return lathe([(0, 0), (radius, 0), (radius, height), (neck, top), (neck, top + neck_height)])


def bowl(rng: Generator) -> Triangles:
    """A cap of a sphere, open upwards, sometimes on a foot."""
    turn, depth = rng.uniform(0.16, 0.29), rng.uniform(0.6, 1.3)
    radius, down = circle(10, turn).T[::-1]
    parts = [lathe(np.stack([radius, -depth * down], -1))]
    if rng.random() < 0.4:
        foot = rng.uniform(0.25, 0.5)
        parts.append(lathe([(foot, -depth - 0.15), (foot, -depth * 0.9)]))
    return np.concatenate(parts)


def chair(rng: Generator) -> Triangles:
    """A seat on three to five legs, with a back, sometimes with armrests."""
    width, depth, height = rng.uniform(0.45, 0.9), rng.uniform(0.45, 0.8), rng.uniform(0.3, 0.8)
    back, thick = rng.uniform(0.4, 1.0), rng.uniform(0.04, 0.1)
    parts = [box((depth, width, thick)), box((thick, width, back), (-depth / 2, 0, back / 2))]
    parts += _legs(rng, depth / 2, width / 2, height, int(rng.integers(3, 6)))
    if rng.random() < 0.35:
        arm = rng.uniform(0.15, 0.3)
        parts += [box((depth, thick, thick), (0, side * width / 2, arm)) for side in (-1, 1)]
    return np.concatenate(parts)


def frame(rng: Generator) -> Triangles:
    """An upright rectangle with a rectangular hole."""
    half = rng.uniform(0.5, 1.2, 2)
    border, depth = rng.uniform(0.1, 0.3), rng.uniform(0.06, 0.5)
    corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1], [1, 1]])
    return prism(corners * half, depth, corners * (half - border))[..., [2, 0, 1]]


def ladder(rng: Generator) -> Triangles:
    """Two rails, perhaps closer at the top, with four to nine rungs between them."""
    rungs, height, thick = int(rng.integers(4, 10)), rng.uniform(1.2, 2.8), rng.uniform(0.03, 0.06)
    low = rng.uniform(0.2, 0.5)
    high = low * rng.uniform(0.6, 1.0)
    parts = [bar((0, side * low, 0), (0, side * high, height), thick) for side in (-1, 1)]
    for share in (np.arange(rungs) + 0.5) / rungs:
        reach = low + share * (high - low)
        parts.append(bar((0, -reach, share * height), (0, reach, share * height), thick))
    return np.concatenate(parts)


def lamp(rng: Generator) -> Triangles:
    """A foot, a pole, and a shade that is open below and above."""
    foot, height, pole = rng.uniform(0.2, 0.45), rng.uniform(0.7, 2.0), rng.uniform(0.03, 0.06)
    low, shade = rng.uniform(0.3, 0.6), rng.uniform(0.3, 0.6)
    high = low * rng.uniform(0.35, 0.85)
    stand = lathe([(0, 0), (foot, 0), (foot, 0.06), (pole, 0.08), (pole, height)], 16)
    return np.concatenate([stand, lathe([(low, height - shade / 2), (high, height + shade / 2)])])


def mug(rng: Generator) -> Triangles:
    """A cup that is open at the top, with a handle on one side."""
    radius, height, widening = rng.uniform(0.35, 0.7), rng.uniform(0.6, 1.4), rng.uniform(0.85, 1.2)
    reach, grip, thick = rng.uniform(0.3, 0.55), rng.uniform(0.2, 0.4) * height, rng.uniform(0.06, 0.12)
    cup = lathe([(0, 0), (radius, 0), (radius * widening, height)])
    out, up = circle(12, 0.5).T[::-1]
    path = np.stack([radius + reach * out, np.zeros_like(out), height / 2 + grip * up], -1)
    return np.concatenate([cup, tube(path, thick, (0.0, 1.0, 0.0), 8)])


def shelf(rng: Generator) -> Triangles:
    """Two sides, three to seven boards between them, sometimes a back."""
    width, height, depth = rng.uniform(0.6, 1.5), rng.uniform(0.9, 2.0), rng.uniform(0.25, 0.6)
    boards, thick = int(rng.integers(3, 8)), rng.uniform(0.03, 0.06)
    parts = [box((depth, thick, height), (0, side * width / 2, height / 2)) for side in (-1, 1)]
    parts += [box((depth, width, thick), (0, 0, z)) for z in np.linspace(0, height, boards)]
    if rng.random() < 0.5:
        parts.append(box((thick, width, height), (-depth / 2, 0, height / 2)))
    return np.concatenate(parts)


def stairs(rng: Generator) -> Triangles:
    """Three to eight solid steps."""
    steps, width = int(rng.integers(3, 9)), rng.uniform(0.4, 1.6)
    run, rise = rng.uniform(0.7, 1.3), rng.uniform(0.7, 1.3)
    level = np.repeat(np.arange(steps + 1), 2) / steps
    x, z = run * level[:-1], rise * level[1:]
    near = np.stack([x, np.full_like(x, -width / 2), z], -1)
    far = near * (1, -1, 1)
    back = np.stack([near[-1:], far[-1:]])
    walls = [sheet(np.stack([edge, edge * (1, 1, 0)])) for edge in (near, far)]
    return np.concatenate([sheet(np.stack([near, far])), *walls, sheet(np.concatenate([back, back * (1, 1, 0)], 1))])


def table(rng: Generator) -> Triangles:
    """A round or a rectangular top on three to six legs."""
    half = rng.uniform(0.4, 1.0, 2)
    height, thick, legs = rng.uniform(0.4, 1.1), rng.uniform(0.04, 0.1), int(rng.integers(3, 7))
    top = box((2 * half[0], 2 * half[1], thick))
    if rng.random() < 0.5:
        disc = lathe([(0, -thick / 2), (1, -thick / 2), (1, thick / 2), (0, thick / 2)])
        top = disc * (half[0], half[1], 1.0)
        half = half * 0.7
    return np.concatenate([top, *_legs(rng, half[0], half[1], height, legs)])


def umbrella(rng: Generator) -> Triangles:
    """A canopy on a stick that ends in a hook."""
    turn, depth, length = rng.uniform(0.12, 0.22), rng.uniform(0.4, 1.0), rng.uniform(1.0, 2.0)
    thick, hook = rng.uniform(0.03, 0.06), rng.uniform(0.12, 0.28)
    radius, up = circle(8, turn).T[::-1]
    canopy = lathe(np.stack([radius, depth * up], -1))
    bow = hook * (circle(8, 0.5) * (1, -1) - (1, 0)) - (0, length - depth)
    stick = np.insert(np.concatenate([[[0.0, depth]], bow]), 1, 0.0, axis=-1)
    return np.concatenate([canopy, tube(stick, thick, (0.0, 1.0, 0.0), 6)])


def _legs(rng: Generator, x: float, y: float, height: float, count: int) -> list[Triangles]:
    """Legs below the plane z = 0, within ±x and ±y: near the corners if there are four, else around an ellipse."""
    thick, splay = rng.uniform(0.03, 0.07), rng.uniform(0.9, 1.25)
    if count == 4:
        feet = np.array([[0.9, 0.9], [0.9, -0.9], [-0.9, 0.9], [-0.9, -0.9]])
    else:
        feet = circle(count)[:-1]
    return [bar((x * a, y * b, 0), (x * a * splay, y * b * splay, -height), thick, 6) for a, b in feet]
