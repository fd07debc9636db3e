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

    Answers are probabilities of clouds, and forecasts of tracks. Of a batch that is of one group, the teacher of that
    group speaks alone.
    """

    def __init__(self, task: TaskLoss, teachers: Iterable[nn.Module]):
        super().__init__()
        self.task, self.likeness, self.teachers = task, TaskLoss(), nn.ModuleList(teachers)

    def forward(self, output: Tensor, batch: Batch) -> Tensor:
        return 0.5 * self.task(output, batch) + 0.5 * self.likeness(output, self.told(batch))

    @torch.no_grad()
    def told(self, batch: Batch) -> Batch:
        """The batch with the teachers' answers for the truth."""
        match batch:
            case CloudBatch() | MotionBatch() if batch.group is not None:
                teachers = [self.teachers[batch.group]]
            case _:
                teachers = list(self.teachers)
        answers = torch.stack([forward(teacher, batch).float() for teacher in teachers])
        match batch:
            case CloudBatch():
                return replace(batch, labels=answers.softmax(-1).mean(0))
            case MotionBatch():
                return replace(batch, future=answers[..., :3].mean(0), known=None)
            case _:
                raise ValueError(f"expected a CloudBatch or a MotionBatch, got {type(batch).__name__}")


def make_loss(config: TrainConfig, data: Data, device: torch.device) -> nn.Module:
    """The loss that a config asks for, with its teachers in evaluation mode on the device."""
    task = TaskLoss(config.label_smoothing)
    if not config.teachers:
        return task
    for name in config.teachers:
        _require_same_answers(name, config, data)
    names = sorted(config.teachers, key=_part_of) if parts_of_teachers(config) else config.teachers
    teachers = (load(name).to(device).eval().requires_grad_(False) for name in names)
    return TaughtLoss(task, (compiled(each, device, graphs=False) if config.compile else each for each in teachers))


def parts_of_teachers(config: TrainConfig) -> int:
    """Into how many parts the data are cut, of which each teacher has not seen one; 0 where teachers speak of all."""
    trained = [read_about(name).get("training", {}) for name in config.teachers]
    counts = {about.get("parts", 0) for about in trained}
    if counts <= {0}:
        return 0
    parts, found = max(counts), sorted(about.get("left_out", 0) for about in trained)
    if len(counts) > 1 or found != list(range(parts)):
        raise ValueError(f"teachers that left out one of {parts} parts: one of each is needed, got parts {found}")
    for name, ours in (("dataset", config.dataset), ("hold_out", config.hold_out)):
        if any(about.get(name) != ours for about in trained):
            raise ValueError(f"teachers that left out a part must have been trained with {name} {ours!r}, as here")
    return parts


def _part_of(teacher: str) -> int:
    return read_about(teacher)["training"]["left_out"]


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
