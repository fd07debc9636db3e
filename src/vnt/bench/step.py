"""A compiled bf16 training step on a GPU: microseconds for each cloud, and how much of it is attention itself."""

import itertools
import time

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from vnt.bench.timing import markdown_table
from vnt.kernels import kernels
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.config import ClassifierConfig

SIZES = ((1024, 512, 4), (768, 512, 16), (256, 1024, 4))
"""Points, batch, heads; 64 channels, depth 2."""
ATTENTION = ("flash", "fmha", "sdpa", "cudnn")
"""Parts of the names of attention kernels."""


def measure(num_points: int, batch: int, heads: int, *, steps: int = 10) -> tuple[float, float, float]:
    """Seconds of a step, seconds of its attention kernels, and GiB at the most."""
    torch.compiler.reset()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    config = ClassifierConfig(num_classes=40, channels=64, num_heads=heads, depth=2)
    model = VNTransformerClassifier(config).cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    points = torch.randn(batch, num_points, 3, device="cuda")
    labels = torch.randint(40, (batch,), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(compiled(points).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(4):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / steps
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    attention = sum(
        event.self_device_time_total
        for event in record.key_averages()
        if "triton" not in event.key and any(part in event.key.lower() for part in ATTENTION)
    )
    return seconds, attention / 3e6, torch.cuda.max_memory_allocated() / 2**30


def table() -> str:
    """Every size, with the kernels of `vnt.kernels` and without."""
    if not torch.cuda.is_available():
        return "Training step: needs a CUDA device"
    rows = []
    for (num_points, batch, heads), on in itertools.product(SIZES, (False, True)):
        with kernels(on):
            seconds, attention, memory = measure(num_points, batch, heads)
        rows.append(
            [
                f"{num_points} points, batch {batch}, {heads} heads",
                "on" if on else "off",
                f"{1e6 * seconds / batch:.1f}",
                f"{batch / seconds:,.0f}",
                f"{1e6 * attention / batch:.1f}",
                f"{seconds / attention:.2f}",
                f"{memory:.1f}",
            ]
        )
    header = ["size", "kernels", "µs per cloud", "clouds/s", "attention, µs", "step / attention", "GiB"]
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"Training step, bf16, compiled, on one {device}\n\n{markdown_table(header, rows)}"
