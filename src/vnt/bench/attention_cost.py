"""The paper's appendix in numbers: one layer of VN attention beside one of the SE(3)-Transformer's.

Both take N points of C vectors each and give as many, with the same number of heads. VN attention lets every point
attend to all N, by weights that mix channels; the SE(3)-Transformer's lets it attend to its k nearest neighbours, by
kernels of radial functions, spherical harmonics (degrees 0 to 2) and Clebsch-Gordan coefficients, from e3nn. Its
neighbours and their harmonics, which all layers of a network share, are found beforehand and not counted. Operations
are those of matrix products, as torch counts them; e3nn's elementwise ones come on top.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vnt.bench.timing import interleaved_medians, markdown_table, peak_bytes, wait
from vnt.kernels import kernels
from vnt.layers import VNMultiheadAttention
from vnt.models.rivals.equivariant_kernels import Edges, Fiber, find_edges
from vnt.models.rivals.se3_transformer import SE3Attention

CHANNELS, HEADS, NEIGHBORS, DEGREE = 64, 4, 16, 2
POINTS = (128, 256, 512, 1024)
BATCH = {"cuda": 8, "cpu": 1}
OURS = "VN attention, all points"
PER_CHANNEL = "SE(3)-Transformer, radial functions per channel"
PER_PAIR = "SE(3)-Transformer, radial functions per pair"
"""As its authors have it."""


class OnVectors(nn.Module):
    """The SE(3)-Transformer's attention on tokens (B, N, C, 3), which are its type-1 features."""

    def __init__(self, attention: SE3Attention, edges: Edges):
        super().__init__()
        self.attention, self.edges = attention, edges

    def forward(self, V: Tensor) -> Tensor:
        return self.attention(V.flatten(-2), self.edges).unflatten(-1, V.shape[-2:])


class OnItself(nn.Module):
    """VN attention of tokens among themselves."""

    def __init__(self, attention: VNMultiheadAttention):
        super().__init__()
        self.attention = attention

    def forward(self, V: Tensor) -> Tensor:
        return self.attention(V, V, V)


def contenders(positions: Tensor) -> dict[str, nn.Module]:
    """The layers, by name, for clouds at these positions."""
    edges = find_edges(positions, NEIGHBORS, max_degree=DEGREE)
    steerable = functools.partial(SE3Attention, Fiber(0, CHANNELS), HEADS, max_degree=DEGREE)
    layers = {
        OURS: OnItself(VNMultiheadAttention(CHANNELS, HEADS)),
        PER_CHANNEL: OnVectors(steerable(radial="channel"), edges),
        PER_PAIR: OnVectors(steerable(radial="pair"), edges),
    }
    return {name: layer.to(positions.device) for name, layer in layers.items()}


def count_flops(layer: nn.Module, V: Tensor) -> int:
    """Operations of one forward pass, by kernels that torch can count."""
    with torch.no_grad(), kernels(False), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(V)
    return counter.get_total_flops()


def table(device: torch.device, rounds: int = 9, points: tuple[int, ...] = POINTS) -> str:
    """Parameters, operations, time relative to ours, and memory, at each number of points."""
    torch.manual_seed(0)
    batch, rows = BATCH[device.type], []
    for n in points:
        V = torch.randn(batch, n, 3, CHANNELS, device=device).mT
        layers = contenders(torch.randn(batch, n, 3, device=device))
        forwards, boths = ({name: _run(x, V, device, step) for name, x in layers.items()} for step in (False, True))
        seconds = [interleaved_medians(runs, rounds) for runs in (forwards, boths)]
        for name, layer in layers.items():
            rows.append(
                [
                    f"{n:,}",
                    name,
                    f"{sum(p.numel() for p in layer.parameters()):,}",
                    f"{count_flops(layer, V) / batch / 1e6:,.0f}",
                    *(f"{found[name] / found[OURS]:.2f}" for found in seconds),
                    *(f"{peak_bytes(runs[name], device) / batch / 2**20:,.1f}" for runs in (forwards, boths)),
                ]
            )
    header = ["points", "attention", "parameters", "MFLOP per cloud", "forward / ours", "both / ours",
              "forward, MiB per cloud", "both, MiB per cloud"]  # fmt: skip
    title = (
        f"One layer on C = {CHANNELS} vectors per point, H = {HEADS}, batch {batch}, float32; k = {NEIGHBORS} "
        f"neighbours for the SE(3)-Transformer. *Both* is forward and backward; medians of {rounds} rounds."
    )
    return f"{title}\n\n{markdown_table(header, rows)}"


def _run(layer: nn.Module, V: Tensor, device: torch.device, backward: bool) -> Callable[[], None]:
    def forward() -> None:
        with torch.no_grad():
            layer(V)
        wait(device)

    def both() -> None:
        layer.zero_grad(set_to_none=True)
        layer(V.detach().requires_grad_()).square().mean().backward()
        wait(device)

    return both if backward else forward
