"""AdamW or SGD with the usual groups, and the learning rate as a function of the step."""

import math

import torch
from torch import nn

from vnt.training.config import TrainConfig

MOMENTUM = 0.9


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The config's optimizer; matrices decay, gains and biases do not, whatever their shape."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    kept = {name for name, p in trained.items() if p.ndim <= 1 or name.rpartition(".")[2].startswith(("gain", "bias"))}
    decayed, rest = ([p for name, p in trained.items() if (name in kept) == keep] for keep in (False, True))
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    fused = any(p.is_cuda for p in decayed)
    groups = [group for group in groups if group["params"]]
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=MOMENTUM, nesterov=True, fused=fused)
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=fused)


def learning_rate(config: TrainConfig, step: int, num_steps: int) -> float:
    """Rises linearly over the warm-up, then falls as the schedule says, to the final one at the end.

    >>> config = TrainConfig(learning_rate=1.0, warmup=0.1, schedule="linear")
    >>> [round(learning_rate(config, step, 100), 3) for step in (0, 4, 9, 10, 55, 99)]
    [0.1, 0.5, 1.0, 1.0, 0.5, 0.011]
    """
    rising = round(config.warmup * num_steps)
    if step < rising:
        return config.learning_rate * (step + 1) / rising
    done = (step - rising) / max(num_steps - rising, 1)
    falling = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
    lowest = config.final_learning_rate if config.schedule != "constant" else 0.0
    return lowest + (config.learning_rate - lowest) * falling[config.schedule]
