"""What the models must be able to learn, on the built-in sets, in seconds."""

from dataclasses import replace

import numpy as np
import torch

from vnt import ClassifierConfig, ForecasterConfig
from vnt.data.batches import CloudBatch, MotionBatch
from vnt.data.embedded import SHAPE_CLASSES, make_motion, make_shapes
from vnt.evaluation.evaluate import evaluate_batches
from vnt.training.loop import train
from vnt.training.recipes import recipe
from vnt.training.task import Data

EASY = ("bowl", "ladder", "ring", "table", "umbrella", "wheel")


def shapes(per_class, split):
    points, labels = make_shapes(per_class, num_points=96, split=split)
    classes = [SHAPE_CLASSES.index(name) for name in EASY]
    kept = np.isin(labels, classes)
    number = {label: index for index, label in enumerate(classes)}
    labels = torch.tensor([number[label] for label in labels[kept].tolist()])
    return CloudBatch(points=torch.from_numpy(points[kept]), labels=labels)


def test_six_shapes_in_any_pose(tmp_path):
    data = Data(shapes(40, "train"), shapes(10, "val"), EASY)
    model = ClassifierConfig(num_classes=6, channels=16, num_heads=4, point_channels=64, head_channels=64)
    config = replace(recipe("shapes"), model=model, epochs=12, num_points=64, batch_size=16, ema=0.9, device="cpu")
    trained = train(config, tmp_path / "run", data=data)
    test = shapes(20, "test")
    still, turned = (evaluate_batches(trained.model, test, rotation=r).accuracy for r in ("I", "SO3"))
    assert turned >= 0.85
    assert abs(still - turned) <= 0.005


def test_tracks_beat_constant_velocity_by_a_fifth(tmp_path):
    def tracks(count, split):
        past, future, *_ = make_motion(count, split=split)
        return MotionBatch(past=torch.from_numpy(past), future=torch.from_numpy(future))

    data, test = Data(tracks(800, "train"), tracks(100, "val")), tracks(400, "test")
    model = ForecasterConfig(num_future=30, channels=16, num_heads=4)
    config = replace(recipe("motion"), model=model, epochs=15, batch_size=32, ema=0.95, device="cpu")
    trained = train(config, tmp_path / "run", data=data)
    steps = torch.arange(1, 31)[:, None]
    straight = test.past[:, -1:] + (test.past[:, -1:] - test.past[:, -2:-1]) * steps
    constant_velocity = float((straight - test.future).norm(dim=-1).mean())
    assert evaluate_batches(trained.model, test).summary()["ade"] < 0.8 * constant_velocity
