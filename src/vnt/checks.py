"""What wrong input is told: shape checks always, checks of values behind one switch.

Looking at values costs a pass over the data, and on a GPU a wait for it, so those checks can be turned off; they are
never part of a compiled or exported graph, where a Python exception has no place.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor
from torch._subclasses import FakeTensor

_values_wanted = ContextVar("values_wanted", default=True)


@contextmanager
def value_checks(*, enabled: bool) -> Generator[None]:
    """Turn the checks of values (NaN points, empty masks) on or off inside a ``with`` block, in this thread.

    `torch.func.vmap` cannot look at values either: switch them off around it.

    >>> import vnt
    >>> with vnt.value_checks(enabled=False):
    ...     pass
    """
    token = _values_wanted.set(enabled)
    try:
        yield
    finally:
        _values_wanted.reset(token)


def values_are_checked() -> bool:
    """Whether checks of values run here: in eager mode, unless switched off."""
    return not torch.compiler.is_compiling() and _values_wanted.get()


def has_values(x: Tensor) -> bool:
    """Whether shapes may depend on the values of x: not in a compiled or exported program, and not under `vmap`."""
    if torch.compiler.is_compiling():
        return False
    while torch._C._functorch.is_gradtrackingtensor(x):  # `vmap(grad(f))`
        x = torch._C._functorch.get_unwrapped(x)
    return not (isinstance(x, FakeTensor) or torch._C._functorch.is_batchedtensor(x))


def require_channels(V: Tensor, channels: int, owner: str) -> None:
    """V must be (..., channels, S)."""
    if V.ndim < 2 or V.shape[-2] != channels:
        raise ValueError(f"{owner} expects a tensor (..., {channels}, S) of {channels} channels, got {tuple(V.shape)}")


def require_spatial_dim(V: Tensor, spatial_dim: int, owner: str) -> None:
    """V must be (..., spatial_dim)."""
    if V.shape[-1] != spatial_dim:
        raise ValueError(f"{owner} expects a last axis of {spatial_dim} coordinates, got {tuple(V.shape)}")


def require_mask(mask: Tensor | None, shape: torch.Size, owner: str, *, on_any_device: bool = False) -> None:
    """The mask, where given, must be Boolean and of one entry per token, and leave at least one token to each cloud.

    A layer looks at the values on the CPU only, where it is cheap; a model once, on any device.
    """
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"{owner} expects a Boolean mask, True where a point exists, got {mask.dtype}")
    if mask.shape != shape:
        raise ValueError(f"{owner} expects a mask of shape {tuple(shape)}, got {tuple(mask.shape)}")
    if not (values_are_checked() and (on_any_device or mask.device.type == "cpu")):
        return
    if not mask.any(-1).all():
        empty = (~mask.any(-1)).nonzero().tolist()
        where = f" in cloud {empty[0]}" if mask.ndim > 1 else ""
        raise ValueError(f"{owner} got a mask that leaves no point{where}: every cloud needs at least one True")


def require_finite(x: Tensor, mask: Tensor | None, name: str) -> None:
    """Every entry of x that the mask keeps must be finite; x is (*mask.shape, ...)."""
    if not values_are_checked():
        return
    wrong = ~torch.isfinite(x)
    if mask is not None:
        wrong = wrong & mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
    if wrong.any():
        place = wrong.nonzero()[0].tolist()
        value = x[tuple(place)].item()
        raise ValueError(f"{name} must be finite, got {value} at index {tuple(place)} ({int(wrong.sum())} in all)")
