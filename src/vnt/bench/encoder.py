"""Our encoder beside PyPI's VN-transformer 0.1.0: same sizes, same process, same input.

The peer runs its flash path, with its own default MLP width of 4C. Ours is measured at that width, and at its own
default of 2C.
"""

import functools
import importlib.util
import shutil
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from vnt.bench.timing import interleaved_medians, markdown_table, peak_memory
from vnt.layers import VNEncoder

BATCH, POINTS, CHANNELS, HEADS, DEPTH = 4, 1024, 64, 4, 2
PEER = "VN-transformer 0.1.0, flash"


def make_peer() -> nn.Module:
    """The peer's encoder at the sizes above."""
    from VN_transformer.VN_transformer import VNTransformerEncoder

    return VNTransformerEncoder(dim=CHANNELS, depth=DEPTH, heads=HEADS, dim_head=CHANNELS // HEADS, flash_attn=True)


CONTENDERS: dict[str, Callable[[], nn.Module]] = {
    PEER: make_peer,
    "vnt, MLP of 4C": lambda: VNEncoder(CHANNELS, HEADS, DEPTH, hidden_channels=4 * CHANNELS),
    "vnt, MLP of 4C, compiled": lambda: _compiled(VNEncoder(CHANNELS, HEADS, DEPTH, hidden_channels=4 * CHANNELS)),
    "vnt, MLP of 2C (default)": lambda: VNEncoder(CHANNELS, HEADS, DEPTH),
    "vnt, MLP of 2C, compiled": lambda: _compiled(VNEncoder(CHANNELS, HEADS, DEPTH)),
}


def _compiled(model: nn.Module) -> nn.Module:
    model.compile()
    return model


def available() -> dict[str, Callable[[], nn.Module]]:
    """The contenders that can run here."""
    has_peer = importlib.util.find_spec("VN_transformer") is not None
    has_compiler = shutil.which("g++") is not None or shutil.which("clang++") is not None
    return {
        name: make
        for name, make in CONTENDERS.items()
        if (has_peer or name != PEER) and (has_compiler or "compiled" not in name)
    }


def forward(model: nn.Module, V: Tensor) -> None:
    """Inference."""
    with torch.no_grad():
        model(V)


def forward_backward(model: nn.Module, V: Tensor) -> None:
    """A training step less the optimiser; gradients reach the input too, as behind a lift."""
    model.zero_grad(set_to_none=True)
    V = V.detach().requires_grad_()
    model(V).square().mean().backward()


def compare(rounds: int) -> str:
    """The table: seconds relative to the peer, forward and forward + backward, and peak memory."""
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", category=FutureWarning)  # the peer's own use of a deprecated switch
    V = torch.randn(BATCH, POINTS, CHANNELS, 3)
    models = {name: make() for name, make in available().items()}
    seconds, memory = {}, {}
    for step in (forward, forward_backward):
        runs = {name: functools.partial(step, model, V) for name, model in models.items()}
        seconds[step] = interleaved_medians(runs, rounds)
        memory[step] = {name: peak_memory(run) for name, run in runs.items()}

    def ratio(values: dict[str, float], name: str) -> str:
        return f"{values[PEER] / values[name]:.2f}x" if PEER in values else "-"

    rows = [
        [
            name,
            ratio(seconds[forward], name),
            ratio(seconds[forward_backward], name),
            f"{memory[forward][name]:.0f} MiB",
            f"{memory[forward_backward][name]:.0f} MiB",
        ]
        for name in models
    ]
    header = ["encoder", "forward", "forward + backward", "memory, forward", "memory, both"]
    size = f"B={BATCH}, N={POINTS}, C={CHANNELS}, H={HEADS}, depth {DEPTH}"
    return f"{size}: speed relative to the peer, median of {rounds} rounds\n\n{markdown_table(header, rows)}"
