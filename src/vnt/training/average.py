"""A running average of the weights: smoother than the last step's, and what is evaluated and kept."""

import copy

import torch
from torch import nn


class Average:
    """The exponential moving average of a model's weights and running statistics.

    In the first steps the decay is lower, (1 + t)/(10 + t), so that the random start is forgotten.

    Args:
        model: whose weights are followed.
        decay: of the average; 0 follows the weights at once.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Move towards the weights after step number ``step``, counted from 0."""
        weight = 1 - min(self.decay, (1 + step) / (10 + step)) if self.decay else 1.0
        both = zip(self.model.state_dict().values(), model.state_dict().values(), strict=True)
        pairs = {mine.data_ptr(): (mine, theirs) for mine, theirs in both}.values()  # tied weights move once
        floats = [(mine, theirs) for mine, theirs in pairs if mine.is_floating_point()]
        torch._foreach_lerp_([mine for mine, _ in floats], [theirs for _, theirs in floats], weight)
        for mine, theirs in pairs:
            if not mine.is_floating_point():
                mine.copy_(theirs)
