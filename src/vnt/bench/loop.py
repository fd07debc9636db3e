"""What the training loop costs beyond forward, backward and optimizer."""

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from vnt.bench.timing import markdown_table, wait
from vnt.bench.toy import toy_clouds
from vnt.data.batches import CloudBatch
from vnt.evaluation.evaluate import forward
from vnt.models.kinds import build_model
from vnt.training.compiled import compiled
from vnt.training.config import TrainConfig
from vnt.training.loop import train
from vnt.training.optimizer import make_optimizer
from vnt.training.recipes import recipe
from vnt.training.task import Data, TaskLoss, fit_model

STEPS_PER_EPOCH, EPOCHS = 20, 10
"""The first half of the epochs warms up and is not counted."""


def table(device: torch.device, rounds: int = 5) -> str:
    """The loop beside bare steps of the same model on batches of the same size, taking turns; the median ratio."""
    name = "modelnet40" if device.type == "cuda" else "shapes"
    config = replace(
        recipe(name), device=str(device), scale=1.5, rotation="SO3", evaluate_every=EPOCHS // 2, epochs=EPOCHS
    )
    if device.type == "cuda":
        config = replace(config, batch_size=256)
    points, labels = toy_clouds(config.batch_size * STEPS_PER_EPOCH, max(256, config.num_points))
    whole = CloudBatch(points=points, labels=labels)
    data = Data(whole, whole.rows(torch.arange(4)), tuple("abcde"))
    found = [(_loop(config, data), _bare(config, data, device)) for _ in range(rounds)]
    ratios = sorted(loop / bare for loop, bare in found)
    rows = [
        ["forward, backward, optimizer", "1.000", "-"],
        [
            "whole loop: batches, augmentation, clipping, EMA, records",
            f"{statistics.median(ratios):.3f}",
            f"{ratios[0]:.3f} to {ratios[-1]:.3f}",
        ],
    ]
    steps = EPOCHS // 2 * STEPS_PER_EPOCH
    title = (
        f"Time of {steps} training steps, recipe {name}, batch {config.batch_size}, relative to bare steps; median of "
        f"{rounds} rounds"
    )
    if device.type == "cuda":
        fastest = min(bare for _, bare in found) / steps / config.batch_size
        title += f"; a bare step takes {1e6 * fastest:.1f} µs for each cloud"
    return f"{title}\n\n{markdown_table(['steps', 'time', 'all rounds'], rows)}"


def _loop(config: TrainConfig, data: Data) -> float:
    """Seconds of the second half of the epochs, with one look at four clouds."""
    with tempfile.TemporaryDirectory() as folder:
        records = train(config, Path(folder) / "run", data=data).metrics
    return float(records[-1]["seconds"]) - float(records[0]["seconds"])


def _bare(config: TrainConfig, data: Data, device: torch.device) -> float:
    """Seconds of as many steps on one batch."""
    torch.manual_seed(0)
    model = build_model(fit_model(config.model, data)).to(device).train()
    optimizer, loss = make_optimizer(model, config), TaskLoss(config.label_smoothing)
    runner = compiled(model, device) if config.compile else model
    batch = data.train.rows(torch.arange(config.batch_size)).take_points(  # type: ignore[missing-attribute]
        torch.arange(config.num_points).expand(config.batch_size, -1)
    )
    batch = batch.to(device)
    start = 0.0
    for step in range(EPOCHS * STEPS_PER_EPOCH):
        if step == EPOCHS // 2 * STEPS_PER_EPOCH:
            wait(device)
            start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
            value = loss(forward(runner, batch), batch)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        optimizer.step()
    wait(device)
    return time.perf_counter() - start
