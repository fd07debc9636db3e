"""Encoders side by side from 256 points to a million: ours, PyPI's VN-transformer, an ordinary transformer, attention.

All take the same tokens, (B, N, C, 3), in one process; the ordinary transformer sees them as rows of 3C numbers, and
*attention alone* does nothing but the attention kernels that ours contains: a floor. On a GPU in bf16 autocast, on a
CPU in float32, none of them compiled.
"""

import functools
import statistics
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from vnt.bench.ceilings import Ceilings, measure_ceilings
from vnt.bench.encoder import PEER, has_peer, make_peer
from vnt.bench.timing import durations, markdown_table, peak_bytes
from vnt.kernels import kernels
from vnt.layers import VNEncoder, VNLatentEncoder

CHANNELS, HEADS, DEPTH, LATENTS = 64, 4, 2, 32
OURS, LATENT, ORDINARY, FLOOR = "vnt", f"vnt, {LATENTS} latents", "Transformer of width 3C", "attention alone"
POINTS = (256, 1024, 4096, 16384, 65536, 262144, 1048576)
TOKENS = {"cuda": 2**19, "cpu": 2**12}
"""Tokens in a batch: as many clouds as make that many points, and at least one."""
MOST_POINTS = {"cuda": 2**14, "cpu": 2**12}
"""Beyond these only what is linear in N is measured."""


class Ordinary(nn.Module):
    """A pre-norm transformer encoder on tokens written out as rows of 3C numbers."""

    def __init__(self) -> None:
        super().__init__()
        width = 3 * CHANNELS
        layer = nn.TransformerEncoderLayer(width, HEADS, 2 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, DEPTH, nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, V: Tensor) -> Tensor:
        return self.encoder(V.flatten(-2))


class AttentionAlone(nn.Module):
    """The attention of all blocks, and nothing else."""

    def forward(self, V: Tensor) -> Tensor:
        half = torch.get_autocast_dtype(V.device.type) if torch.is_autocast_enabled(V.device.type) else V.dtype
        x = V.flatten(-2).unflatten(-1, (HEADS, -1)).transpose(1, 2).to(half)
        for _ in range(DEPTH):
            x = F.scaled_dot_product_attention(x, x, x)
        return x


CONTENDERS: dict[str, Callable[[], nn.Module]] = {
    OURS: lambda: VNEncoder(CHANNELS, HEADS, DEPTH),
    LATENT: lambda: VNLatentEncoder(CHANNELS, HEADS, DEPTH, LATENTS),
    PEER: make_peer,
    ORDINARY: Ordinary,
    FLOOR: AttentionAlone,
}


@dataclass(frozen=True)
class Row:
    """What was measured of one contender at one size; seconds are for the whole batch, shares are of the ceilings.

    The share of memory's ceiling is of what our sub-layers must read and write, and so ours alone.
    """

    contender: str
    points: int
    batch: int
    forward: float
    both: float
    forward_bytes: int
    both_bytes: int
    matrix_share: float
    memory_share: float | None


def measure(device: torch.device, points: tuple[int, ...], rounds: int) -> tuple[Ceilings, list[Row]]:
    """Every contender at every size that it can be asked for."""
    half = device.type == "cuda"
    ceilings = measure_ceilings(device, torch.bfloat16 if half else torch.float32)
    warnings.filterwarnings("ignore", category=FutureWarning)  # the peer's own use of a deprecated switch
    rows = []
    for n in points:
        for name in contenders(device, n):
            torch.manual_seed(0)
            rows.append(_measure_one(name, CONTENDERS[name]().to(device), n, device, ceilings, rounds))
    return ceilings, rows


def contenders(device: torch.device, points: int) -> Iterator[str]:
    """Those that can be asked for clouds of that size."""
    for name in CONTENDERS:
        if (name == LATENT or points <= MOST_POINTS[device.type]) and (name != PEER or has_peer()):
            yield name


