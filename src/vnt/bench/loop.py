"""What the training loop costs beyond forward, backward and optimizer."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from vnt.bench.timing import interleaved_medians, markdown_table
from vnt.bench.toy import toy_clouds
from vnt.data.batches import CloudBatch
from vnt.evaluation.evaluate import forward
from vnt.models.kinds import build_model
from vnt.training.config import TrainConfig
from vnt.training.loop import train
from vnt.training.optimizer import make_optimizer
from vnt.training.recipes import recipe
from vnt.training.task import Data, TaskLoss, fit_model

STEPS_PER_EPOCH = 20
SHORT, LONG = 1, 4
"""Epochs. What a run costs once, opening its folder and saving its state, is in both and not in the difference."""


def table(rounds: int = 5) -> str:
    """The loop beside bare steps of the same model on batches of the same size, taking turns."""
    config = replace(recipe("shapes"), device="cpu", scale=1.5, rotation="SO3", evaluate_every=10**6)
    points, labels = toy_clouds(config.batch_size * STEPS_PER_EPOCH, 256)
    whole = CloudBatch(points=points, labels=labels)
    data = Data(whole, whole.rows(torch.arange(4)), tuple("abcde"))
    contenders = {
        (name, epochs): partial(run, replace(config, epochs=epochs), data)
        for name, run in (("loop", _loop), ("bare", _bare))
        for epochs in (SHORT, LONG)
    }
    seconds = interleaved_medians({f"{name} {epochs}": run for (name, epochs), run in contenders.items()}, rounds, 1)
    loop, bare = (seconds[f"{name} {LONG}"] - seconds[f"{name} {SHORT}"] for name in ("loop", "bare"))
    rows = [
        ["forward, backward, optimizer", "1.000"],
        ["whole loop: batches, augmentation, clipping, EMA, records", f"{loop / bare:.3f}"],
    ]
    steps = (LONG - SHORT) * STEPS_PER_EPOCH
    title = (
        f"Time of {steps} training steps, recipe shapes, batch {config.batch_size}, relative to bare steps on the CPU"
    )
    return f"{title}\n\n{markdown_table(['steps', 'time'], rows)}"


def _loop(config: TrainConfig, data: Data) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", data=data)


def _bare(config: TrainConfig, data: Data) -> None:
    torch.manual_seed(0)
    model = build_model(fit_model(config.model, data)).train()
    optimizer, loss = make_optimizer(model, config), TaskLoss(config.label_smoothing)
    batch = data.train.rows(torch.arange(config.batch_size)).take_points(  # type: ignore[missing-attribute]
        torch.arange(config.num_points).expand(config.batch_size, -1)
    )
    for _ in range(config.epochs * STEPS_PER_EPOCH):
        optimizer.zero_grad(set_to_none=True)
        loss(forward(model, batch), batch).backward()
        optimizer.step()
