"""How fast data arrives: starting with a large set, and one epoch of augmented batches."""

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial

import torch

from vnt.bench.timing import markdown_table
from vnt.data.batches import Batches, CloudBatch
from vnt.data.modelnet import load_modelnet
from vnt.data.transforms import RandomRotation, RandomSample, RandomScale

CLOUDS, POINTS, BATCH = 9843, 1024, 64


def table(device: str = "cpu") -> str:
    """Both measurements as text; ModelNet40 is left out where it is not on the machine."""
    return f"{_starts()}\n\n{_throughput(device)}"


def _starts() -> str:
    """Seconds until ModelNet40 can be used, with an empty cache and with a full one."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            before = os.environ.get("VNT_CACHE")
            os.environ["VNT_CACHE"] = folder
            try:
                first, second = _seconds(_load_both), _seconds(_load_both)
            finally:
                os.environ.pop("VNT_CACHE") if before is None else os.environ.update(VNT_CACHE=before)
    except FileNotFoundError as error:
        return f"ModelNet40 was not timed: {error}"
    rows = [["first", f"{first:.2f} s"], ["cached", f"{second:.2f} s"]]
    return "ModelNet40, both splits, ready for use\n\n" + markdown_table(["start", "time"], rows)


def _load_both() -> None:
    """Touch every page, so that what is mapped is also read."""
    for split in ("train+val", "test"):
        float(load_modelnet(split).points.sum())


def _throughput(device: str) -> str:
    whole = CloudBatch(
        points=torch.randn(CLOUDS, POINTS, 3, device=device),
        labels=torch.zeros(CLOUDS, dtype=torch.long, device=device),
    )
    sample, scale, turn = RandomSample(POINTS), RandomScale(), RandomRotation("SO3")
    rows = []
    for name, transforms in {
        "shuffled": [],
        "+ resampling": [sample],
        "+ scale per axis": [sample, scale],
        "+ random rotation": [sample, scale, turn],
    }.items():
        batches = Batches(whole, BATCH, transforms=transforms)
        times = [_seconds(partial(_drain, batches, epoch, device)) for epoch in range(4)]
        rows.append([name, f"{CLOUDS / min(times[1:]):,.0f}"])
    title = f"One epoch of {CLOUDS:,} clouds of {POINTS:,} points in batches of {BATCH} on {device}, best of 3"
    return f"{title}\n\n" + markdown_table(["batches", "clouds/s"], rows)


def _drain(batches: Batches[CloudBatch], epoch: int, device: str) -> None:
    for _ in batches.epoch(epoch):
        pass
    if device == "cuda":
        torch.cuda.synchronize()


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
