"""How exact the models are: relative equivariance error of the default ones and of the paper's literal arrangement.

Eight clouds of 256 points (tracks of 11 steps), a different random rotation for each, three times; the largest error,
of logits less their mean and of displacements from the last observed point.
"""

import dataclasses

import torch
from torch import Tensor, nn

from vnt.bench.timing import markdown_table
from vnt.bench.toy import toy_clouds, toy_tracks, train_classifier, train_forecaster
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.config import BackboneConfig, ClassifierConfig, ForecasterConfig
from vnt.models.forecaster import VNTransformerForecaster
from vnt.models.recipes import paper_classifier, paper_forecaster, upright
from vnt.testing import equivariance_error

CONFIGS: dict[str, BackboneConfig] = {
    "classifier, default": ClassifierConfig(num_classes=5),
    "classifier, default, 12 blocks": ClassifierConfig(num_classes=5, depth=12),
    "classifier, 32 latents": ClassifierConfig(num_classes=5, num_latents=32),
    "classifier, paper, ε = 0": dataclasses.replace(paper_classifier(5), bias_epsilon=0.0),
    "classifier, paper, ε = 1e-6": paper_classifier(5),
    "classifier, paper, upright, ε = 0": dataclasses.replace(upright(paper_classifier(5)), bias_epsilon=0.0),
    "classifier, paper, upright, ε = 1e-6": upright(paper_classifier(5)),
    "forecaster, default": ForecasterConfig(),
    "forecaster, paper, ε = 0": dataclasses.replace(paper_forecaster(), bias_epsilon=0.0),
    "forecaster, paper, ε = 1e-6": paper_forecaster(),
    "forecaster, paper, upright, ε = 0": dataclasses.replace(upright(paper_forecaster()), bias_epsilon=0.0),
    "forecaster, paper, upright, ε = 1e-6": upright(paper_forecaster()),
}


def error(model: nn.Module, X: Tensor) -> float:
    """The relative equivariance error of either model, in the mode it is in."""
    if isinstance(model, VNTransformerForecaster):
        return equivariance_error(lambda x: model(x) - x[:, -1:], [X], ["point"], "vector")
    return equivariance_error(lambda x: (out := model(x)) - out.mean(-1, keepdim=True), [X], ["point"], "scalar")


def measure(config: BackboneConfig, dtype: torch.dtype, steps: int) -> tuple[float, float]:
    """Errors in train and eval mode, after so many training steps."""
    torch.manual_seed(0)
    if isinstance(config, ClassifierConfig):
        model = VNTransformerClassifier(config).to(dtype)
        train_classifier(model, steps)
        X = toy_clouds(8, 256, dtype=dtype)[0]
    else:
        assert isinstance(config, ForecasterConfig)
        model = VNTransformerForecaster(config).to(dtype)
        train_forecaster(model, steps)
        X = toy_tracks(8, 11, dtype=dtype)
    return error(model.train(), X), error(model.eval(), X)


def table() -> str:
    """Every config, fresh and after 50 steps, in float32 and float64: train / eval."""
    rows = []
    for name, config in CONFIGS.items():
        cells = [measure(config, dtype, steps) for dtype in (torch.float32, torch.float64) for steps in (0, 50)]
        rows.append([name, *(f"{train:.0e} / {evaluation:.0e}" for train, evaluation in cells)])
    header = ["train / eval", "f32, fresh", "f32, 50 steps", "f64, fresh", "f64, 50 steps"]
    return f"Relative equivariance error under random rotations\n\n{markdown_table(header, rows)}"
