"""Measuring: every group, worst cases that are known, and what cannot be climbed."""

import math

import pytest
import torch
from torch import nn

from vnt.equivariance import describe_subject, measure, violation
from vnt.equivariance.ascent import climb, generators
from vnt.geometry import random_rotation, rotation_about
from vnt.geometry.symmetry import Action, point, vector


def test_worst_rotation_of_a_leaking_axis_is_found():
    """f(x) = x + a e_z: the violation is a|e_z − e_z R|, at most 2a, when R turns z upside down."""
    subject = describe_subject(
        lambda x: x + 0.1 * torch.tensor([0.0, 0, 1]).to(x), [torch.randn(4, 1, 3)], ["vector"], "vector"
    )
    found = measure(subject, num_samples=4, num_starts=1, num_steps=40)
    expected = 0.2 / subject.value().flatten(1).norm(dim=-1)
    assert found.method == "climbed"
    assert found.worst == pytest.approx(float(expected.max()), rel=1e-5)
    assert float(found.worst_rotation[2, 2]) == pytest.approx(-1, abs=1e-2)
    assert found.mean < found.quantile(0.95) <= found.worst


def test_climbing_never_ends_below_the_samples():
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))
    subject = describe_subject(model, [torch.randn(5, 10, 3)], ["vector"], "vector")
    climbed = measure(subject, num_samples=6, num_starts=2, num_steps=15)
    sampled = measure(subject, num_samples=6, num_starts=0)
    assert climbed.worst > sampled.worst
    many = measure(subject, num_samples=300, num_starts=0)
    assert climbed.worst >= 0.98 * many.worst
    act = Action(rotation=climbed.worst_rotation.expand(5, 3, 3))
    assert float(violation(subject, act)[climbed.worst_item]) == pytest.approx(climbed.worst)


@pytest.mark.parametrize("group", ["SO(3)", "O(3)", "SO(2)", "translations", "permutations"])
def test_what_keeps_a_symmetry_is_exact(group):
    def f(x):
        centred = x - x.mean(-2, keepdim=True)
        return centred.square().sum(-1).sort(-1).values

    assert measure(describe_subject(f, [torch.randn(3, 12, 3)], ["point"], "scalar"), group).worst <= 1e-13


CULPRITS = {
    "SO(3)": lambda x: x.amax(-2),
    "O(3)": lambda x: torch.linalg.cross(x[..., 0, :], x[..., 1, :]),
    "SO(2)": lambda x: x[..., 0, :] * x[..., 0, :1],
    "translations": lambda x: x.sum(-2),
    "permutations": lambda x: x[..., 0, :] - x[..., 1, :] * 2,
}


@pytest.mark.parametrize("group", CULPRITS)
def test_what_breaks_a_symmetry_is_seen(group):
    output = point(None) if group == "translations" else vector(None)
    subject = describe_subject(CULPRITS[group], [torch.randn(3, 12, 3)], ["point"], output)
    assert measure(subject, group, num_samples=6).worst > 0.1


def test_reflections_are_told_from_rotations():
    subject = describe_subject(CULPRITS["O(3)"], [torch.randn(3, 12, 3)], ["vector"], "vector")
    assert measure(subject, "SO(3)").worst <= 1e-13
    assert measure(subject, "O(3)").worst > 1


def test_so2_turns_about_the_axis_it_is_given():
    subject = describe_subject(lambda x: x * x.new_tensor([1.0, 2, 2]), [torch.randn(3, 12, 3)], ["vector"], "vector")
    assert measure(subject, "SO(2)", axis=(1.0, 0.0, 0.0)).worst <= 1e-13
    assert measure(subject, "SO(2)", axis=(0.0, 0.0, 1.0)).worst > 0.1


def test_the_plane():
    still = describe_subject(lambda x: x.norm(dim=-1), [torch.randn(3, 12, 2)], ["vector"], "scalar")
    assert measure(still, "SO(2)").worst <= 1e-13
    leaky = describe_subject(lambda x: x + 1, [torch.zeros(2, 1, 2)], ["vector"], "vector")
    assert measure(leaky, "SO(2)", num_steps=30).worst == pytest.approx(2, rel=1e-5)  # a half-turn


def test_what_has_no_gradient_is_sampled_and_says_so():
    subject = describe_subject(lambda x: x.detach().round(), [torch.randn(3, 12, 3)], ["vector"], "vector")
    found = measure(subject)
    assert found.method == "sampled"
    assert "no gradient" in found.why
    assert found.worst > 0.1


def test_precisions_differ_by_rounding_only():
    subject = describe_subject(
        lambda x: x * x.square().sum(-1, keepdim=True), [torch.randn(3, 12, 3)], ["vector"], "vector"
    )
    worst = [measure(subject.in_precision(p), num_starts=0).worst for p in ("float64", "float32")]
    assert worst[0] < 1e-14
    assert 1e-9 < worst[1] < 1e-5


def test_a_changed_shape_is_refused():
    subject = describe_subject(lambda x: x[:, : 1 + int(x[0, 0, 0] > 0.3)], [torch.ones(1, 3, 3)], ["vector"], "vector")
    with pytest.raises(ValueError, match="for a moved input"):
        measure(subject)


def test_climb_finds_the_half_turn_of_a_quadratic():
    """max tr(D R) over SO(3) is tr D at the identity; min is where two signs flip."""
    D = torch.diag(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))

    def objective(R):
        return -torch.einsum("ij,bji->b", D, R)

    peak = climb(objective, random_rotation(10), generators(3), num_steps=80)
    assert float(peak.value.max()) == pytest.approx(4, abs=1e-9)  # −(−3 − 2 + 1)
    assert float(peak.slope[peak.value.argmax()]) < 1e-6
    assert torch.allclose(peak.rotation @ peak.rotation.mT, torch.eye(3, dtype=torch.float64).expand(10, 3, 3))


def test_generators_turn_the_way_rotation_about_does():
    for axis in ((0.0, 0.0, 1.0), (1.0, 2.0, -0.5)):
        R = torch.matrix_exp(0.7 * generators(3, axis)[0])
        assert torch.allclose(R, rotation_about(axis, torch.tensor(0.7, dtype=torch.float64)))
    assert torch.allclose(torch.matrix_exp(math.pi * generators(2)[0]), -torch.eye(2, dtype=torch.float64))
