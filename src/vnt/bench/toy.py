"""Small tasks and a few steps of training on them: enough to take a model off its starting point."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vnt.geometry import random_rotation, rotate


def toy_clouds(count: int, num_points: int, *, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Five kinds of stretched, bent and hollowed clouds, randomly turned: a classification task."""
    labels = torch.arange(count) % 5
    x = torch.randn(count, num_points, 3)
    stretch = torch.tensor([[1.0, 1, 1], [3, 1, 1], [1, 1, 0.1], [2, 1, 0.3], [1, 1, 1]])
    x = x * stretch[labels][:, None]
    hollow = x / x.norm(dim=-1, keepdim=True)
    x = torch.where((labels == 4)[:, None, None], hollow, x)
    return rotate(x, random_rotation(count)).to(dtype), labels


def toy_tracks(count: int, steps: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Tracks of constant speed and turn rate, in a random direction: (count, steps, 3)."""
    t = torch.arange(steps)
    speed, rate = 0.5 + torch.rand(count, 1), 0.1 * torch.randn(count, 1)
    heading = rate * t
    velocity = torch.stack([speed * heading.cos(), speed * heading.sin(), torch.zeros_like(heading)], -1)
    return rotate(velocity.cumsum(1), random_rotation(count)).to(dtype)


def train_classifier(model: nn.Module, steps: int = 50, num_points: int = 64, num_classes: int = 5) -> None:
    """AdamW on `toy_clouds`, in place; leaves the model in training mode."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    dtype = next(model.parameters()).dtype
    for _ in range(steps):
        points, labels = toy_clouds(16, num_points, dtype=dtype)
        loss = F.cross_entropy(model.train()(points), labels % num_classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train_forecaster(model: nn.Module, steps: int = 50, past: int = 11) -> None:
    """AdamW on `toy_tracks`, in place; leaves the model in training mode."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    dtype = next(model.parameters()).dtype
    for _ in range(steps):
        tracks = toy_tracks(32, past + 80, dtype=dtype)
        loss = (model.train()(tracks[:, :past]) - tracks[:, past:]).norm(dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
