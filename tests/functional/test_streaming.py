"""Sums over chunks of points are the sums over all points: against the loop oracles, to 1e-12 in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import Shape, assert_close, per_item, random_mask, shapes
from vnt import functional
from vnt.functional import streaming
from vnt.testing import oracles

SIZE = st.integers(1, 4)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """A few points have several blocks too, and a last one that padding fills."""
    monkeypatch.setattr(streaming, "BLOCK", 3)


def chunks(size: int, axis: int, *tensors):
    """Tensors with an axis of points, and None, in chunks side by side."""
    count = next(-(-x.shape[axis] // size) for x in tensors if x is not None)
    return zip(*([None] * count if x is None else x.split(size, axis) for x in tensors), strict=True)


@given(shapes(), SIZE, st.booleans())
def test_mean(s: Shape, size: int, masked: bool):
    V, W = s.randn(*s.batch, s.N, s.C, s.S), s.randn(s.M, s.C_out, s.C)
    mask = random_mask(*s.batch, s.N) if masked else None
    mean = functional.merge_sums([functional.token_sum(*part) for part in chunks(size, len(s.batch), V, mask)])
    assert_close(mean, per_item(oracles.mean_pool, s.batch, V, mask))
    expected = per_item(lambda v, m: oracles.mean_project(v, W, m), s.batch, V, mask)
    assert_close(functional.project_mean(mean, W), expected)


@given(shapes(), SIZE, st.sampled_from([1, 2, 3]), st.booleans(), st.booleans())
def test_multihead_attention(s: Shape, size: int, heads: int, masked: bool, biased: bool):
    """Masks leave some chunks without any point; biases are those of VN-LinearWithBias, on keys and values."""
    Q, V = s.randn(*s.batch, s.M, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S)
    W_Q, W_K, W_Z = (s.randn(2 * heads, s.C) for _ in range(3))
    b_K, b_Z = (float(biased) * s.randn(2 * heads, s.S) for _ in range(2))
    mask = random_mask(*s.batch, s.N) if masked else None
    q, k, z = (functional.linear(x, W) for x, W in ((Q, W_Q), (V, W_K), (V, W_Z)))
    expected = functional.multihead_attention(q, k + b_K, z + b_Z, heads, mask)

    queries, offset = functional.fold_keys(q, W_K, heads, b_K if biased else None)
    assert (offset is not None) == biased
    parts = [
        functional.attend_to_chunk(queries, part, part, kept, offset)
        for part, kept in chunks(size, len(s.batch), V, mask)
    ]
    Z = functional.linear(functional.merge_attention(parts), W_Z) + b_Z
    assert_close(functional.pick_heads(Z, heads), expected)


@given(shapes(), SIZE, st.booleans())
def test_scalars(s: Shape, size: int, masked: bool):
    Q, K, scalars = s.randn(*s.batch, s.M, s.C, s.S), s.randn(*s.batch, s.N, s.C, s.S), s.randn(*s.batch, s.N, 2)
    mask = random_mask(*s.batch, s.N) if masked else None
    scale = (s.C * s.S) ** -0.5
    parts = [
        functional.attend_to_chunk(scale * Q, k, x[..., None], kept)
        for k, x, kept in chunks(size, len(s.batch), K, scalars, mask)
    ]
    expected = per_item(oracles.attention, s.batch, Q, K, scalars[..., None], mask)
    assert_close(functional.merge_attention(parts), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e1, 1e3, 1e5])
def test_scores_of_any_size_are_stable(dtype, size):
    """The largest score is in another chunk for each query, and exp of any of them would overflow."""
    Q, V = torch.randn(4, 5, 3, dtype=dtype), torch.randn(12, 5, 3, dtype=dtype)
    Q = (size * Q).requires_grad_()
    whole = (Q.flatten(1) @ V.flatten(1).mT).softmax(-1) @ V.flatten(1)
    merged = functional.merge_attention([functional.attend_to_chunk(Q, v, v) for v in V.split(5)]).flatten(1)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert_close(merged, whole, tolerance)
    actual, expected = (torch.autograd.grad(x.square().sum(), Q)[0] for x in (merged, whole))
    assert_close(actual, expected, tolerance)


def test_float16_has_room_for_large_values_and_attributes_are_not_rounded():
    """A sum of a thousand values of 300 is no number in float16; 281.3 is 281.25 there, and 282 in bfloat16."""
    Q, V = torch.zeros(2, 5, 3), torch.randn(2048, 5, 3)
    for half in (torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=half):
            big = functional.merge_attention([functional.attend_to_chunk(Q, v, 0 * v + 300) for v in V.split(1024)])
            z = torch.full((2048, 1, 1), 281.3)
            parts = zip(V.split(1024), z.split(1024), strict=True)
            chunked = functional.merge_attention([functional.attend_to_chunk(Q, v, s) for v, s in parts])
            whole = functional.read_scalars(Q, V, z[..., 0])
        assert_close(big, torch.full_like(big, 300), 1e-2)
        assert_close(chunked[..., 0], whole, 1e-5)
        assert_close(whole, torch.full_like(whole, 281.3), 1e-5)


def test_a_chunk_without_points_has_no_weight_and_no_gradient():
    V = torch.randn(2, 6, 4, 3, dtype=torch.float64, requires_grad=True)
    Q = torch.randn(2, 3, 4, 3, dtype=torch.float64)
    mask = torch.tensor([[False] * 3 + [True] * 3, [True] * 3 + [False] * 3])
    parts = [functional.attend_to_chunk(Q, v, v, m) for v, m in zip(V.split(3, 1), mask.split(3, 1), strict=True)]
    out = functional.merge_attention(parts)
    alone = torch.stack([functional.attend_to_chunk(Q[i], v, v).value for i, v in ((0, V[0, 3:]), (1, V[1, :3]))])
    assert_close(out, alone)
    (gradient,) = torch.autograd.grad(out.square().sum(), V)
    assert (gradient[~mask] == 0).all()
    assert torch.isfinite(gradient).all()
    assert (gradient[mask] != 0).any()
