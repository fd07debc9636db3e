"""Rotations as matrices R that act on row vectors from the right: x R."""

import math
from collections.abc import Sequence

import roma
import torch
from jaxtyping import Float
from torch import Generator, Tensor


def random_rotation(
    *size: int,
    generator: Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Float[Tensor, "*size 3 3"]:
    """Rotations drawn uniformly from SO(3) (the Haar measure).

    >>> R = random_rotation(4)
    >>> torch.allclose(R @ R.mT, torch.eye(3, dtype=R.dtype).expand(4, 3, 3)), bool((torch.det(R) > 0).all())
    (True, True)
    """
    return roma.random_rotmat(size, dtype=dtype, device=device, generator=generator)


def random_orthogonal(
    *size: int,
    generator: Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Float[Tensor, "*size 3 3"]:
    """Orthogonal matrices drawn uniformly from O(3): a rotation, times −I with probability one half."""
    R = random_rotation(*size, generator=generator, dtype=dtype, device=device)
    heads = torch.randint(2, size, generator=generator, device=device)
    return R * (1 - 2 * heads)[..., None, None].to(dtype)


def rotation_about(axis: Sequence[float], angle: Float[Tensor, "*size"]) -> Float[Tensor, "*size 3 3"]:
    """Turn by ``angle`` (radians, right-handed) about ``axis``; row vectors, so e_x R = e_y for a quarter about z.

    >>> R = rotation_about((0.0, 0.0, 1.0), torch.tensor(torch.pi / 2))
    >>> (torch.tensor([1.0, 0.0, 0.0]) @ R).round().abs().tolist()
    [0.0, 1.0, 0.0]
    """
    if len(axis) != 3 or not any(axis):
        raise ValueError(f"axis must be three numbers, not all zero, got {tuple(axis)}")
    # One number at a time: no copy to the device, so nothing waits for it.
    length = math.hypot(*axis)
    direction = torch.stack([angle * (part / length) for part in axis], -1)
    return roma.rotvec_to_rotmat(direction).mT


def rotation_in_plane(angle: Float[Tensor, "*size"]) -> Float[Tensor, "*size 2 2"]:
    """Turn by ``angle`` in the plane, for S = 2."""
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
