"""The rectifier's kernel, run by Triton's interpreter on the CPU: equal to its twin, forward and backward."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("set TRITON_INTERPRET=1, as `make test` does", allow_module_level=True)

from vnt.functional.activation import rectify as twin
from vnt.kernels import kernels, usable
from vnt.kernels.rectify import rectify

SHAPES = [(1, 3, 1), (5, 3, 7), (2, 33, 3, 64), (17, 2, 20), (3, 5, 130)]


def reference(qk, slope, eps):
    C = qk.shape[-1] // 2
    return twin(qk[..., :C].mT, qk[..., C:].mT, negative_slope=slope, eps=eps).mT


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("slope", "eps"), [(0.0, 1e-2), (0.2, 1e-12), (-0.1, 0.5)])
def test_equal_to_its_twin(shape, slope, eps):
    qk = torch.randn(*shape[:-1], 2 * shape[-1], requires_grad=True)
    out, expected = rectify(qk, slope, eps), reference(qk, slope, eps)
    assert out.shape == shape
    assert torch.allclose(out, expected, rtol=1e-5, atol=1e-6)
    g = torch.randn_like(out)
    (actual,), (wanted,) = (torch.autograd.grad(y, qk, g) for y in (out, expected))
    assert torch.allclose(actual, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))


def test_zero_vectors_have_finite_gradients():
    qk = torch.zeros(4, 3, 16, requires_grad=True)
    out = rectify(qk, 0.0, 1e-2)
    (actual,) = torch.autograd.grad(out, qk, torch.ones_like(out))
    (wanted,) = torch.autograd.grad(reference(qk, 0.0, 1e-2), qk, torch.ones_like(out))
    assert torch.equal(actual, wanted)


def test_any_layout_of_its_input():
    qk = torch.randn(4, 16, 3).mT
    assert torch.allclose(rectify(qk, 0.0, 1e-2), reference(qk, 0.0, 1e-2), rtol=1e-5, atol=1e-6)


def test_half_precision_computes_in_full():
    qk = torch.randn(6, 3, 32).bfloat16()
    exact = reference(qk.float(), 0.0, 1e-2)
    assert rectify(qk, 0.0, 1e-2).dtype == torch.bfloat16
    assert float((rectify(qk, 0.0, 1e-2).float() - exact).abs().max()) <= 2**-7 * float(exact.abs().max())


def test_the_library_accepts_it_as_an_operator():
    qk = torch.randn(5, 3, 8, requires_grad=True)
    torch.library.opcheck(rectify, (qk, 0.1, 1e-2), test_utils=("test_schema", "test_faketensor"))


def test_never_chosen_on_a_cpu_nor_when_switched_off():
    x = torch.randn(2, 4, 3)
    assert not usable(x)
    with kernels(False):
        assert not usable(x)
