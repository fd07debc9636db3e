"""Learning from other models' answers (Hinton et al., 2015): what makes a model better than labels alone do."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from vnt.data.batches import Batch, CloudBatch, MotionBatch
from vnt.evaluation.evaluate import forward
from vnt.models.saving import load, read_about
from vnt.training.compiled import compiled
from vnt.training.config import TrainConfig
from vnt.training.task import Data, TaskLoss


class TaughtLoss(nn.Module):
    """Half the loss of the task, half the same towards what teachers say of a batch: the mean of their answers.

    Answers are probabilities of clouds, and forecasts of tracks.
    """

    def __init__(self, task: TaskLoss, teachers: Iterable[nn.Module]):
        super().__init__()
        self.task, self.likeness, self.teachers = task, TaskLoss(), nn.ModuleList(teachers)

    def forward(self, output: Tensor, batch: Batch) -> Tensor:
        return 0.5 * self.task(output, batch) + 0.5 * self.likeness(output, self.told(batch))

    @torch.no_grad()
    def told(self, batch: Batch) -> Batch:
        """The batch with the teachers' answers for the truth."""
        answers = torch.stack([forward(teacher, batch).float() for teacher in self.teachers])
        match batch:
            case CloudBatch():
                return replace(batch, labels=answers.softmax(-1).mean(0))
            case MotionBatch():
                return replace(batch, future=answers[..., :3].mean(0), known=None)
            case _:
                raise ValueError(f"expected a CloudBatch or a MotionBatch, got {type(batch).__name__}")


def make_loss(config: TrainConfig, data: Data, device: torch.device) -> nn.Module:
    """The loss that a config asks for, with its teachers in evaluation mode on the device."""
    task = TaskLoss(config.label_smoothing, _shares(data).to(device) if config.balance else None)
    if not config.teachers:
        return task
    for name in config.teachers:
        _require_same_answers(name, config, data)
    teachers = (load(name).to(device).eval().requires_grad_(False) for name in config.teachers)
    return TaughtLoss(task, (compiled(each, device, graphs=False) if config.compile else each for each in teachers))


def _shares(data: Data) -> Tensor:
    """How frequent each class is among the training clouds; one that is not there counts as half a cloud."""
    counts = torch.bincount(data.train.tensors()["labels"], minlength=len(data.class_names)).clamp(min=0.5)
    return counts / counts.sum()


def _require_same_answers(teacher: str, config: TrainConfig, data: Data) -> None:
    """It takes the same batches as the model that is to learn from it, and speaks of the same things."""
    about = read_about(teacher)
    theirs = about["model"]
    for name in ("num_attributes", "num_vectors"):
        if theirs.get(name, 0) != getattr(config.model, name):
            raise ValueError(f"teacher {teacher} has another {name} than the model that is to learn from it")
    if tuple(about.get("attribute_names", data.attribute_names)) != tuple(data.attribute_names):
        raise ValueError(f"teacher {teacher} has other attributes than the data: {about['attribute_names']}")
    if config.task == "forecast":
        steps = data.train.tensors()["future"].shape[1]
        if theirs.get("num_future") != steps or about.get("dt", data.dt) != data.dt:
            raise ValueError(f"teacher {teacher} does not forecast the {steps} steps of {data.dt} s of the data")
    elif tuple(about.get("class_names", ())) != tuple(data.class_names):
        known = len(about.get("class_names", ()))
        raise ValueError(f"teacher {teacher} knows {known} classes, which are not those of the data")
