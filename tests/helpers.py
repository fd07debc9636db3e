"""What several tests share: random shapes, closeness, and the models under test."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """A drawn size of everything, and a seed for the numbers."""

    batch: tuple[int, ...]
    N: int
    M: int
    C: int
    C_out: int
    S: int
    seed: int

    def randn(self, *size: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Standard normal numbers; the first call seeds, so draw everything in one test through one Shape."""
        return torch.randn(*size, dtype=dtype)


@st.composite
def shapes(draw, min_channels: int = 1, spatial_dims: tuple[int, ...] = (2, 3, 5)) -> Shape:
    shape = Shape(
        batch=draw(st.sampled_from([(), (1,), (3,), (2, 2)])),
        N=draw(st.integers(1, 6)),
        M=draw(st.integers(1, 4)),
        C=draw(st.integers(min_channels, 6)),
        C_out=draw(st.integers(min_channels, 6)),
        S=draw(st.sampled_from(spatial_dims)),
        seed=draw(st.integers(0, 2**31)),
    )
    torch.manual_seed(shape.seed)
    return shape


def random_mask(*size: int) -> Tensor:
    """A random mask that leaves at least one token to each cloud."""
    mask = torch.rand(size) < 0.6
    mask[..., 0] |= ~mask.any(-1)
    return mask


def assert_close(actual, expected, tolerance: float = 1e-12) -> None:
    """Largest difference, relative to the largest expected value where that exceeds one."""
    actual, expected = (torch.as_tensor(x).detach().double() for x in (actual, expected))
    assert actual.shape == expected.shape, f"{tuple(actual.shape)} is not {tuple(expected.shape)}"
    if expected.numel():
        error = float((actual - expected).abs().max()) / max(1.0, float(expected.abs().max()))
        assert error <= tolerance, f"off by {error:.2e}, more than {tolerance:.0e}"


def per_item(oracle, batch: tuple[int, ...], *tensors: Tensor | None) -> Tensor:
    """The oracle on each item of the leading axes, put back together. Each tensor's leading axes are ``batch``."""
    flat = [None if x is None else x.reshape(-1, *x.shape[len(batch) :]) for x in tensors]
    count = next(len(x) for x in flat if x is not None)
    items = [torch.as_tensor(oracle(*[None if x is None else x[i] for x in flat])) for i in range(count)]
    return torch.stack(items).reshape(*batch, *items[0].shape)


def centred_logits(model):
    """Logits less their mean: what softmax sees, and what an error must be relative to."""

    def function(*args):
        logits = model(*args)
        return logits - logits.mean(-1, keepdim=True)

    function.__name__ = type(model).__name__
    return function


def displacements(model):
    """A forecast relative to the last observed point."""

    def function(past, *args):
        return model(past, *args) - past[..., -1:, :]

    function.__name__ = type(model).__name__
    return function
