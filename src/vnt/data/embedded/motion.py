"""`motion`: tracks of a vehicle that turns, brakes and changes lanes on hilly ground, generated from a seed.

A kinematic bicycle: the driver asks for an acceleration along the road and one across it and keeps to them for some
seconds, the vehicle follows with a lag, and its height is that of the ground. So speed, curvature and slope of the next
seconds can be seen in the last one, which is what a good forecast has and constant velocity lacks.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from vnt.data.embedded.items import Split, check_draw, item_generator, on_grid

SECONDS_PER_STEP = 0.1
WHEELBASE = 2.8  # metres between the axles
MAX_STEERING = 0.5  # radians
MAX_SPEED = 30.0  # metres per second, which only long futures reach
LAG = 0.3  # seconds until acceleration and steering have gone most of the way to what the driver asked for


class Motion(NamedTuple):
    """M tracks at 10 Hz, in metres relative to the last observed point; z points up.

    Attributes:
        past: (M, T_past, 3), as measured, with errors of some centimetres; the last row is zero.
        future: (M, T_future, 3), as driven, without errors.
        past_speed: (M, T_past, 1), measured speed in metres per second, never negative.
        past_heading: (M, T_past, 1), measured, radians from x towards y, in [−π, π).
    """

    past: NDArray[np.float32]
    future: NDArray[np.float32]
    past_speed: NDArray[np.float32]
    past_heading: NDArray[np.float32]


def make_motion(num: int, *, past: int = 11, future: int = 30, seed: int = 0, split: Split = "train") -> Motion:
    """``num`` tracks, each on ground of its own and in a random heading.

    Track i stays itself however many tracks or future steps are asked for. Numbers are rounded as `on_grid` says, and
    come out the same on every machine.

    >>> motion = make_motion(4)
    >>> motion.past.shape, motion.future.shape, motion.past_speed.shape
    ((4, 11, 3), (4, 30, 3), (4, 11, 1))
    """
    check_draw(num, seed, split, name="num")
    if past < 1 or future < 1:
        raise ValueError(f"past and future must be at least 1, got {past} and {future}")
    tracks = [_track(past, future, *(item_generator(seed, split, kind, i) for kind in (0, 1))) for i in range(num)]
    position, speed, heading = (np.stack(x) for x in zip(*tracks, strict=True))
    return Motion(position[:, :past], position[:, past:], speed, heading)


def _track(past: int, future: int, rng: Generator, compass: Generator) -> tuple[NDArray[np.float32], ...]:
    """Positions of one track, past and future, and of its past the speed and, by a compass, the heading."""
    error = rng.uniform(0.01, 0.04) * rng.standard_normal((past, 3))
    speed_error = 0.1 * rng.standard_normal(past)
    waves = _ground(rng)
    unseen = int(rng.integers(0, 25))  # so that a manoeuvre may be under way when the past begins
    states = _drive(unseen + past + future, waves, rng)[unseen:]
    position, speed = states[:, :3], np.maximum(states[:past, 3] + speed_error, 0.0)
    position[:past] += error
    heading = states[:past, 4] + 0.02 * compass.standard_normal(past)
    heading = (heading + math.pi) % (2 * math.pi) - math.pi
    return on_grid(position - position[past - 1], 128.0), on_grid(speed[:, None], 128.0), on_grid(heading[:, None], 4.0)


def _drive(steps: int, waves: list[tuple[float, ...]], rng: Generator) -> NDArray[np.float64]:
    """x, y, z, speed and heading at each step."""
    x, y, heading = 0.0, 0.0, rng.uniform(-math.pi, math.pi)
    speed = max(0.0, rng.uniform(-2.0, 18.0))
    acceleration = steering = 0.0
    share = 1 - math.exp(-SECONDS_PER_STEP / LAG)
    states = []
    while len(states) < steps:
        for seconds, wanted_acceleration, sideways in _manoeuvre(speed, rng):
            for _ in range(round(seconds / SECONDS_PER_STEP)):
                # As sharp a turn as is comfortable at this speed: curvature is acceleration over speed squared.
                wanted_steering = math.atan(WHEELBASE * sideways / max(speed, 3.0) ** 2)
                wanted_steering = min(max(wanted_steering, -MAX_STEERING), MAX_STEERING)
                height, slope = _height_and_slope(waves, x, y, heading)
                states.append((x, y, height, speed, heading))
                acceleration += share * (wanted_acceleration - acceleration)
                steering += share * (wanted_steering - steering)
                speed = min(max(0.0, speed + acceleration * SECONDS_PER_STEP), MAX_SPEED)
                forward = speed * SECONDS_PER_STEP / math.hypot(1.0, slope)
                half_turn = forward * math.tan(steering) / WHEELBASE / 2
                x += forward * math.cos(heading + half_turn)
                y += forward * math.sin(heading + half_turn)
                heading += 2 * half_turn
    return np.array(states[:steps])


def _manoeuvre(speed: float, rng: Generator) -> Iterator[tuple[float, float, float]]:
    """What the driver does next: pieces of (seconds, acceleration along the road, acceleration across it)."""
    left = 1.0 if rng.random() < 0.5 else -1.0
    if speed < 0.5:  # wait, then start, straight or into a curve
        yield rng.uniform(0.0, 1.0), 0.0, 0.0
        yield rng.uniform(3.0, 6.0), rng.uniform(1.0, 3.0), left * rng.uniform(0.0, 1.0)
        return
    kind = rng.choice(["curve", "turn", "lane change", "stop", "speed up"], p=[0.3, 0.25, 0.15, 0.2, 0.1])
    if kind == "curve":
        yield rng.uniform(3.0, 7.0), rng.uniform(-0.7, 0.7), left * rng.uniform(0.0, 2.5)
    elif kind == "turn":
        yield rng.uniform(2.0, 5.0), rng.uniform(-1.5, 0.5), left * rng.uniform(2.0, 4.0)
    elif kind == "lane change":
        half, sideways = rng.uniform(1.0, 2.0), rng.uniform(0.8, 2.0)
        yield half, 0.0, left * sideways
        yield half, 0.0, -left * sideways
        yield 1.0, 0.0, 0.0
    elif kind == "stop":
        braking, sideways = rng.uniform(1.5, 4.0), left * rng.uniform(0.0, 0.5)
        yield speed / braking + rng.uniform(1.0, 3.0), -braking, sideways
    else:
        yield rng.uniform(3.0, 5.0), rng.uniform(1.0, 2.5), left * rng.uniform(0.0, 1.0)


def _ground(rng: Generator) -> list[tuple[float, ...]]:
    """Four waves (kx, ky, phase, amplitude): hills 60 to 200 metres long, with slopes of up to some tens of percent."""
    number = 2 * np.pi / rng.uniform(60.0, 200.0, 4)
    direction, phase = rng.uniform(-np.pi, np.pi, (2, 4))
    steepness = rng.uniform(0.02, 0.12, 4)
    waves = np.stack([number * np.cos(direction), number * np.sin(direction), phase, steepness / number], -1)
    return [tuple(wave) for wave in waves.tolist()]


def _height_and_slope(waves: list[tuple[float, ...]], x: float, y: float, heading: float) -> tuple[float, float]:
    """Height of the ground, and its slope in the direction of travel."""
    height = slope = 0.0
    for kx, ky, phase, amplitude in waves:
        angle = kx * x + ky * y + phase
        height += amplitude * math.sin(angle)
        slope += amplitude * math.cos(angle) * (kx * math.cos(heading) + ky * math.sin(heading))
    return height, slope
