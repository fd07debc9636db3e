"""The default classifier on the CPU: latency of one cloud, throughput of a batch, and what each way costs in exactness.

Eager, compiled and ONNX Runtime, in float32 and, where the CPU multiplies in it, bfloat16 (autocast). All in one
process on the same clouds, taking turns.
"""

import functools
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from vnt.bench.timing import has_bfloat16, has_compiler, interleaved_medians, markdown_table
from vnt.bench.toy import toy_clouds, train_classifier
from vnt.export.artefacts import NEEDED, export, onnx_runner
from vnt.geometry import random_rotation, rotate
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.config import ClassifierConfig

POINTS, BATCHES = 1024, (1, 32)
REFERENCE = "eager, float32"
STEPS = 50
"""Of training, so that weights are not those of the start."""


def make_model() -> nn.Module:
    """The default classifier, off its starting point."""
    model = VNTransformerClassifier(ClassifierConfig(num_classes=5))
    train_classifier(model, STEPS)
    return model.eval()


def contenders(model: nn.Module) -> dict[str, Callable[[Tensor], Tensor]]:
    """The ways to run it that this machine has."""
    ways: dict[str, Callable[[Tensor], Tensor]] = {REFERENCE: _infer(model)}
    if has_bfloat16():
        ways["eager, bfloat16"] = _infer(model, half=True)
    if has_compiler():
        compiled = torch.compile(model, dynamic=False)
        ways["compiled, float32"] = _infer(compiled)
        if has_bfloat16():
            ways["compiled, bfloat16"] = _infer(compiled, half=True)
    if all(importlib.util.find_spec(name) is not None for name in NEEDED):
        ways["ONNX Runtime, float32"] = onnx_session(model)
    return ways


def _infer(model: Callable[[Tensor], Tensor], half: bool = False) -> Callable[[Tensor], Tensor]:
    def run(points: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
            return model(points).float()

    return run


def onnx_session(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model exported to ONNX, and run by ONNX Runtime."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export(model, path)
        return onnx_runner(path)


def centred(logits: Tensor) -> Tensor:
    """Logits less their mean, which no probability depends on."""
    return logits - logits.mean(-1, keepdim=True)


def largest_change(actual: Tensor, expected: Tensor) -> float:
    """The largest difference of logits, relative to the largest logit."""
    return float((centred(actual) - centred(expected)).abs().max() / centred(expected).abs().max())


def table(rounds: int = 15) -> str:
    """Speed relative to eager float32 for each size of batch, times, and both errors on the larger batch."""
    torch.manual_seed(0)
    ways = contenders(make_model())
    clouds = {batch: toy_clouds(batch, POINTS)[0] for batch in BATCHES}
    seconds = {
        batch: interleaved_medians({name: functools.partial(run, points) for name, run in ways.items()}, rounds)
        for batch, points in clouds.items()
    }
    many = clouds[BATCHES[-1]]
    turned = rotate(many, random_rotation(len(many)))
    expected = ways[REFERENCE](many)
    rows = []
    for name, run in ways.items():
        found = run(many)
        rows.append(
            [
                name,
                *(f"{seconds[batch][REFERENCE] / seconds[batch][name]:.2f}x" for batch in BATCHES),
                *(f"{1e3 * seconds[batch][name] / batch:.1f}" for batch in BATCHES),
                f"{largest_change(found, expected):.0e}",
                f"{largest_change(run(turned), found):.0e}",
            ]
        )
    sizes = ["one cloud" if batch == 1 else f"{batch} clouds" for batch in BATCHES]
    header = ["way", *sizes, *(f"ms per cloud, {size}" for size in sizes), "from eager", "under rotation"]
    title = (
        f"Default classifier, {POINTS} points, inference on {torch.get_num_threads()} threads: speed relative to eager "
        f"float32, median of {rounds} rounds, and the largest relative change of logits"
    )
    return f"{title}\n\n{markdown_table(header, rows)}"
