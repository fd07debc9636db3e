"""The kernels of sub-layers and of attention, run by Triton's interpreter on the CPU: equal to their twins."""

import os

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is not installed")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("set TRITON_INTERPRET=1, as `make test` does", allow_module_level=True)

from vnt import functional
from vnt.kernels import half_precision
from vnt.kernels.attention import attend, attend_backward, blocks
from vnt.kernels.sublayers import invariant, residual_attention, residual_mlp, rms_norm

FULL = torch.float32


def weight(rows, columns):
    return (torch.randn(rows, columns) / columns**0.5).requires_grad_()


def assert_same(actual, expected, inputs, tolerance=1e-5):
    """Values, and the gradients of all inputs."""
    assert actual.shape == expected.shape
    assert float((actual - expected).detach().abs().max()) <= tolerance * float(expected.detach().abs().max())
    g = torch.randn_like(actual)
    for a, b in zip(torch.autograd.grad(actual, inputs, g), torch.autograd.grad(expected, inputs, g), strict=True):
        assert a.shape == b.shape
        assert float((a - b).abs().max()) <= tolerance * float(b.abs().max())


@pytest.mark.parametrize(("channels", "heads"), [(64, 4), (32, 8), (16, 1)])
@pytest.mark.parametrize("points", [7, 130])
def test_attention_sublayer(channels, heads, points):
    x = torch.randn(2, points, 3, channels, requires_grad=True)
    gain = (1 + 0.1 * torch.randn(channels)).requires_grad_()
    W = [weight(channels, channels) for _ in range(4)]
    fused = residual_attention(x, torch.cat(W[:3]) * gain, W[3], heads, 0.5, FULL, None, 0)[0]
    twin = functional.residual_attention(x.mT, gain, *W, heads, norm_eps=0.5).mT
    assert_same(fused, twin, (x, gain, *W))


@pytest.mark.parametrize(("channels", "hidden"), [(64, 128), (32, 32), (16, 96)])
@pytest.mark.parametrize(("slope", "relu_eps"), [(0.0, 1e-2), (0.2, 1e-12), (-0.1, 0.5)])
def test_mlp_sublayer(channels, hidden, slope, relu_eps):
    x = torch.randn(3, 23, 3, channels, requires_grad=True)
    gain = (1 + 0.1 * torch.randn(channels)).requires_grad_()
    W, U, W_2 = weight(hidden, channels), weight(hidden, channels), weight(channels, hidden)
    fused = residual_mlp(x, torch.cat([W, U]) * gain, W_2, slope, relu_eps, 0.5, FULL)
    twin = functional.residual_mlp(
        x.mT, gain, W, U, W_2, negative_slope=slope, relu_eps=relu_eps, norm_eps=0.5
    ).mT  # fmt: skip
    assert_same(fused, twin, (x, gain, W, U, W_2), 1e-4)


@pytest.mark.parametrize("channels", [64, 16])
def test_invariant(channels):
    x = torch.randn(2, 37, 3, channels, requires_grad=True)
    W, U, W_2 = weight(channels, channels), weight(channels, channels), weight(3, channels)
    fused = invariant(x, torch.cat([W, U]), W_2, 0.1, 1e-2, FULL)
    twin = functional.framed_invariant(x.mT, W, U, W_2, negative_slope=0.1, relu_eps=1e-2).mT
    assert_same(fused, twin, (x, W, U, W_2), 1e-4)


@pytest.mark.parametrize("channels", [64, 16])
def test_norm(channels):
    x = torch.randn(2, 37, 3, channels, requires_grad=True)
    gain = (1 + 0.1 * torch.randn(channels)).requires_grad_()
    assert_same(rms_norm(x, gain, 0.5), functional.rms_norm(x.mT, gain, eps=0.5).mT, (x, gain))


@pytest.mark.parametrize("E", [3, 12, 24, 48, 96])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (70, 70), (33, 140), (128, 64)])
def test_attention(E, queries, keys):
    q, k, v = (torch.randn(2, n, 2, E, requires_grad=True) for n in (queries, keys, keys))
    expected = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)
    out, lse = attend(q.detach(), k.detach(), v.detach())
    assert torch.allclose(out, expected, atol=1e-5)
    g = torch.randn_like(out)
    actual = attend_backward(g, q.detach(), k.detach(), v.detach(), out, lse)
    for a, b in zip(actual, torch.autograd.grad(expected, (q, k, v), g), strict=True):
        assert torch.allclose(a, b, atol=1e-5 * max(1.0, float(b.abs().max())))


def test_packed_attention_keeps_items_apart():
    lengths = torch.tensor([5, 0, 70, 33])
    starts = F.pad(lengths.cumsum(0), (1, 0)).int()
    q, k, v = (torch.randn(int(lengths.sum()), 2, 12, requires_grad=True) for _ in range(3))
    parts = [
        [x.transpose(0, 1) for x in item] for item in zip(*(x.split(lengths.tolist()) for x in (q, k, v)), strict=True)
    ]
    expected = torch.cat([F.scaled_dot_product_attention(*p).transpose(0, 1) for p in parts if p[0].shape[1]])
    out, lse = attend(q.detach(), k.detach(), v.detach(), starts, 70)
    assert torch.allclose(out, expected, atol=1e-5)
    g = torch.randn_like(out)
    actual = attend_backward(g, q.detach(), k.detach(), v.detach(), out, lse, starts, 70)
    for a, b in zip(actual, torch.autograd.grad(expected, (q, k, v), g), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_attention_with_large_logits():
    q, k, v = 60 * torch.randn(1, 40, 1, 16), 60 * torch.randn(1, 90, 1, 16), torch.randn(1, 90, 1, 16)
    expected = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)
    out, lse = attend(q, k, v)
    assert torch.allclose(out, expected, atol=1e-3)
    assert all(torch.isfinite(d).all() for d in attend_backward(torch.ones_like(out), q, k, v, out, lse))


@pytest.mark.parametrize(
    ("E", "expected"), [(3, (16, 0)), (12, (16, 0)), (24, (32, 0)), (48, (32, 16)), (96, (64, 32))]
)
def test_blocks_hold_a_head(E, expected):
    assert blocks(E) == expected


def test_the_library_accepts_the_operators():
    x, w = torch.randn(2, 5, 3, 16), torch.randn(48, 16)
    tests = ("test_schema", "test_faketensor")
    attention = (x, w, w[:16], 2, 1.0, FULL, None, 0)
    torch.library.opcheck(residual_attention, attention, test_utils=tests)
    torch.library.opcheck(
        residual_mlp, (x, torch.randn(64, 16), torch.randn(16, 32), 0.0, 1e-2, 1.0, FULL), test_utils=tests
    )
    torch.library.opcheck(rms_norm, (x, torch.ones(16), 1.0), test_utils=tests)
    torch.library.opcheck(invariant, (x, torch.randn(32, 16), torch.randn(3, 16), 0.0, 1e-2, FULL), test_utils=tests)


def test_sublayers_are_never_chosen_on_a_cpu():
    assert half_precision(torch.randn(4, 64, 3).bfloat16()) is None
