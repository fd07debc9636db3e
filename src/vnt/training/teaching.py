"""Learning from another model's answers (Hinton et al., 2015): what makes small models better than labels alone do."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vnt.data.batches import Batch
from vnt.evaluation.evaluate import forward
from vnt.models.saving import load, read_about
from vnt.training.compiled import compiled
from vnt.training.config import TrainConfig
from vnt.training.task import Data, TaskLoss


class TaughtLoss(nn.Module):
    """Half the loss of the task, half the cross-entropy to what a teacher says of the same clouds."""

    def __init__(self, task: TaskLoss, teacher: nn.Module):
        super().__init__()
        self.task, self.teacher = task, teacher

    def forward(self, output: Tensor, batch: Batch) -> Tensor:
        with torch.no_grad():
            told = forward(self.teacher, batch).float().softmax(-1)
        return 0.5 * self.task(output, batch) + 0.5 * F.cross_entropy(output.float(), told)


def make_loss(config: TrainConfig, data: Data, device: torch.device) -> nn.Module:
    """The loss that a config asks for, with its teacher in evaluation mode on the device."""
    task = TaskLoss(config.label_smoothing)
    if not config.teacher:
        return task
    if config.task != "classify":
        raise ValueError("a teacher's probabilities are learned: forecasts have none")
    about = read_about(config.teacher)
    theirs = tuple(about.get("class_names", ()))
    for name in ("num_attributes", "num_vectors"):
        if about["model"].get(name, 0) != getattr(config.model, name):
            raise ValueError(f"teacher {config.teacher} has another {name} than the model that is to learn from it")
    if theirs != tuple(data.class_names):
        raise ValueError(f"teacher {config.teacher} knows {len(theirs)} classes, which are not those of the data")
    teacher = load(config.teacher).to(device).eval().requires_grad_(False)
    return TaughtLoss(task, compiled(teacher, device, graphs=False) if config.compile else teacher)
