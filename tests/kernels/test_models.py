"""Whole models by way of the kernels, run by Triton's interpreter on the CPU: equal to the modules they stand for."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("set TRITON_INTERPRET=1, as `make test` does", allow_module_level=True)

import vnt
import vnt.functional.fused
import vnt.functional.normalization
import vnt.kernels.sublayers
import vnt.layers.encoder
import vnt.layers.invariant
from vnt import functional
from vnt.geometry import Packing

OPTIONS = {
    "default": {},
    "post-norm": {"norm_position": "post"},
    "norms in branches": {"norm_position": "branch"},
    "a norm in the MLP": {"mlp_norm": "rms"},
    "the paper's norm": {"norm": "layer"},
    "with ε": {"bias_epsilon": 0.1},
    "leaky": {"negative_slope": 0.2},
    "another guard": {"norm_eps": 0.5},
    "hidden channels that fill no block": {"hidden_channels": 40},
    "hidden channels of three blocks": {"hidden_channels": 96},
    "chirality": {"chirality": True},
    "latents": {"num_latents": 3},
    "latents read back": {"num_latents": 3, "read_back": True},
    "early": {"num_attributes": 1, "fusion": "early"},
    "late": {"num_attributes": 1, "fusion": "late"},
}
PLACES = (vnt.functional.fused, vnt.functional.normalization, vnt.layers.encoder, vnt.layers.invariant)
MASK = torch.arange(9) < torch.tensor([[9], [1], [4]])


@pytest.fixture
def by_kernels(monkeypatch):
    """What chooses kernels, made to choose them on the CPU, and with float32 for half precision."""

    def choose(V):
        return torch.float32 if V.shape[-1] == 3 and V.shape[-2] in (16, 32, 64) else None

    def switch(on):
        for place in PLACES:
            monkeypatch.setattr(place, "half_precision", choose if on else lambda V: None)

    return switch


def differentiated(model, *inputs):
    out = model(*inputs)
    found = torch.autograd.grad(out.square().sum(), list(model.parameters()), allow_unused=True)
    return [out.detach(), *(g for g in found if g is not None)]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("mask", [None, MASK], ids=["full", "ragged"])
def test_kernels_do_what_the_modules_do(name, mask, by_kernels):
    torch.manual_seed(0)
    config = vnt.ClassifierConfig(num_classes=5, channels=16, num_heads=4, depth=2, **OPTIONS[name])
    model = vnt.VNTransformerClassifier(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # gains of one would hide that they are left out
    inputs = (torch.randn(3, 9, 3), torch.randn(3, 9, 1) if config.num_attributes else None, mask)
    by_kernels(False)
    expected = differentiated(model, *inputs)
    by_kernels(True)
    actual = differentiated(model, *inputs)
    assert len(actual) == len(expected)
    largest = max(float(x.abs().max()) for x in expected)
    for a, e in zip(actual, expected, strict=True):
        assert float((a - e).abs().max()) <= 1e-4 * largest


def test_wrong_shapes_are_refused_before_a_kernel_reads_them(by_kernels):
    by_kernels(True)
    block, packing = vnt.VNEncoderBlock(64, num_heads=4), Packing.of(MASK)
    with pytest.raises(ValueError, match="64 channels"):
        block(torch.randn(2, 5, 32, 3))
    with pytest.raises(ValueError, match="4 coordinates"):
        vnt.VNEncoderBlock(16, num_heads=4, spatial_dim=4)(torch.randn(2, 5, 16, 3))
    with pytest.raises(ValueError, match="4 coordinates"):
        vnt.VNInvariant(16, spatial_dim=4)(torch.randn(2, 5, 16, 3))
    for tokens in (torch.randn(10, 64, 3), torch.randn(3, 9, 64, 3)):
        with pytest.raises(ValueError, match="expected 14 packed tokens"):
            block(tokens, packing)


def test_what_kernels_cannot_take_is_composed(by_kernels):
    by_kernels(True)
    V, gain = torch.randn(4, 7, 16, 3), torch.rand(16)
    weights = [torch.randn(40, 16), torch.randn(40, 16), torch.randn(16, 40)]
    shared = [torch.randn(32, 16), torch.randn(1, 16), torch.randn(16, 32)]
    settings = {"negative_slope": 0.0, "relu_eps": 1e-2, "norm_eps": 1.0}
    for W, U, W_2 in (weights, shared):
        by_kernels(True)
        actual = functional.residual_mlp(V, gain, W, U, W_2, **settings)
        by_kernels(False)
        assert torch.allclose(actual, functional.residual_mlp(V, gain, W, U, W_2, **settings), rtol=1e-4, atol=1e-4)


def test_many_small_clouds_fit_the_grid(by_kernels):
    """CUDA allows 65,535 programs along all axes but the first."""
    from vnt.kernels import attention

    grids = []
    launch = attention.launch
    attention.launch = lambda kernel, grid, *rest, **settings: grids.append(grid)
    try:
        attention.attend(*(torch.randn(8192, 1, 8, 3) for _ in range(3)))
    finally:
        attention.launch = launch
    assert all(size <= 65535 for grid in grids for size in grid[1:])
