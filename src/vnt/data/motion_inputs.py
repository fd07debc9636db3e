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
    vectors: Float[Tensor, "B T V 3"] | None,
    dt: float,
) -> tuple[Float[Tensor, "B T_out d"] | None, Float[Tensor, "B T_out V 3"] | None]:
    """The same of the steps to come, as the track itself tells them; ``vectors`` are those of the past.

    Speeds and velocities come from its last steps, and it is heading where it goes; where it stands or reverses, as
    before. Nothing looks ahead, as no recording does. Other attributes it does not tell: there are none then.
    """
    velocity = _velocity(torch.cat([past, future], 1), dt)[:, past.shape[1] :]
    attributes = [name for name in wanted if name not in (*VELOCITY, *ANGLES)]
    speeds = velocity.norm(dim=-1, keepdim=True) if attributes == ["speed"] else None
    if vectors is None:
        return speeds, None
    later = [velocity] if VELOCITY[0] in wanted else []
    later += [_course(velocity, vectors[:, -1, i]) for i in range(len(later), vectors.shape[2])]
    return speeds, torch.stack(later, 2)


def _arrow(angle: Float[Tensor, "*tracks T"]) -> Float[Tensor, "*tracks T 3"]:
    return ARROW_LENGTH * torch.stack([angle.cos(), angle.sin(), torch.zeros_like(angle)], -1)


def _velocity(track: Float[Tensor, "B T 3"], dt: float) -> Float[Tensor, "B T 3"]:
    """At each step the slope there of the parabola through the last steps, by least squares."""
    t = dt * torch.arange(1.0 - FITTED_STEPS, 1.0, dtype=track.dtype)
    slope = torch.linalg.pinv(torch.stack([torch.ones_like(t), t, t.square()], 1))[1]
    before = track[:, :1].expand(-1, FITTED_STEPS - 1, -1)
    return torch.cat([before, track], 1).unfold(1, FITTED_STEPS, 1) @ slope


def _course(velocity: Float[Tensor, "B T_out 3"], arrow: Float[Tensor, "B 3"]) -> Float[Tensor, "B T_out 3"]:
    """Arrows along a velocity, level as the last one that was seen."""
    level = torch.cat([velocity[..., :2], torch.zeros_like(velocity[..., 2:])], -1)
    speed = level.norm(dim=-1, keepdim=True)
    found = []
    for step in range(velocity.shape[1]):
        goes = (speed[:, step] > STANDING_SPEED) & ((level[:, step] * arrow).sum(-1, keepdim=True) > 0)
        arrow = torch.where(goes, ARROW_LENGTH * level[:, step] / speed[:, step], arrow)
        found.append(arrow)
    return torch.stack(found, 1)
