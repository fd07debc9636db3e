"""One process of a training run under torchrun: python spread.py FOLDER [fail]."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from training.tasks import clouds, config
from vnt.training.loop import train
from vnt.training.task import TaskLoss


def main() -> None:
    """Batch norm inside, no dropout: what must agree with a single process to rounding."""
    torch.set_num_threads(1)
    settings = config(epochs=3, batch_size=9)  # nine over two processes: five and four
    settings = replace(settings, model=replace(settings.model, dropout=0.0, mlp_norm="batch"))
    calls = []

    def failing(output, batch):
        calls.append(1)
        if len(calls) == 3 and os.environ.get("RANK") == "1":
            raise ValueError("process 1 has had enough")
        return TaskLoss()(output, batch)

    train(settings, sys.argv[1], data=clouds(), loss=failing if "fail" in sys.argv else None)


if __name__ == "__main__":
    main()
