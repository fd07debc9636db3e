"""Triton kernels for what a compiler does badly; each has a plain PyTorch twin in `vnt.functional`, the reference.

Chosen automatically on CUDA devices: the rectifier for float32 and half precision, whole sub-layers for half precision
(under autocast, or of tokens that are half themselves). ``kernels(False)``, or ``VNT_KERNELS=0`` in the environment,
turns them off. They have no second derivative: turn them off for those. In forward mode and under `torch.func` their
twins take their place.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd import forward_ad

HALVES = (torch.bfloat16, torch.float16)
_on = os.environ.get("VNT_KERNELS", "1") != "0"
_here = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
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


def _has_tensor_cores() -> bool:
    """Asked when first needed: the answer wakes the GPU, which an import must not."""
    return _here and torch.cuda.get_device_capability() >= (8, 0)


if _here:  # elsewhere nothing asks, and the decorator imports the whole compiler
    _has_tensor_cores = torch.compiler.assume_constant_result(_has_tensor_cores)


def _differentiates_otherwise() -> bool:
    """Whether forward mode or a transform of `torch.func` is at work: kernels know of neither."""
    if torch.compiler.is_compiling():
        return False
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


def usable(x: Tensor) -> bool:
    """Whether kernels may take this tensor; `torch.export`, which traces without dynamo, keeps to the twins."""
    if not (_on and _here and x.is_cuda):
        return False
    known = x.dtype in (torch.float32, *HALVES)
    return known and x.numel() > 0 and not is_exporting() and not _differentiates_otherwise()


def half_precision(V: Tensor) -> torch.dtype | None:
    """The half precision in which the kernels of sub-layers would take products with these tokens, if they may at all.

    They hold the channels of a token as one block, so these are 16, 32 or 64, of three coordinates each.
    """
    if not usable(V) or not _has_tensor_cores() or V.shape[-1] != 3 or V.shape[-2] not in (16, 32, 64):
        return None
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else V.dtype
    return dtype if dtype in HALVES else None
