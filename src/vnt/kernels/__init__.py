"""Triton kernels for what a compiler does badly; each has a plain PyTorch twin in `vnt.functional`, the reference.

Chosen automatically on CUDA devices: the rectifier for float32 and half precision, whole sub-layers for half precision
(under autocast, or of tokens that are half themselves). ``kernels(False)``, or ``VNT_KERNELS=0`` in the environment,
turns them off. They have no second derivative and no forward mode: turn them off for those.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

HALVES = (torch.bfloat16, torch.float16)
_on = os.environ.get("VNT_KERNELS", "1") != "0"
_here = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
_tensor_cores = _here and torch.cuda.get_device_capability() >= (8, 0)
if _here:
    importlib.import_module("vnt.kernels.rectify")  # registers torch.ops.vnt.rectify
    importlib.import_module("vnt.kernels.sublayers")  # and those of vnt.functional.fused


@contextmanager
def kernels(on: bool) -> Iterator[None]:
    """Within it, kernels are used where they can be, or not at all."""
    global _on
    before, _on = _on, on
    try:
        yield
    finally:
        _on = before


def is_exporting() -> bool:
    """Whether `torch.export` traces, and not `torch.compile`: torch's own answer is yes for both in some versions."""
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()


def usable(x: Tensor) -> bool:
    """Whether kernels may take this tensor; `torch.export`, which traces without dynamo, keeps to the twins."""
    known = x.dtype in (torch.float32, *HALVES)
    return _on and _here and x.is_cuda and known and x.numel() > 0 and not is_exporting()


def half_precision(V: Tensor) -> torch.dtype | None:
    """The half precision in which the kernels of sub-layers would take products with these tokens, if they may at all.

    They hold the channels of a token as one block, so these are 16, 32 or 64, of three coordinates each.
    """
    if not (_tensor_cores and usable(V)) or V.shape[-1] != 3 or V.shape[-2] not in (16, 32, 64):
        return None
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else V.dtype
    return dtype if dtype in HALVES else None
