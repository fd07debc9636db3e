"""Your own data, your own model, your own loss, in our loop: checkpoints, resume, EMA and many GPUs come along.

python examples/bring_your_own.py [FOLDER]
"""

import sys
from pathlib import Path

import torch
from torch import nn

from vnt import TrainConfig, VNEncoder, VNInvariant, VNLinear, train
from vnt.data import CloudBatch
from vnt.training.task import Data


def make_clouds(count: int) -> CloudBatch:
    """Rings and balls, each in a pose of its own."""
    labels = torch.arange(count) % 2
    x = torch.randn(count, 64, 3)
    ring = x * torch.tensor([1.0, 1.0, 0.0])
    ring = ring / ring.norm(dim=-1, keepdim=True)
    return CloudBatch(points=torch.where(labels[:, None, None] == 0, ring, x), labels=labels)


class MyClassifier(nn.Module):
    """Our layers, put together in another way. Any module with this forward signature will do."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = VNLinear(1, 16)
        self.encoder = VNEncoder(16, num_heads=4, depth=1)
        self.invariant = VNInvariant(16)
        self.head = nn.Linear(16 * 3, 2)

    def forward(self, points, attributes=None, mask=None):
        """Logits of each cloud."""
        tokens = self.encoder(self.lift(points.unsqueeze(-2)), mask)
        return self.head(self.invariant(tokens).flatten(-2).mean(-2))


def my_loss(logits: torch.Tensor, batch: CloudBatch) -> torch.Tensor:
    """Cross-entropy with a little of what you fancy; the mean over a batch."""
    return nn.functional.cross_entropy(logits, batch.labels) + 1e-4 * logits.square().mean()


data = Data(train=make_clouds(200), val=make_clouds(100), class_names=("ring", "ball"))
config = TrainConfig(epochs=5, batch_size=20, learning_rate=3e-3, rotation="SO3", ema=0.9)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own")
trained = train(config, folder, data=data, model=MyClassifier(), loss=my_loss)
print(trained.metrics[-1]["val_accuracy"])
