"""Rotations as matrices R that act on row vectors from the right: x R.

Made of few operations, so that drawing one for each item of a small batch costs a GPU next to nothing.
"""

import math
from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch._subclasses import FakeTensor


def random_rotation(
    *size: int,
    generator: Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Float[Tensor, "*size 3 3"]:
    """Rotations drawn uniformly from SO(3) (the Haar measure): those of unit quaternions, uniform on their sphere.

    >>> R = random_rotation(4)
    >>> torch.allclose(R @ R.mT, torch.eye(3, dtype=R.dtype).expand(4, 3, 3)), bool((torch.det(R) > 0).all())
    (True, True)
    """
    q = torch.randn(*size, 4, dtype=dtype, device=device, generator=generator)
    q = q / q.norm(dim=-1, keepdim=True)
    products = (q[..., :, None] * q[..., None, :]).flatten(-2)
    kept = not (torch.compiler.is_compiling() or isinstance(q, FakeTensor))  # what is kept must be real
    of_products = _of_products if kept else _of_products.__wrapped__
    # A sum of products and not a matrix product, which a GPU might round to TF32.
    return (products[..., None] * of_products(q.dtype, q.device)).sum(-2).unflatten(-1, (3, 3))


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
    x, y, z = (part / math.hypot(*axis) for part in axis)
    cos, sin = angle.cos(), angle.sin()
    rest = 1 - cos
    rows = [
        [cos + rest * x * x, rest * x * y + sin * z, rest * x * z - sin * y],
        [rest * x * y - sin * z, cos + rest * y * y, rest * y * z + sin * x],
        [rest * x * z + sin * y, rest * y * z - sin * x, cos + rest * z * z],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def rotation_in_plane(angle: Float[Tensor, "*size"]) -> Float[Tensor, "*size 2 2"]:
    """Turn by ``angle`` in the plane, for S = 2."""
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)


@cache
def _of_products(dtype: torch.dtype, device: torch.device) -> Float[Tensor, "16 9"]:
    """The linear map from the products qᵢqⱼ of a unit quaternion (w, x, y, z) to the entries of its rotation."""
    entries = {
        (0, 0): "ww+xx-yy-zz", (0, 1): "xy+xy+wz+wz", (0, 2): "xz+xz-wy-wy",
        (1, 0): "xy+xy-wz-wz", (1, 1): "ww-xx+yy-zz", (1, 2): "yz+yz+wx+wx",
        (2, 0): "xz+xz+wy+wy", (2, 1): "yz+yz-wx-wx", (2, 2): "ww-xx-yy+zz",
    }  # fmt: skip
    M = torch.zeros(4, 4, 3, 3, dtype=dtype)
    for (row, column), terms in entries.items():
        signs, letters = [1, *(1 if c == "+" else -1 for c in terms[2::3])], terms.replace("-", "+").split("+")
        for sign, (a, b) in zip(signs, letters, strict=True):
            M["wxyz".index(a), "wxyz".index(b), row, column] += sign
    return M.reshape(16, 9).to(device, non_blocking=True)
