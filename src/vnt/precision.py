"""The precision policy: lengths, norms and inner products of vectors are taken in float32 or better."""

import torch
from torch import Tensor


def full_precision(x: Tensor) -> torch.autocast:
    """A context in which autocast does not round products with x: for what a small error would change a lot."""
    return torch.autocast(x.device.type, enabled=False)


def at_least_float32(x: Tensor) -> Tensor:
    """x itself, or its float32 copy where it came out of autocast in half precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
