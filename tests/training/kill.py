"""Train in a child, kill it at random moments, resume; says how often, and whether the weights are the same in the end.

    python kill.py FOLDER KILLS

Run as a program of its own: children are forked from a parent that has imported torch and never used its threads.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # the optimizer imports it when first made, which takes longer than most children live

sys.path.insert(0, str(Path(__file__).parents[1]))

from training.tasks import clouds, config
from vnt.training.loop import train
from vnt.training.run_folder import RunFolder


def child(folder: Path, *, resume: bool) -> int:
    """Start training in a process of its own; returns its number."""
    if pid := os.fork():
        return pid
    torch.set_num_threads(1)
    settings = config(epochs=200, checkpoint_seconds=0.05, evaluate_every=10)
    try:
        train(settings, folder, data=clouds(), resume=resume)
    except BaseException as error:
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)
    os._exit(0)


def newest(checkpoints: Path) -> str:
    """The name of the last state; nothing where there is none."""
    return max((path.name for path in checkpoints.glob("state-*.json")), default="")


def wait_for_progress(checkpoints: Path, before: str) -> None:
    """Until a later state is on disk."""
    deadline = time.monotonic() + 60
    while newest(checkpoints) <= before and time.monotonic() < deadline:
        time.sleep(0.002)


def main() -> None:
    """Kill so many times, let it finish, compare."""
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(0)
    done = resumed = 0
    while done < kills:
        cut = folder / "cut"
        before = newest(cut / "checkpoints")
        resumed += before != ""
        pid = child(cut, resume=RunFolder(cut).exists)
        if rng.random() < 0.7:  # once it has got further than the one before, however slow the machine
            wait_for_progress(cut / "checkpoints", before)
        time.sleep(rng.uniform(0.0, 0.08))
        if os.waitpid(pid, os.WNOHANG)[0]:
            raise SystemExit("the run ended before it was killed often enough: make it longer")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        done += 1
    for name in ("cut", "whole"):
        pid = child(folder / name, resume=RunFolder(folder / name).exists)
        if os.waitpid(pid, 0)[1]:
            raise SystemExit(f"{name} did not finish")
    same = (folder / "cut/model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes()
    states = [sorted((folder / name / "checkpoints").glob("*.safetensors"))[-1] for name in ("cut", "whole")]
    same_state = states[0].read_bytes() == states[1].read_bytes()
    records = [
        [{k: v for k, v in r.items() if not k.endswith("seconds")} for r in RunFolder(folder / n).metrics()]
        for n in ("cut", "whole")
    ]
    same_records = records[0] == records[1]
    often = resumed > kills // 2  # had something to go on from
    print(f"kills={done} resumed={often} weights={same} state={same_state} metrics={same_records}")  # noqa: T201


if __name__ == "__main__":
    main()
