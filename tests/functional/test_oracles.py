"""Every equation equals its loop oracle to 1e-12 in float64, on random shapes, unbatched and batched."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from helpers import Shape, assert_close, per_item, random_mask, shapes
from vnt import functional
from vnt.geometry import distances, fading_neighbors, nearest_neighbors, random_rotation
from vnt.testing import oracles

EPS = st.sampled_from([1e-12, 1e-6, 1e-2])
SLOPE = st.sampled_from([0.0, 0.2])


@given(shapes())
def test_linear(s: Shape):
    V, W = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.C_out, s.C)
    tokens = (*s.batch, s.N)
    assert_close(functional.linear(V, W), per_item(lambda v: oracles.linear(v, W), tokens, V))


@given(shapes(), st.sampled_from([1e-6, 0.5]))
def test_linear_with_bias(s: Shape, epsilon: float):
    V, W, B = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.C_out, s.C), s.randn(s.C_out, s.S)
    actual = functional.linear_with_bias(V, W, functional.unit_rows(B), epsilon)
    assert_close(actual, per_item(lambda v: oracles.linear_with_bias(v, W, B, epsilon), (*s.batch, s.N), V))


@given(shapes(), EPS, SLOPE, st.booleans())
def test_relu(s: Shape, eps: float, slope: float, shared: bool):
    V, W = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.C_out, s.C)
    U = s.randn(1 if shared else s.C_out, s.C)
    actual = functional.relu(V, W, U, negative_slope=slope, eps=eps)
    expected = per_item(lambda v: oracles.relu(v, W, U, negative_slope=slope, eps=eps), (*s.batch, s.N), V)
    assert_close(actual, expected)


@given(shapes(), EPS)
def test_layer_norm(s: Shape, eps: float):
    V, gain, shift = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.C), s.randn(s.C)
    actual = functional.layer_norm(V, gain, shift, eps=eps)
    assert_close(actual, per_item(lambda v: oracles.layer_norm(v, gain, shift, eps=eps), (*s.batch, s.N), V))


@given(shapes(), EPS)
def test_rms_norm(s: Shape, eps: float):
    V, gain = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.C)
    actual = functional.rms_norm(V, gain, eps=eps)
    assert_close(actual, per_item(lambda v: oracles.rms_norm(v, gain, eps=eps), (*s.batch, s.N), V))


@given(shapes(), EPS, st.booleans())
def test_batch_norm(s: Shape, eps: float, masked: bool):
    V, gain, shift = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.C), s.randn(s.C)
    mask = random_mask(*s.batch, s.N) if masked else None
    mean, variance, count = functional.batch_statistics(V, mask, eps=eps)
    actual = functional.batch_norm(V, mean, variance, gain, shift, eps=eps)
    flat_mask = None if mask is None else mask.flatten()
    expected = oracles.batch_norm(V.reshape(-1, s.C, s.S), gain, shift, flat_mask, eps=eps)
    kept = torch.ones(*s.batch, s.N, dtype=torch.bool) if mask is None else mask
    assert int(count) == int(kept.sum())
    assert_close(actual[kept], torch.as_tensor(expected).reshape(V.shape)[kept])


@given(shapes())
def test_frobenius_inner_product(s: Shape):
    A, B = s.randn(*s.batch, s.N, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S)
    expected = per_item(oracles.frobenius_inner_product, (*s.batch, s.N), A, B)
    assert_close(functional.frobenius_inner_product(A, B), expected)


@given(shapes(), st.booleans())
def test_attention_weights(s: Shape, masked: bool):
    Q, K = s.randn(*s.batch, s.M, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S)
    mask = random_mask(*s.batch, s.N) if masked else None
    expected = per_item(oracles.attention_weights, s.batch, Q, K, mask)
    assert_close(functional.attention_weights(Q, K, mask), expected)


@given(shapes(), st.booleans())
def test_attention(s: Shape, masked: bool):
    Q, K, Z = s.randn(*s.batch, s.M, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S), s.randn(*s.batch, s.N, s.C_out, s.S)
    mask = random_mask(*s.batch, s.N) if masked else None
    assert_close(functional.attention(Q, K, Z, mask), per_item(oracles.attention, s.batch, Q, K, Z, mask))


@given(shapes(), st.booleans())
def test_read_scalars(s: Shape, masked: bool):
    Q, K, scalars = s.randn(*s.batch, s.M, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S), s.randn(*s.batch, s.N, 2)
    mask = random_mask(*s.batch, s.N) if masked else None
    expected = per_item(oracles.attention, s.batch, Q, K, scalars[..., None], mask).squeeze(-1)
    assert_close(functional.read_scalars(Q, K, scalars, mask), expected)


@given(shapes(), st.sampled_from([1, 2, 3]), st.booleans())
def test_multihead_attention(s: Shape, heads: int, masked: bool):
    Q, K = s.randn(*s.batch, s.M, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S)
    Z = s.randn(*s.batch, s.N, s.C_out, s.S)
    W_Q, W_K = s.randn(2 * heads, s.C), s.randn(2 * heads, s.C)
    W_Z, W_O = s.randn(2 * heads, s.C_out), s.randn(s.C_out, 2 * heads)
    mask = random_mask(*s.batch, s.N) if masked else None
    q, k, z = functional.linear(Q, W_Q), functional.linear(K, W_K), functional.linear(Z, W_Z)
    actual = functional.linear(functional.multihead_attention(q, k, z, heads, mask), W_O)
    expected = per_item(
        lambda q, k, z, m: oracles.multihead_attention(q, k, z, W_Q, W_K, W_Z, W_O, heads, m), s.batch, Q, K, Z, mask
    )
    assert_close(actual, expected)


@given(shapes(), st.booleans())
def test_mean_pool(s: Shape, masked: bool):
    V = s.randn(*s.batch, s.N, s.C, s.S)
    mask = random_mask(*s.batch, s.N) if masked else None
    assert_close(functional.mean_pool(V, mask), per_item(oracles.mean_pool, s.batch, V, mask))


@given(shapes(), st.booleans(), st.sampled_from([1e-10, 0.3]))
def test_max_pool(s: Shape, masked: bool, tolerance: float):
    V, W = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.C, s.C)
    mask = random_mask(*s.batch, s.N) if masked else None
    expected = per_item(lambda v, m: oracles.max_pool(v, W, m, tie_tolerance=tolerance), s.batch, V, mask)
    assert_close(functional.max_pool(V, W, mask, tie_tolerance=tolerance), expected)


@given(shapes(), st.booleans())
def test_mean_project(s: Shape, masked: bool):
    V, W = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.M, s.C_out, s.C)
    mask = random_mask(*s.batch, s.N) if masked else None
    assert_close(
        functional.mean_project(V, W, mask), per_item(lambda v, m: oracles.mean_project(v, W, m), s.batch, V, mask)
    )


@given(shapes())
def test_invariant(s: Shape):
    V, T = s.randn(*s.batch, s.N, s.C, s.S), s.randn(*s.batch, s.N, s.C_out, s.S)
    assert_close(functional.invariant(V, T), per_item(oracles.invariant, (*s.batch, s.N), V, T))


@given(shapes(), st.integers(1, 8), st.booleans(), st.sampled_from([1e-10, 0.2]))
def test_nearest_neighbors(s: Shape, k: int, masked: bool, tolerance: float):
    x = s.randn(*s.batch, s.N, s.S)
    mask = random_mask(*s.batch, s.N) if masked else None
    index, weight = nearest_neighbors(x, k, mask, tie_tolerance=tolerance)
    dense = torch.zeros(*s.batch, s.N, s.N, dtype=x.dtype).scatter_add(-1, index, weight)
    expected = per_item(lambda v, m: oracles.neighbor_weights(v, k, m, tie_tolerance=tolerance), s.batch, x, mask)
    kept = torch.ones(*s.batch, s.N, dtype=torch.bool) if mask is None else mask  # rows of padding mean nothing
    assert_close(dense[kept], expected[kept])


@given(shapes(), st.integers(1, 4), SLOPE, EPS)
def test_edge_convolution(s: Shape, k: int, slope: float, eps: float):
    V, W, U = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.C_out, 2 * s.C), s.randn(s.C_out, 2 * s.C)
    index, weight = nearest_neighbors(V.flatten(-2), k)
    actual = functional.edge_convolution(V, index, weight, W, U, negative_slope=slope, eps=eps)

    def oracle(v):
        weights = oracles.neighbor_weights(v.flatten(-2), k)
        return oracles.edge_convolution(v, weights, W, U, negative_slope=slope, eps=eps)

    assert_close(actual, per_item(oracle, s.batch, V))


@given(shapes(), st.lists(st.floats(0.1, 3), max_size=3), st.booleans())
def test_surroundings(s: Shape, scales: list[float], masked: bool):
    x = s.randn(*s.batch, s.N, 3)
    mask = random_mask(*s.batch, s.N) if masked else None
    actual = functional.surroundings(x, tuple(scales), mask)
    assert_close(actual, per_item(lambda v, m: oracles.surroundings(v, tuple(scales), m), s.batch, x, mask))


@given(shapes(), st.integers(1, 8), st.integers(1, 12), st.booleans())
def test_fading_neighbors(s: Shape, extra: int, divisor: int, masked: bool):
    x = s.randn(*s.batch, s.N + extra, 3)
    mask = random_mask(*s.batch, s.N + extra) if masked else None
    index, weight = fading_neighbors(x, divisor, mask, resolution=torch.zeros(s.batch, dtype=x.dtype))
    dense = torch.zeros(*s.batch, s.N + extra, s.N + extra, dtype=x.dtype).scatter_add(-1, index, weight)
    expected = per_item(lambda v, m: oracles.fading_weights(v, divisor, m), s.batch, x, mask)
    assert_close(dense, expected, 1e-8)  # ties, as rounding counts them, have nothing


def test_fading_neighbors_do_not_jump_and_do_not_mind_ties():
    """The points around which others tie are many: of a lattice no neighbour is an accident of rounding."""
    lattice = torch.cartesian_prod(*[torch.arange(4.0)] * 3)
    turned = lattice.double() @ random_rotation().double()
    (index, weight), (other, same) = (fading_neighbors(x.float(), 6) for x in (lattice, turned))
    dense, expected = (torch.zeros(64, 64).scatter_add(-1, i, w) for i, w in ((other, same), (index, weight)))
    assert_close(dense, expected, 1e-4)
    x = torch.randn(60, 3, dtype=torch.float64, requires_grad=True)
    close = x.detach() + 1e-9 * torch.randn_like(x)
    near, moved = (torch.zeros(60, 60).double().scatter_add(-1, *fading_neighbors(each, 5)) for each in (x, close))
    assert_close(near, moved, 1e-6)
    (slope,) = torch.autograd.grad(near.sum(), x)
    assert bool(slope.isfinite().all())
    assert bool(slope.any())
    for copies in (torch.zeros(9, 3), torch.ones(9, 3)):
        assert fading_neighbors(copies, 3)[1].eq(0).all()
    with pytest.raises(ValueError, match="divisor"):
        fading_neighbors(lattice, 0)


def test_fading_neighbors_of_many_points_are_found_a_few_at_a_time(monkeypatch):
    x, mask = torch.randn(2, 60, 3), random_mask(2, 60)
    whole = fading_neighbors(x, 6, mask)
    monkeypatch.setattr(distances, "MOST_PAIRS", 700)
    for part, expected in zip(fading_neighbors(x, 6, mask), whole, strict=True):
        assert_close(part, expected)


@given(shapes(), st.lists(st.floats(0.1, 3), min_size=1, max_size=3), st.sampled_from([0.15, 1.0]))
def test_pair_invariants(s: Shape, scales: list[float], unit: float):
    x = s.randn(*s.batch, s.N, 3)
    index = torch.arange(s.N).expand(*s.batch, s.N, s.N)
    actual = functional.pair_invariants(x, functional.local_moments(x, tuple(scales)), index, unit)

    def oracle(v):
        rows = [[oracles.pair_invariants(v, tuple(scales), i, j, unit) for j in range(s.N)] for i in range(s.N)]
        return np.array(rows)

    assert_close(actual, per_item(oracle, s.batch, x))
    assert actual.shape[-1] == functional.OF_PAIR + functional.OF_SCALE * len(scales)


def test_pair_invariants_know_steps_and_edges():
    """On a plane the neighbour lies across no normal and normals agree; around the edge of a box they do not."""
    flat = torch.rand(2000, 3, dtype=torch.float64) * torch.tensor([1.0, 1.0, 0.0])
    bent = torch.where(flat[:, :1] < 0.5, flat, torch.stack([flat[:, 0] * 0 + 0.5, flat[:, 1], flat[:, 0] - 0.5], -1))
    far = (flat - torch.tensor([0.65, 0.5, 0.0])).norm(dim=-1).argmin()
    near = (flat - torch.tensor([0.35, 0.5, 0.0])).norm(dim=-1).argmin()
    for cloud, agree in ((flat, True), (bent, False)):
        index = far.expand(len(cloud), 1)
        e = functional.pair_invariants(cloud, functional.local_moments(cloud, (0.05,)), index, 0.15)[near, 0]
        assert (abs(float(e[8]) - 0.5) < 0.1) == agree  # tr M_i M_j is ½ for parallel normals, ¼ at right angles


@given(shapes(), st.sampled_from([0.2, 1.0]), st.booleans(), st.booleans())
def test_scan(s: Shape, spacing: float, masked: bool, nothing: bool):
    x, masses = s.randn(*s.batch, s.N, 3), s.randn(*s.batch, s.N, 2).square()
    if nothing:
        masses[..., 1] = 0
    mask = random_mask(*s.batch, s.N) if masked else None
    expected = per_item(lambda v, m, k: oracles.scan(v, m, spacing, 5, k), s.batch, x, masses, mask)
    assert_close(functional.scan(x, masses, spacing, 5, mask), expected, 1e-9)  # next to the guard, 1e-6, shares cancel


def test_scan_finds_the_radius_within_which_a_mass_lies():
    """Spread over a square, and marked within 0.5 of a point: no other radius holds the mark as tightly."""
    x = torch.rand(800, 3, dtype=torch.float64) * torch.tensor([2.0, 2.0, 0.0])
    mark = ((x - torch.tensor([1.0, 1.0, 0.0])).norm(dim=-1) < 0.5).double()
    found = functional.scan(x, mark[:, None], 0.1, 15)
    assert found[0].argmax() + 1 == 5
    assert functional.scan(x, torch.ones(800, 1, dtype=torch.float64), 0.1, 15).max() < 1e-12


def test_scan_does_not_jump_and_has_finite_slopes():
    x = torch.randn(30, 3, dtype=torch.float64)
    x[7] = x[3]  # at no distance
    x.requires_grad_()
    masses = (torch.rand(30, 1, dtype=torch.float64) < 0.3).double()
    found = functional.scan(x, masses, 0.3, 8)
    (slope,) = torch.autograd.grad(found.sum(), x)
    assert bool(slope.isfinite().all())
    moved = functional.scan(x.detach() + 1e-9 * torch.randn_like(x), masses, 0.3, 8)
    assert_close(moved, found.detach(), 1e-6)


def test_scan_of_many_points_is_made_a_few_at_a_time(monkeypatch):
    x, masses = torch.randn(2, 60, 3), torch.rand(2, 60, 1)
    whole = functional.scan(x, masses, 0.3, 8)
    monkeypatch.setattr(distances, "MOST_PAIRS", 700)
    assert torch.allclose(functional.scan(x, masses, 0.3, 8), whole, rtol=1e-6, atol=1e-7)
    for spacing, count in ((0.0, 8), (0.3, 0)):
        with pytest.raises(ValueError, match="radii must be positive"):
            functional.scan(x, masses, spacing, count)


def test_surroundings_of_many_points_are_seen_a_few_at_a_time(monkeypatch):
    x = torch.randn(2, 50, 3)
    whole = functional.surroundings(x, (0.3, 1.0))
    monkeypatch.setattr(distances, "MOST_PAIRS", 700)
    assert torch.allclose(functional.surroundings(x, (0.3, 1.0)), whole, rtol=1e-6, atol=1e-7)


def test_surroundings_have_derivatives_of_any_kind_and_take_half_precision():
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    look = partial(functional.surroundings, scales=(0.5, 1.0))
    assert torch.autograd.gradgradcheck(look, (x,))
    assert torch.autograd.gradcheck(look, (x,), check_forward_ad=True)
    half = x.detach().bfloat16()
    assert_close(look(half), look(half.float()), 1e-2)
    assert look(half).dtype == torch.bfloat16


def test_surroundings_know_a_surface():
    """On a sphere of many points, x − 2 M x is nearly x itself: the normal is radial."""
    x = F.normalize(torch.randn(4000, 3, dtype=torch.float64), dim=-1)
    Mx = functional.surroundings(x, (0.2,))[:, 1]
    assert (Mx.norm(dim=-1) < 0.1).all()
    tangent = x + F.normalize(torch.linalg.cross(x, torch.randn_like(x)), dim=-1)  # along it, M is a half
    M = torch.stack([functional.surroundings(x - 10 * axis, (0.2,))[:, 1] for axis in torch.eye(3, dtype=x.dtype)], -1)
    M = (Mx[..., None] - M) / 10  # M e_i, since the surroundings do not move: M (x − 10 e_i) = M x − 10 M e_i
    assert torch.allclose((M @ (tangent - x)[..., None])[..., 0], 0.5 * (tangent - x), atol=0.2)


@given(shapes(spatial_dims=(3, 5)))
def test_cross_product(s: Shape):
    A, B = s.randn(*s.batch, s.N, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S)
    assert_close(functional.cross_product(A, B), per_item(oracles.cross_product, (*s.batch, s.N), A, B))


def test_guards_leave_the_papers_formula_alone():
    """At the default eps, VN-ReLU and VN-LayerNorm equal the unguarded formula to 1e-6 on standard normal input."""
    V = torch.randn(64, 32, 3, dtype=torch.float64)
    W, U = torch.randn(32, 32, dtype=torch.float64), torch.randn(32, 32, dtype=torch.float64)
    ones, zeros = torch.ones(32, dtype=torch.float64), torch.zeros(32, dtype=torch.float64)
    assert_close(functional.relu(V, W, U), per_item(lambda v: oracles.relu(v, W, U, eps=0.0), (64,), V), 1e-6)
    expected = per_item(lambda v: oracles.layer_norm(v, ones, zeros, eps=0.0), (64,), V)
    assert_close(functional.layer_norm(V, ones, zeros), expected, 1e-6)
