"""Rotations, actions, centring and neighbours, on what can be known without a model."""

import math

import pytest
import torch

from helpers import assert_close
from vnt.geometry import (
    center,
    geometric_median,
    masked_max,
    masked_mean,
    nearest_neighbors,
    permute,
    random_orthogonal,
    random_rotation,
    rms_radius,
    rotate,
    rotation_about,
    rotation_in_plane,
    translate,
)
from vnt.geometry.symmetry import relative_difference

F64 = torch.float64


@pytest.mark.parametrize("draw", [random_rotation, random_orthogonal])
def test_random_matrices_are_orthogonal_and_uniform(draw):
    """Under the Haar measure E[R] = 0 and E[R_ij²] = 1/3; the trace of a rotation has mean 0 and variance 1."""
    R = draw(20_000, generator=torch.Generator().manual_seed(0))
    assert_close(R @ R.mT, torch.eye(3, dtype=F64).expand_as(R), 1e-14)
    assert float(R.mean(0).abs().max()) < 0.02
    assert_close(R.square().mean(0), torch.full((3, 3), 1 / 3), 0.01)
    trace = R.diagonal(dim1=-2, dim2=-1).sum(-1)
    assert abs(float(trace.var()) - 1) < 0.05
    positive = float((torch.det(R) > 0).double().mean())
    assert positive == 1 if draw is random_rotation else abs(positive - 0.5) < 0.02


def test_random_matrices_follow_their_generator():
    first, second = (random_rotation(5, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)


def test_rotation_about_an_axis_keeps_it_and_turns_right_handed():
    axis = (1.0, -2.0, 0.5)
    angle = torch.tensor([0.3, 2.0], dtype=F64)
    R = rotation_about(axis, angle)
    assert_close(rotate(torch.tensor([axis] * 2, dtype=F64), R), torch.tensor([axis] * 2), 1e-14)
    assert_close(R.diagonal(dim1=-2, dim2=-1).sum(-1), 1 + 2 * angle.cos(), 1e-14)
    x = torch.tensor([1.0, 0.0, 0.0], dtype=F64)
    quarter = rotation_about((0.0, 0.0, 1.0), torch.tensor(math.pi / 2, dtype=F64))
    assert_close(rotate(x, quarter), torch.tensor([0.0, 1.0, 0.0]), 1e-15)
    assert_close(rotation_in_plane(angle), rotation_about((0.0, 0.0, 1.0), angle)[..., :2, :2], 1e-15)


def test_rotate_one_or_many():
    V, R = torch.randn(4, 5, 6, 3, dtype=F64), random_rotation(4)
    assert_close(rotate(V, R), torch.stack([V[i] @ R[i] for i in range(4)]), 1e-14)
    assert_close(rotate(V, R[0]), V @ R[0], 1e-14)
    assert rotate(V.float(), R).dtype == torch.float32


def test_translate_and_permute():
    x, t = torch.randn(4, 5, 4, dtype=F64), torch.randn(4, 3, dtype=F64)
    moved = translate(x, t)
    assert_close(moved[..., :3], x[..., :3] + t[:, None])
    assert torch.equal(moved[..., 3], x[..., 3])
    order = torch.tensor([3, 1, 4, 0, 2])
    assert torch.equal(permute(x, order, -2), x[:, order])


def test_masked_reductions_ignore_what_is_not_there():
    x = torch.tensor([[1.0, 5.0, float("nan")], [2.0, -7.0, float("inf")]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert torch.equal(masked_mean(x, mask, -1), torch.tensor([3.0, 2.0]))
    assert torch.equal(masked_max(x, mask, -1), torch.tensor([5.0, 2.0]))


def test_centring_survives_a_large_offset():
    """A cloud of radius one, 10,000 away, in float32: the mean's own rounding must not show."""
    points = torch.randn(1, 1000, 3)
    moved = (points.double() + 1e4).float()
    positions, middle = center(moved)
    assert float(positions.mean(1).abs().max()) < 1e-6
    assert_close(middle, moved.double().mean(1), 1e-6)


def test_centres_exclude_padding():
    points, mask = torch.randn(2, 8, 3, dtype=F64), (torch.arange(8) < 5).expand(2, -1)
    for method in ("mean", "median", "none"):
        assert_close(center(points, mask, method)[1], center(points[:, :5], None, method)[1])
    assert_close(rms_radius(points, mask), points[:, :5].square().sum(-1).mean(-1).sqrt())


def test_geometric_median_is_the_minimum():
    points = torch.randn(200, 3, dtype=F64).exp()
    best = geometric_median(points, num_iterations=200, smoothing=1e-6)

    def cost(c):
        return (points - c).norm(dim=-1).sum()

    steps = 1e-3 * torch.randn(200, 3, dtype=F64)
    assert all(cost(best) <= cost(best + step) for step in steps)
    assert (geometric_median(points) - best).norm() < 1e-2


def test_neighbours_of_a_cube():
    """Corners of a cube: three at distance 1, three at √2, one at √3."""
    axis = torch.tensor([0.0, 1.0], dtype=F64)
    corners = torch.cartesian_prod(axis, axis, axis)
    for k, expected in [
        (1, [1 / 3] * 3),
        (3, [1.0] * 3),
        (5, [1.0] * 3 + [2 / 3] * 3),
        (7, [1.0] * 7),
        (50, [1.0] * 7),
    ]:
        index, weight = nearest_neighbors(corners, k)
        assert index.shape == weight.shape == (8, len(expected))
        assert_close(weight, torch.tensor(expected, dtype=F64).expand(8, -1), 1e-15)
        assert not (index == torch.arange(8)[:, None]).any()


def test_neighbours_of_an_apex_share_the_whole_rim():
    """A cone: every rim point is equally far from the apex, so k = 2 of 12 gives each a sixth."""
    angle = torch.arange(12, dtype=F64) * math.pi / 6
    rim = torch.stack([angle.cos(), angle.sin(), torch.full_like(angle, -1.0)], -1)
    points = torch.cat([torch.zeros(1, 3, dtype=F64), rim])
    _, weight = nearest_neighbors(points, 2)
    kept = weight[0] > 0
    assert int(kept.sum()) == 12
    assert_close(weight[0][kept], torch.full((12,), 1 / 6, dtype=F64), 1e-15)


def test_a_point_without_neighbours():
    index, weight = nearest_neighbors(torch.randn(1, 3), 4)
    assert torch.equal(weight, torch.zeros(1, 1))
    assert index.shape == (1, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_lattice_in_half_precision_has_the_neighbours_of_its_turned_self(dtype):
    """What is tied in float32 is tied in half precision, whose rounding is a thousand times as large."""
    x = torch.cartesian_prod(*[torch.tensor([-1.0, 0, 1])] * 3)
    turned = rotate(x, rotation_about((1.0, 2.0, 3.0), torch.tensor(0.7)))
    found = []
    for points in (x, turned):
        index, weight = nearest_neighbors(points.to(dtype), 4)
        found.append(torch.zeros(27, 27).scatter_add_(1, index, weight))
    assert torch.allclose(*found, atol=1e-6)


def test_an_infinite_error_is_infinite():
    assert relative_difference(torch.full((1, 3), torch.inf), torch.ones(1, 3)).item() == torch.inf
