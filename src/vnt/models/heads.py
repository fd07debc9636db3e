"""The ordinary networks behind the invariants: on each point before the pool, and on what the pool leaves."""

from torch import nn


def make_point_mlp(width: int, channels: int) -> nn.Sequential:
    """An MLP on the invariant features of each point."""
    return nn.Sequential(nn.Linear(width, channels), nn.LayerNorm(channels), nn.GELU(), nn.Linear(channels, channels))


def make_head(width: int, channels: int, num_classes: int, dropout: float) -> nn.Sequential:
    """From pooled features to logits."""
    return nn.Sequential(
        nn.Linear(width, channels),
        nn.LayerNorm(channels),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(channels, num_classes),
    )
