"""What the machine can do at best, measured: the yardstick for what a model achieves on it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Ceilings:
    """Floating-point operations per second in a large matrix product, and bytes per second in a large copy."""

    matrix: float
    memory: float

    def __str__(self) -> str:
        return f"matrix products {self.matrix / 1e12:,.2f} TFLOP/s, copies {self.memory / 1e9:,.0f} GB/s"


def measure_ceilings(device: torch.device, dtype: torch.dtype) -> Ceilings:
    """The best of several rounds of each."""
    n = 8192 if device.type == "cuda" else 1536
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    source = torch.randn((2**30 if device.type == "cuda" else 2**26) // 4, device=device)
    target = torch.empty_like(source)
    matrix = 2 * n**3 / fastest(lambda: torch.mm(a, b), device)
    return Ceilings(matrix, 2 * source.nbytes / fastest(lambda: target.copy_(source), device))


def fastest(run: Callable[[], object], device: torch.device, rounds: int = 10) -> float:
    """Seconds of the fastest of several rounds, after two that do not count."""
    return min(durations(run, device, rounds))


def durations(run: Callable[[], object], device: torch.device, rounds: int) -> list[float]:
    """Seconds of each round, after two that do not count; waits for the device."""
    found = []
    for _ in range(rounds + 2):
        wait(device)
        start = time.perf_counter()
        run()
        wait(device)
        found.append(time.perf_counter() - start)
    return found[2:]


def wait(device: torch.device) -> None:
    """Until all that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Bytes that one run holds at the most beyond what is there already."""
    if device.type != "cuda":
        from vnt.bench.timing import peak_memory

        return int(peak_memory(run) * 2**20)
    run()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    wait(device)
    return torch.cuda.max_memory_allocated(device) - before
