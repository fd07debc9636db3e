"""What a forecaster gets of each step beside its position: numbers that stay, and vectors that turn."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from vnt.data.track_tables import ANGLES

VELOCITY = ("velocity_x", "velocity_y", "velocity_z")


def motion_inputs(
    values: NDArray, names: Sequence[str], wanted: Sequence[str]
) -> tuple[Float[Tensor, "*tracks T d"] | None, Float[Tensor, "*tracks T 1 3"] | None]:
    """The ``wanted`` columns of values (..., T, len(names)): as attributes, and velocities as one vector of each step.

    velocity_x, velocity_y and perhaps velocity_z (else 0) turn with the track. An angle is refused: it would not turn.
    """
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"the tracks have attributes {tuple(names)}, and not {', '.join(missing)}")
    if angles := [name for name in wanted if name in ANGLES]:
        raise ValueError(
            f"attribute {angles[0]!r} is an angle, which does not turn with the frame: use {', '.join(VELOCITY[:2])}"
        )
    numbers = {name: torch.from_numpy(values[..., list(names).index(name)]) for name in wanted}
    x, y, z = (numbers.pop(name, None) for name in VELOCITY)
    attributes = torch.stack(list(numbers.values()), -1) if numbers else None
    if x is None and y is None and z is None:
        return attributes, None
    if x is None or y is None:
        raise ValueError(f"a velocity is a vector, which needs {VELOCITY[0]} and {VELOCITY[1]}: got {tuple(wanted)}")
    return attributes, torch.stack([x, y, torch.zeros_like(x) if z is None else z], -1).unsqueeze(-2)
