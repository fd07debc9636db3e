"""Small tasks that train in seconds."""

import torch

from vnt import ClassifierConfig, ForecasterConfig
from vnt.bench.toy import toy_clouds, toy_tracks
from vnt.data.batches import CloudBatch, MotionBatch
from vnt.training.config import TrainConfig
from vnt.training.task import Data


def clouds(count=60, num_points=16):
    torch.manual_seed(1)
    points, labels = toy_clouds(count, num_points)
    whole = CloudBatch(points=points, labels=labels)
    return Data(whole.rows(torch.arange(0, count - 20)), whole.rows(torch.arange(count - 20, count)), tuple("abcde"))


def tracks(count=60):
    torch.manual_seed(1)
    x = toy_tracks(count, 16)
    x = x - x[:, 10:11]
    whole = MotionBatch(past=x[:, :11], future=x[:, 11:])
    return Data(whole.rows(torch.arange(0, count - 20)), whole.rows(torch.arange(count - 20, count)))


def config(**changes):
    model = ClassifierConfig(
        num_classes=5, channels=8, num_heads=2, depth=1, point_channels=16, head_channels=16, dropout=0.2
    )
    return TrainConfig(**({"model": model, "epochs": 3, "batch_size": 8, "device": "cpu", "scale": 1.2} | changes))


def motion_config(**changes):
    model = ForecasterConfig(num_future=5, channels=8, num_heads=2, depth=1)
    return TrainConfig(**({"model": model, "epochs": 3, "batch_size": 8, "device": "cpu"} | changes))