def _measure_one(
    name: str, model: nn.Module, points: int, device: torch.device, ceilings: Ceilings, rounds: int
) -> Row:
    batch = max(1, TOKENS[device.type] // points)
    V = torch.randn(batch, points, 3, CHANNELS, device=device).mT
    autocast = functools.partial(torch.autocast, device.type, torch.bfloat16, enabled=device.type == "cuda")

    def forward() -> None:
        with torch.no_grad(), autocast():
            model(V)

    def both() -> None:
        model.zero_grad(set_to_none=True)
        x = V.detach().requires_grad_()
        with autocast():
            loss = model(x).float().square().mean()
        loss.backward()

    seconds, both_seconds = (statistics.median(durations(run, device, rounds)) for run in (forward, both))
    flops = _flops(model, points, device)
    least = 4 * DEPTH * V.numel() * 4  # each of two sub-layers reads and writes its tokens once, in float32
    return Row(
        contender=name,
        points=points,
        batch=batch,
        forward=seconds,
        both=both_seconds,
        forward_bytes=peak_bytes(forward, device),
        both_bytes=peak_bytes(both, device),
        matrix_share=flops * batch / seconds / ceilings.matrix,
        memory_share=least / seconds / ceilings.memory if name == OURS else None,
    )


def _flops(model: nn.Module, points: int, device: torch.device) -> float:
    """Of one cloud's forward pass; those of a small one, scaled, where the model is linear in its points."""
    few = min(points, MOST_POINTS[device.type])
    on_cpu = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops}
    with torch.no_grad(), kernels(False), FlopCounterMode(display=False, custom_mapping=on_cpu) as counter:
        model(torch.randn(1, few, 3, CHANNELS, device=device).mT)
    return counter.get_total_flops() * points / few


def _attention_flops(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], *_: object, **__: object) -> int:
    """Of the two products of attention, from the shapes of its inputs: torch counts those of the GPU's kernels only."""
    return 2 * q[0] * q[1] * q[2] * k[2] * (q[3] + v[3])


def table(ceilings: Ceilings, rows: list[Row], *, absolute: bool) -> str:
    """Ratios to ours first; times where they are ``absolute`` enough to be quoted, on a GPU."""
    ours = {row.points: row for row in rows if row.contender == OURS}
    cells = []
    for row in rows:
        mine = ours.get(row.points)
        cells.append(
            [
                f"{row.points:,}",
                str(row.batch),
                row.contender,
                "-" if mine is None else f"{row.forward / mine.forward:.2f}",
                "-" if mine is None else f"{row.both / mine.both:.2f}",
                *([f"{1e6 * x / row.batch:,.1f}" for x in (row.forward, row.both)] if absolute else []),
                f"{row.forward_bytes / row.batch / 2**20:,.1f}",
                f"{row.both_bytes / row.batch / 2**20:,.1f}",
                f"{row.matrix_share:.1%}",
                "-" if row.memory_share is None else f"{row.memory_share:.1%}",
            ]
        )
    times = ["forward, µs per cloud", "both, µs per cloud"] if absolute else []
    header = ["points", "batch", "encoder", "forward / ours", "both / ours", *times, "forward, MiB per cloud",
              "both, MiB per cloud", "of matrix ceiling", "of memory ceiling"]  # fmt: skip
    size = (
        f"C = {CHANNELS}, H = {HEADS}, depth {DEPTH}; *both* is forward and backward; shares are of the forward pass."
    )
    return f"{size}\nCeilings measured here: {ceilings}.\n\n{markdown_table(header, cells)}"


def record(ceilings: Ceilings, rows: list[Row], machine: str, *, absolute: bool) -> dict[str, object]:
    """All of it, for a file."""
    return {
        "machine": machine,
        "absolute": absolute,
        "ceilings": asdict(ceilings),
        "rows": [asdict(row) for row in rows],
    }
