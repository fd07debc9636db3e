"""Triton kernels for what a compiler does badly; each has a plain PyTorch twin in `vnt.functional`, the reference.

Chosen automatically for float32 and half precision on CUDA devices; ``kernels(False)``, or ``VNT_KERNELS=0`` in the
environment, turns them off. They have no second derivative and no forward mode: turn them off for those.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_on = os.environ.get("VNT_KERNELS", "1") != "0"
_here = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
if _here:
    importlib.import_module("vnt.kernels.rectify")  # registers torch.ops.vnt.rectify


@contextmanager
def kernels(on: bool) -> Iterator[None]:
    """Within it, kernels are used where they can be, or not at all."""
    global _on
    before, _on = _on, on
    try:
        yield
    finally:
        _on = before


def usable(x: Tensor) -> bool:
    """Whether kernels may take this tensor; `torch.export`, which traces without dynamo, keeps to the twins."""
    exporting = torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
    return (
        _on
        and _here
        and x.is_cuda
        and x.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and x.numel() > 0
        and not exporting
    )
