"""How a model is compiled for training."""

import torch
from torch import nn


def compiled(model: nn.Module, device: torch.device, *, alone: bool = True) -> nn.Module:
    """The model through `torch.compile`; on a CUDA device, where it trains ``alone``, as CUDA graphs.

    A step starts some hundred kernels, and below a few thousand points in a batch for each of them the GPU would wait
    for the program that starts them. A graph is started as one.
    """
    mode = "reduce-overhead" if device.type == "cuda" and alone else "default"
    return torch.compile(model, mode=mode)  # type: ignore[bad-return]
