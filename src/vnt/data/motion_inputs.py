"""What a forecaster gets of each step beside its position: numbers that stay, and vectors that turn."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from vnt.data.track_tables import ANGLES

VELOCITY = ("velocity_x", "velocity_y", "velocity_z")
ARROW_LENGTH = 0.2
"""Of a heading, in metres. So it counts where a track hardly moves, and little where its steps tell where it goes."""
FITTED_STEPS = 7
"""Of a track, to which a parabola is fitted for its velocity at the last of them."""
ENOUGH = 10
"""Tracks that move, to tell from whether a column says what they do."""
STANDING_SPEED = 1.25
"""Metres per second. Whatever is slower keeps its heading: where it goes is mostly noise."""


def motion_inputs(
    values: NDArray, names: Sequence[str], wanted: Sequence[str]
) -> tuple[Float[Tensor, "*tracks T d"] | None, Float[Tensor, "*tracks T V 3"] | None]:
    """The ``wanted`` columns of values (..., T, len(names)): as attributes, and what has a direction as vectors.

    velocity_x, velocity_y and perhaps velocity_z (else 0) are the first vector. An angle, heading or yaw, counted from
    x towards y, becomes an arrow `ARROW_LENGTH` long: an angle would not turn with the track, and an arrow does.
    """
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"the tracks have attributes {tuple(names)}, and not {', '.join(missing)}")
    numbers = {name: torch.from_numpy(values[..., list(names).index(name)]) for name in wanted}
    x, y, z = (numbers.pop(name, None) for name in VELOCITY)
    vectors = [_arrow(numbers.pop(name)) for name in wanted if name in ANGLES]
    attributes = torch.stack(list(numbers.values()), -1) if numbers else None
    if x is not None and y is not None:
        vectors.insert(0, torch.stack([x, y, torch.zeros_like(x) if z is None else z], -1))
    elif x is not None or y is not None or z is not None:
        raise ValueError(f"a velocity is a vector, which needs {VELOCITY[0]} and {VELOCITY[1]}: got {tuple(wanted)}")
    return attributes, torch.stack(vectors, -2) if vectors else None


def later_inputs(
    past: Float[Tensor, "B T 3"],
    future: Float[Tensor, "B T_out 3"],
    wanted: Sequence[str],
    attributes: Float[Tensor, "B T d"] | None,
    vectors: Float[Tensor, "B T V 3"] | None,
    dt: float,
) -> tuple[Float[Tensor, "B T_out d"] | None, Float[Tensor, "B T_out V 3"] | None]:
    """The same of the steps to come, as the track itself tells them; ``attributes`` and ``vectors`` are of the past.

    Speeds and velocities come from its last steps, and it is heading where it goes; where it stands or reverses, as
    before. Nothing looks ahead, as no recording does. Other attributes it does not tell, and then this is an error, as
    it is where what was recorded is not what tracks tell: in other units, or the yaw of what flies sideways.
    """
    if unknown := [name for name in wanted if name not in ("speed", *VELOCITY, *ANGLES)]:
        raise ValueError(f"windows with {unknown[0]} cannot slide: it is known of the past alone")
    steps = past.shape[1]
    velocity = _velocity(torch.cat([past, future], 1), dt)
    speed = velocity.norm(dim=-1, keepdim=True)
    level = torch.cat([velocity[..., :2], torch.zeros_like(velocity[..., 2:])], -1)
    moving = (level[:, steps - 1].norm(dim=-1) > STANDING_SPEED).nonzero()[:, 0]
    if attributes is not None:
        _require_alike("speed", "units of length per second", attributes[moving, -1], speed[moving, steps - 1])
    speeds = None if attributes is None else speed[:, steps:]
    if vectors is None:
        return speeds, None
    later = []
    if VELOCITY[0] in wanted:
        told = velocity if VELOCITY[2] in wanted else level
        _require_alike("velocity", "units of length per second", vectors[moving, -1, 0], told[moving, steps - 1])
        later.append(told[:, steps:])
    for arrow in vectors[:, -1, len(later) :].unbind(1):
        _require_alike("heading", "radians from x towards y", arrow[moving], _along(level[moving, steps - 1]))
        later.append(_course(level[:, steps:], arrow))
    return speeds, torch.stack(later, 2)


def _require_alike(name: str, unit: str, recorded: Float[Tensor, "m d"], told: Float[Tensor, "m d"]) -> None:
    """Of most tracks, where there are enough to judge by, a column says what the track does."""
    if len(told) < ENOUGH:
        return
    difference = float(((recorded - told).norm(dim=-1) / told.norm(dim=-1)).median())
    if difference > 0.3:
        raise ValueError(
            f"windows cannot slide: {name} is not what the tracks tell of it, off by {difference:.0%}; is it in {unit}?"
        )


def _arrow(angle: Float[Tensor, "*tracks T"]) -> Float[Tensor, "*tracks T 3"]:
    return ARROW_LENGTH * torch.stack([angle.cos(), angle.sin(), torch.zeros_like(angle)], -1)


def _along(level: Float[Tensor, "*tracks 3"]) -> Float[Tensor, "*tracks 3"]:
    return ARROW_LENGTH * level / level.norm(dim=-1, keepdim=True)


def _velocity(track: Float[Tensor, "B T 3"], dt: float) -> Float[Tensor, "B T 3"]:
    """At each step the slope there of the parabola through the last steps, by least squares.

    Before its first step a track is taken to have gone straight.
    """
    t = torch.arange(1.0 - FITTED_STEPS, 1.0, dtype=torch.float64)
    slope = torch.linalg.pinv(torch.stack([torch.ones_like(t), t, t.square()], 1))[1] / dt
    back = torch.arange(1.0 - FITTED_STEPS, 0.0, dtype=track.dtype, device=track.device)[:, None]
    longer = torch.cat([track[:, :1] + back * (track[:, 1:2] - track[:, :1]), track], 1)
    velocity = torch.zeros_like(track)
    for k, weight in enumerate(slope.tolist()):
        velocity += weight * longer[:, k : k + track.shape[1]]
    return velocity


def _course(level: Float[Tensor, "B T_out 3"], arrow: Float[Tensor, "B 3"]) -> Float[Tensor, "B T_out 3"]:
    """Arrows along a level velocity. One that is held while a car turns round on the spot stays as it was."""
    found = []
    for velocity in level.unbind(1):
        goes = (velocity.norm(dim=-1) > STANDING_SPEED) & ((velocity * arrow).sum(-1) > 0)
        arrow = torch.where(goes[:, None], _along(velocity), arrow)
        found.append(arrow)
    return torch.stack(found, 1)
