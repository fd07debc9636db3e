"""Rotations as the page has them: quaternions of the gizmo, angles of the sliders, matrices for the models."""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def from_quaternion(wxyz: NDArray | tuple[float, float, float, float]) -> Matrix:
    """The rotation matrix of a unit quaternion, w first; one that is not of length one is divided by its length.

    >>> from_quaternion((1.0, 0.0, 0.0, 0.0)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    q = np.asarray(wxyz, dtype=np.float64)
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def to_quaternion(R: Matrix) -> tuple[float, float, float, float]:
    """The quaternion of a rotation matrix, with w at least 0.

    The matrix of the products of its parts is linear in R, and of rank one: each column is the quaternion times one of
    its parts, and the longest is the safest to divide.
    """
    xx, yy, zz = np.diag(R)
    wx, wy, wz = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    xy, xz, yz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    products = np.array(
        [
            [1 + xx + yy + zz, wx, wy, wz],
            [wx, 1 + xx - yy - zz, xy, xz],
            [wy, xy, 1 - xx + yy - zz, yz],
            [wz, xz, yz, 1 - xx - yy + zz],
        ]
    )
    q = products[:, np.argmax(np.diag(products))]
    w, x, y, z = (q / np.linalg.norm(q) * (-1 if q[0] < 0 else 1)).tolist()
    return w, x, y, z


def from_angles(about_x: float, about_y: float, about_z: float) -> Matrix:
    """Turned about x, then about y, then about z, in degrees.

    >>> (from_angles(0.0, 0.0, 90.0) @ [1, 0, 0]).round(9).tolist()
    [0.0, 1.0, 0.0]
    """
    R = np.eye(3)
    for axis, degrees in enumerate((about_x, about_y, about_z)):
        cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        turn = np.eye(3)
        a, b = (axis + 1) % 3, (axis + 2) % 3
        turn[[a, a, b, b], [a, b, a, b]] = cos, -sin, sin, cos
        R = turn @ R
    return R


def to_angles(R: Matrix) -> tuple[float, float, float]:
    """The angles that `from_angles` makes R of; where many do, the one about x is 0."""
    about_y = np.degrees(np.arcsin(np.clip(-R[2, 0], -1, 1)))
    if abs(R[2, 0]) > 1 - 1e-9:
        return 0.0, float(about_y), float(np.degrees(np.arctan2(-R[0, 1], R[1, 1])))
    about_x, about_z = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(R[1, 0], R[0, 0])
    return float(np.degrees(about_x)), float(about_y), float(np.degrees(about_z))


def random_matrix(generator: np.random.Generator) -> Matrix:
    """A rotation, all of them equally likely."""
    return from_quaternion(generator.standard_normal(4))
