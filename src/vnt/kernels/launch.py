"""How a kernel is started."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

Settings = dict[str, int]
"""Block sizes, warps and stages of a kernel: those that were fastest on an H200."""


def launch(kernel: Any, grid: tuple[int, ...], *arguments: object, **settings: object) -> None:
    """``kernel[grid](...)`` on the device of its first argument, a tensor."""
    x = arguments[0]
    with torch.cuda.device(x.device) if isinstance(x, Tensor) and x.is_cuda else nullcontext():
        kernel[grid](*arguments, **settings)
