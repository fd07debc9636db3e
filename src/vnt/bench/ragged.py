"""Ragged batches: packed, where no work is done on padding, beside the same batch under a mask."""

import functools

import torch
import torch.nn.functional as F

from vnt.bench.timing import interleaved_medians, markdown_table, wait
from vnt.geometry import pack_ragged
from vnt.models import classifier
from vnt.models.config import ClassifierConfig

SIZES = {"cuda": (256, 2048), "cpu": (8, 1024)}
"""Clouds in a batch, and points of the largest."""
FILLED = (1.0, 0.75, 0.5, 0.25)


def table(device: torch.device, rounds: int = 9) -> str:
    """A training step less the optimizer at several shares of padding, relative to the batch without any."""
    torch.manual_seed(0)
    batch, longest = SIZES[device.type]
    model = classifier.VNTransformerClassifier(ClassifierConfig(num_classes=40)).to(device)
    points = torch.randn(batch, longest, 3, device=device)
    labels = torch.randint(40, (batch,), device=device)

    def step(mask: torch.Tensor | None, packed: bool) -> None:
        classifier.pack_ragged = pack_ragged if packed else lambda mask: mask
        model.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = F.cross_entropy(model(points, None, mask).float(), labels)
        loss.backward()
        wait(device)

    runs = {"full": functools.partial(step, None, False)}
    for share in FILLED[1:]:
        lengths = (longest * torch.linspace(2 * share - 1, 1, batch).clamp(min=1 / longest)).long()
        mask = (torch.arange(longest) < lengths[:, None]).to(device)
        runs[f"{mask.float().mean():.0%} filled, mask"] = functools.partial(step, mask, False)
        runs[f"{mask.float().mean():.0%} filled, packed"] = functools.partial(step, mask, True)
    try:
        seconds = interleaved_medians(runs, rounds)
    finally:
        classifier.pack_ragged = pack_ragged
    rows = [[name, f"{value / seconds['full']:.2f}"] for name, value in seconds.items()]
    title = f"Forward and backward of {batch} clouds of up to {longest} points, relative to a batch without padding"
    return f"{title}\n\n{markdown_table(['batch', 'time'], rows)}"
