"""Clouds from 65,536 points to ten million through a classifier with latents: time per point, and memory."""

import functools
import statistics

import torch
import torch.nn.functional as F

from vnt.bench.timing import durations, markdown_table, peak_bytes
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.config import ClassifierConfig

POINTS = {"cuda": (65_536, 262_144, 1_000_000, 10_000_000), "cpu": (65_536, 262_144, 1_000_000)}


def table(device: torch.device, points: tuple[int, ...] | None = None, rounds: int = 5) -> str:
    """Forward, and forward with backward; on a GPU in bf16 autocast."""
    torch.manual_seed(0)
    config = ClassifierConfig(num_classes=40, channels=64, num_heads=8, depth=2, num_latents=32)
    model = VNTransformerClassifier(config).to(device)
    autocast = functools.partial(torch.autocast, device.type, torch.bfloat16, enabled=device.type == "cuda")
    label = torch.zeros(1, dtype=torch.int64, device=device)
    rows, first = [], None
    for n in POINTS[device.type] if points is None else points:
        x = torch.randn(1, n, 3, device=device)

        def forward(x: torch.Tensor = x) -> None:
            with torch.no_grad(), autocast():
                model(x)

        def both(x: torch.Tensor = x) -> None:
            model.zero_grad(set_to_none=True)
            with autocast():
                loss = F.cross_entropy(model(x).float(), label)
            loss.backward()

        seconds = [statistics.median(durations(run, device, rounds)) for run in (forward, both)]
        memory = [peak_bytes(run, device) / 2**30 for run in (forward, both)]
        per_point = [s / n for s in seconds]
        first = per_point if first is None else first
        rows.append(
            [
                f"{n:,}",
                *(f"{p / q:.2f}" for p, q in zip(per_point, first, strict=True)),
                *(f"{1e3 * s:,.2f}" for s in seconds),
                *(f"{gib:.2f}" for gib in memory),
            ]
        )
    header = ["points", "time per point, forward", "both", "forward, ms", "both, ms", "forward, GiB", "both, GiB"]
    title = (
        f"One cloud through a classifier of {config.num_latents} latents, C = 64, H = 8, depth 2, at most "
        f"{config.chunk_size:,} points at once. Time per point is relative to the first row; memory is beyond weights "
        f"and points."
    )
    return f"{title}\n\n{markdown_table(header, rows)}"
