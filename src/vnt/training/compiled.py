"""How a model is compiled for training."""

import torch
from torch import nn


def compiled(model: nn.Module, device: torch.device, *, graphs: bool = True) -> nn.Module:
    """The model through `torch.compile`; on a CUDA device as CUDA graphs, unless told not to.

    A step starts some hundred kernels, and below a few thousand points in a batch for each of them the GPU would wait
    for the program that starts them. A graph is started as one. What it gives out is overwritten by the next step.
    """
    mode = "reduce-overhead" if device.type == "cuda" and graphs else "default"
    return torch.compile(model, mode=mode)  # type: ignore[bad-return]
