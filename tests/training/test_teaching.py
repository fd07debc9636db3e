"""Learning from a teacher."""

import pytest
import torch
from torch import nn

from training.tasks import clouds, config
from vnt.training.loop import train
from vnt.training.task import TaskLoss
from vnt.training.teaching import TaughtLoss, make_loss


class Says(nn.Module):
    """The same logits of every cloud."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, points, attributes=None, mask=None):
        return self.logits.expand(len(points), -1)


def test_half_from_labels_and_half_from_the_teacher():
    batch = clouds().train.rows(torch.arange(4))
    teacher = Says(torch.tensor([2.0, 0, 0, -1, 0]))
    output = torch.randn(4, 5, requires_grad=True)
    found = TaughtLoss(TaskLoss(0.1), teacher)(output, batch)
    told = teacher.logits.softmax(-1).detach()
    by_hand = [
        0.5 * nn.functional.cross_entropy(row[None], label[None], label_smoothing=0.1)
        - 0.5 * (told * row.log_softmax(-1)).sum()
        for row, label in zip(output, batch.labels, strict=True)
    ]
    torch.testing.assert_close(found, torch.stack(by_hand).mean())
    found.backward()
    assert output.grad.abs().sum() > 0
    assert teacher.logits.grad is None


def test_a_teacher_that_is_not_there_leaves_nothing_behind(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        train(config(teacher="nowhere"), tmp_path / "run", data=clouds())
    assert not (tmp_path / "run").exists()


def test_a_loss_of_one_s_own_has_no_teacher(tmp_path):
    with pytest.raises(ValueError, match="one or the other"):
        train(config(teacher="x"), tmp_path / "run", data=clouds(), loss=TaskLoss())


def test_the_teacher_is_in_evaluation_mode_and_does_not_learn(tmp_path):
    train(config(), tmp_path / "teacher", data=clouds())
    loss = make_loss(config(teacher=str(tmp_path / "teacher")), clouds(), torch.device("cpu"))
    assert isinstance(loss, TaughtLoss)
    assert not loss.teacher.training
    assert not any(parameter.requires_grad for parameter in loss.teacher.parameters())
    taught = train(config(teacher=str(tmp_path / "teacher")), tmp_path / "taught", data=clouds())
    alone = train(config(), tmp_path / "alone", data=clouds())
    assert taught.metrics[-1]["loss"] != alone.metrics[-1]["loss"]
