"""The audit: how long it takes, and how near first-order law and certificate come to what is measured."""

import time
from itertools import pairwise

import torch

from vnt.bench.timing import markdown_table
from vnt.bench.toy import toy_clouds, toy_tracks, train_classifier, train_forecaster
from vnt.equivariance import audit, certify, describe_subject, first_order_law, measure
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.config import ClassifierConfig, ForecasterConfig
from vnt.models.forecaster import VNTransformerForecaster

SIZE = ClassifierConfig(num_classes=40, channels=32, point_channels=128, head_channels=128, bias_epsilon=1e-6)
"""A classifier of 0.1M parameters."""


def seconds() -> str:
    """The full audit of eight clouds of 1,024 points, part by part."""
    torch.manual_seed(0)
    model = VNTransformerClassifier(SIZE).eval()
    points = toy_clouds(8, 1024)[0]
    parts: list[tuple[str, float]] = []

    def note(words: str) -> None:
        parts.append((words, time.perf_counter()))

    note("")
    audit(model, points, progress=note)
    note("all")
    rows = [[words, f"{after - before:.1f}"] for (words, before), (_, after) in pairwise(parts[1:])]
    total = parts[-1][1] - parts[0][1]
    count = sum(p.numel() for p in model.parameters())
    title = f"Audit of {count:,} parameters on 8 clouds of 1,024 points (goal: 60 s)"
    return f"{title}\n\n{markdown_table(['part', 'seconds'], [*rows, ['all', f'{total:.1f}']])}"


def tightness() -> str:
    """Measured worst case, first-order law and certificate of the default models, fresh and after 50 steps."""
    rows = []
    for epsilon in (1e-8, 1e-6, 1e-4):
        for depth in (1, 2, 4):
            for steps in (0, 50):
                rows.append(_line(f"classifier, depth {depth}", epsilon, depth, steps))
        rows.append(_line("forecaster, depth 2", epsilon, 2, 0))
    header = ["model", "ε", "steps", "measured", "law / measured", "certified / measured"]
    return f"Worst relative violation over all rotations, three inputs\n\n{markdown_table(header, rows)}"


def _line(name: str, epsilon: float, depth: int, steps: int) -> list[str]:
    torch.manual_seed(0)
    if name.startswith("classifier"):
        model = VNTransformerClassifier(ClassifierConfig(num_classes=5, bias_epsilon=epsilon, depth=depth))
        train_classifier(model, steps)
        points = toy_clouds(3, 128)[0]
    else:
        model = VNTransformerForecaster(ForecasterConfig(bias_epsilon=epsilon, depth=depth))
        train_forecaster(model, steps)
        points = toy_tracks(3, 11)
    subject = describe_subject(model.eval(), [points])
    law = first_order_law(subject)
    assert law is not None
    found = measure(subject, num_samples=4, starts=[law.worst_rotation], num_starts=1, num_steps=8)
    certified = certify(subject).worst
    return [
        name,
        f"{epsilon:.0e}",
        str(steps),
        f"{found.worst:.1e}",
        f"{float(law.worst.max()) / found.worst:.3f}",
        f"{certified / found.worst:.3g}",
    ]


def table() -> str:
    """Both."""
    return f"{seconds()}\n\n{tightness()}"
