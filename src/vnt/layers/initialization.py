"""Fan-in initialisation, one rule for every weight: entries N(0, 1/fan_in) keep the mean squared length of channels.

Attention then starts far from saturation, and a deep pre-norm encoder neither explodes nor dies.
"""

import math
from numbers import Integral

import torch
from torch import nn


def fan_in_weight(*shape: int) -> nn.Parameter:
    """A weight (..., out, in) with standard deviation 1/√in."""
    return nn.Parameter(torch.randn(shape) * shape[-1] ** -0.5)


def require_positive(**sizes: int) -> None:
    """Sizes of a layer must be whole numbers of at least one; the error names the argument."""
    for name, value in sizes.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def require_guard(**values: float | None) -> None:
    """Guards and slopes must be finite and not negative, or not given; the error names the argument."""
    for name, value in values.items():
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name} must be at least 0 and finite, got {value!r}")
