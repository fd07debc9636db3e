"""Rotations of the page: quaternion, angles and matrix say the same."""

import numpy as np
import pytest

from vnt.view.turning import from_angles, from_quaternion, random_matrix, to_angles, to_quaternion

ROTATIONS = [random_matrix(np.random.default_rng(seed)) for seed in range(20)]
ROTATIONS += [np.eye(3), from_angles(180, 0, 0), from_angles(0, 180, 0), from_angles(0, 0, 180)]
ROTATIONS += [from_angles(20, 90, 50), from_angles(20, -90, 50)]  # where angles are not unique


@pytest.mark.parametrize("number", range(len(ROTATIONS)))
def test_there_and_back(number):
    R = ROTATIONS[number]
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(R) == pytest.approx(1)
    np.testing.assert_allclose(from_quaternion(to_quaternion(R)), R, atol=1e-9)
    np.testing.assert_allclose(from_angles(*to_angles(R)), R, atol=1e-7)
    assert to_quaternion(R)[0] >= 0


def test_order_of_the_angles():
    R = from_angles(90, 0, 90)  # about x first: y goes to z and stays there
    np.testing.assert_allclose(R @ [0, 1, 0], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(R @ [1, 0, 0], [0, 1, 0], atol=1e-12)
