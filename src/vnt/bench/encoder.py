"""Our encoder beside PyPI's VN-transformer 0.1.0: same sizes, same process, same input.

The peer runs its flash path, with its own default MLP width of 4C. Ours is measured at that width, and at its own
default of 2C. All in float32 but for the rows that say bfloat16, which is autocast on the CPU, for the peer too.
"""

import functools
import importlib.util
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from vnt.bench.timing import has_bfloat16, has_compiler, interleaved_medians, markdown_table, peak_memory
from vnt.layers import VNEncoder

BATCH, POINTS, CHANNELS, HEADS, DEPTH = 4, 1024, 64, 4, 2
PEER = "VN-transformer 0.1.0, flash"


def make_peer() -> nn.Module:
    """The peer's encoder at the sizes above."""
    from VN_transformer.VN_transformer import VNTransformerEncoder

    return VNTransformerEncoder(dim=CHANNELS, depth=DEPTH, heads=HEADS, dim_head=CHANNELS // HEADS, flash_attn=True)


class InBFloat16(nn.Module):
    """A model under autocast: float32 weights and tokens, products in bfloat16."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, V: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(V).float()


def _ours(width: int) -> nn.Module:
    return VNEncoder(CHANNELS, HEADS, DEPTH, hidden_channels=width * CHANNELS)


def _compiled(model: nn.Module) -> nn.Module:
    model.compile()
    return model


CONTENDERS: dict[str, Callable[[], nn.Module]] = {
    PEER: make_peer,
    f"{PEER}, bfloat16": lambda: InBFloat16(make_peer()),
    "vnt, MLP of 4C": lambda: _ours(4),
    "vnt, MLP of 4C, compiled": lambda: _compiled(_ours(4)),
    "vnt, MLP of 4C, compiled, bfloat16": lambda: InBFloat16(_compiled(_ours(4))),
    "vnt, MLP of 2C (default)": lambda: _ours(2),
    "vnt, MLP of 2C, compiled": lambda: _compiled(_ours(2)),
    "vnt, MLP of 2C, compiled, bfloat16": lambda: InBFloat16(_compiled(_ours(2))),
}


def has_peer() -> bool:
    """Whether PyPI's VN-transformer is installed."""
    return importlib.util.find_spec("VN_transformer") is not None


def available() -> dict[str, Callable[[], nn.Module]]:
    """The contenders that can run here."""
    return {
        name: make
        for name, make in CONTENDERS.items()
        if (has_peer() or not name.startswith(PEER))
        and (has_compiler() or "compiled" not in name)
        and (has_bfloat16() or "bfloat16" not in name)
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
    return f"{size}: speed relative to the peer in float32, median of {rounds} rounds\n\n{markdown_table(header, rows)}"
