"""What the machine can do at best, measured: the yardstick for what a model achieves on it."""

from dataclasses import dataclass

import torch

from vnt.bench.timing import fastest


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
