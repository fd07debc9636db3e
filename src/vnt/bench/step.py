"""A compiled bf16 training step on a GPU: microseconds for each cloud, and how much of it is attention itself."""

import itertools
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from vnt.bench.timing import markdown_table
from vnt.kernels import kernels
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.config import ClassifierConfig
from vnt.training.compiled import compiled

ATTENTION = ("flash", "fmha", "sdpa", "cudnn", "_attend")
"""Parts of the names of attention kernels."""


@dataclass(frozen=True)
class Case:
    """A size, of 64 channels."""

    num_points: int
    batch: int
    heads: int
    depth: int = 2
    latents: int = 0

    def __str__(self) -> str:
        latents = f", {self.latents} latents" if self.latents else ""
        return f"{self.num_points} points, batch {self.batch}, {self.heads} heads, depth {self.depth}{latents}"


STAGES = {"compiled": (False, False), "+ kernels": (True, False), "+ CUDA graphs": (True, True)}
"""Kernels of our own, and CUDA graphs."""
STAGED = (Case(1024, 512, 4), Case(768, 512, 16), Case(256, 1024, 4))
LATENTS = (Case(1024, 512, 4, depth=4), Case(1024, 512, 4, depth=4, latents=32))


def measure(case: Case, *, graphs: bool = True, steps: int = 10) -> tuple[float, float, float]:
    """Seconds of a step, seconds of its attention kernels, and GiB at the most."""
    batch = case.batch
    torch.compiler.reset()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    config = ClassifierConfig(num_classes=40, num_heads=case.heads, depth=case.depth, num_latents=case.latents)
    model = VNTransformerClassifier(config).cuda()
    runner = compiled(model, torch.device("cuda"), graphs=graphs)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    points = torch.randn(batch, case.num_points, 3, device="cuda")
    labels = torch.randint(40, (batch,), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(runner(points).float(), labels)
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
    """Every size in three stages; then latents beside attention among all points."""
    rows = []
    for case, stage in [*itertools.product(STAGED, STAGES), *((case, "+ CUDA graphs") for case in LATENTS)]:
        on, graphs = STAGES[stage]
        with kernels(on):
            seconds, attention, memory = measure(case, graphs=graphs)
        rows.append(
            [
                str(case),
                stage,
                f"{1e6 * seconds / case.batch:.1f}",
                f"{case.batch / seconds:,.0f}",
                f"{1e6 * attention / case.batch:.1f}",
                f"{seconds / attention:.2f}",
                f"{memory:.1f}",
            ]
        )
    header = ["size", "what", "µs per cloud", "clouds/s", "attention, µs", "step / attention", "GiB"]
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"Training step, bf16, compiled, on one {device}\n\n{markdown_table(header, rows)}"
