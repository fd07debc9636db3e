"""Learning from teachers."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from training.tasks import clouds, config, motion_config, tracks
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


class Forecasts(nn.Module):
    """The same of every batch."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, past, attributes=None, mask=None):
        return self.answer


def test_half_from_labels_and_half_from_the_teachers():
    batch = clouds().train.rows(torch.arange(4))
    teachers = [Says(torch.tensor([2.0, 0, 0, -1, 0])), Says(torch.tensor([0.0, 0, 3, 0, 0]))]
    output = torch.randn(4, 5, requires_grad=True)
    found = TaughtLoss(TaskLoss(0.1), teachers)(output, batch)
    told = sum(teacher.logits.softmax(-1).detach() for teacher in teachers) / 2
    by_hand = [
        0.5 * nn.functional.cross_entropy(row[None], label[None], label_smoothing=0.1)
        - 0.5 * (told * row.log_softmax(-1)).sum()
        for row, label in zip(output, batch.labels, strict=True)
    ]
    torch.testing.assert_close(found, torch.stack(by_hand).mean())
    found.backward()
    assert output.grad.abs().sum() > 0
    assert all(teacher.logits.grad is None for teacher in teachers)


def test_balance_learns_what_a_cloud_adds_to_how_frequent_classes_are():
    data = clouds()
    data = replace(data, train=data.train.rows(torch.arange(33)))  # as many of each class would be no test
    loss = make_loss(config(balance=True), data, torch.device("cpu"))
    batch, output = data.train.rows(torch.arange(4)), torch.randn(4, 5)
    counts = torch.bincount(data.train.labels, minlength=5)
    assert len(set(counts.tolist())) > 1
    expected = nn.functional.cross_entropy(output + (counts / counts.sum()).log(), batch.labels)
    torch.testing.assert_close(loss(output, batch), expected)
    assert make_loss(config(), data, torch.device("cpu"))(output, batch) != expected
    with pytest.raises(ValueError, match="balance is of classes"):
        motion_config(balance=True)


def test_forecasts_are_taught_too():
    batch = tracks().train.rows(torch.arange(4))
    batch = replace(batch, known=torch.rand(4, batch.future.shape[1]) < 0.5)  # a teacher knows every step
    teachers = [Forecasts(torch.randn_like(batch.future)) for _ in range(2)]
    output = torch.randn_like(batch.future, requires_grad=True)
    told = (teachers[0].answer + teachers[1].answer) / 2
    by_hand = 0.5 * TaskLoss()(output, batch) + 0.5 * (output - told).norm(dim=-1).mean()
    torch.testing.assert_close(TaughtLoss(TaskLoss(), teachers)(output, batch), by_hand)


def test_a_forecaster_learns_from_another(tmp_path):
    train(motion_config(), tmp_path / "teacher", data=tracks())
    taught = train(motion_config(teachers=(str(tmp_path / "teacher"),)), tmp_path / "taught", data=tracks())
    alone = train(motion_config(), tmp_path / "alone", data=tracks())
    assert taught.metrics[-1]["loss"] != alone.metrics[-1]["loss"]


def test_a_forecaster_with_headings_learns_from_another_while_windows_slide(tmp_path):
    config = motion_config(dataset="motion", attributes=("heading",), slide=5, batch_size=512, epochs=1)
    train(config, tmp_path / "teacher")
    taught = train(replace(config, teachers=(str(tmp_path / "teacher"),)), tmp_path / "taught")
    assert taught.model.config.num_vectors == 1
    with pytest.raises(ValueError, match="another num_vectors"):
        train(replace(config, attributes=(), teachers=(str(tmp_path / "teacher"),)), tmp_path / "other")


def test_a_teacher_that_is_not_there_leaves_nothing_behind(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        train(config(teachers=("nowhere",)), tmp_path / "run", data=clouds())
    assert not (tmp_path / "run").exists()


def test_a_loss_of_one_s_own_has_no_teacher(tmp_path):
    with pytest.raises(ValueError, match="one or the other"):
        train(config(teachers=("x",)), tmp_path / "run", data=clouds(), loss=TaskLoss())


def test_the_teacher_is_in_evaluation_mode_and_does_not_learn(tmp_path):
    train(config(), tmp_path / "teacher", data=clouds())
    loss = make_loss(config(teachers=(str(tmp_path / "teacher"),)), clouds(), torch.device("cpu"))
    assert isinstance(loss, TaughtLoss)
    assert not loss.teachers[0].training
    assert not any(parameter.requires_grad for parameter in loss.teachers.parameters())
    taught = train(config(teachers=(str(tmp_path / "teacher"),)), tmp_path / "taught", data=clouds())
    alone = train(config(), tmp_path / "alone", data=clouds())
    assert taught.metrics[-1]["loss"] != alone.metrics[-1]["loss"]
