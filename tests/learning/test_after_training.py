"""Exactness where it counts: after training, when weights and statistics have moved off their starting values."""

import itertools

import pytest
import torch

import vnt
from helpers import centred_logits, displacements
from vnt.bench.toy import toy_clouds, toy_tracks, train_classifier, train_forecaster
from vnt.testing import equivariance_error

GATE = {torch.float32: 1e-4, torch.float64: 1e-11}
CLASSIFIERS = {
    "default": {},
    "latents": {"num_latents": 8},
    "latents read back": {"num_latents": 8, "read_back": True},
    "edges": {"num_neighbors": 8},
    "chirality": {"chirality": True},
    "median": {"center": "median", "scale": "invariant"},
}
FORECASTERS = {"default": {}, "latents": {"num_latents": 4}, "chirality": {"chirality": True}}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("steps", [0, 50])
def test_classifier(name, steps):
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, **CLASSIFIERS[name]))
    train_classifier(model, steps)
    for dtype, training in itertools.product(GATE, (True, False)):
        points = toy_clouds(8, 128, dtype=dtype)[0]
        function = centred_logits(model.to(dtype).train(training))
        for group in ("SO(3)", "translations", "permutations"):
            error = equivariance_error(function, [points], ["point"], "scalar", group=group)
            assert error <= GATE[dtype], f"{group}, {dtype}, training={training}: {error:.1e}"


@pytest.mark.parametrize("name", FORECASTERS)
@pytest.mark.parametrize("steps", [0, 50])
def test_forecaster(name, steps):
    model = vnt.VNTransformerForecaster(vnt.ForecasterConfig(**FORECASTERS[name]))
    train_forecaster(model, steps)
    for dtype, training in itertools.product(GATE, (True, False)):
        past = toy_tracks(8, 11, dtype=dtype)
        function = displacements(model.to(dtype).train(training))
        for group in ("SO(3)", "translations"):
            error = equivariance_error(function, [past], ["point"], "vector", group=group)
            assert error <= GATE[dtype], f"{group}, {dtype}, training={training}: {error:.1e}"


def test_the_forecaster_learns():
    """The task is one that constant velocity gets wrong; 200 steps are enough to beat it."""
    model = vnt.VNTransformerForecaster(vnt.ForecasterConfig())
    train_forecaster(model, 200)
    tracks = toy_tracks(64, 91)
    past, future = tracks[:, :11], tracks[:, 11:]
    velocity = past[:, -1:] - past[:, -2:-1]
    constant = past[:, -1:] + velocity * torch.arange(1, 81)[None, :, None]
    with torch.no_grad():
        ours = (model.eval()(past) - future).norm(dim=-1).mean()
    assert ours < 0.8 * (constant - future).norm(dim=-1).mean()


def test_the_classifier_learns_what_rotation_cannot_hide():
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5))
    train_classifier(model, 60)
    points, labels = toy_clouds(100, 64)
    with torch.no_grad():
        accuracy = (model.eval()(points).argmax(-1) == labels).float().mean()
    assert accuracy > 0.9


def test_bfloat16_autocast_keeps_rotation_noise_small():
    """Depth 4, 50 steps: RMS change of the logits under rotation within 5 % of their spread over classes."""
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, depth=4))
    train_classifier(model, 50)
    points = toy_clouds(32, 128)[0]
    from vnt.geometry import random_rotation, rotate

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = model.eval()(points).float()
        turned = model(rotate(points, random_rotation(32))).float()
    rms_change = (turned - logits).square().mean().sqrt()
    spread = logits.std(-1).mean()
    assert float(rms_change / spread) <= 0.05


@pytest.mark.parametrize("latents", [0, 8])
def test_depth_twelve_neither_explodes_nor_dies(latents):
    """The size of features and gradients at depth 12, fresh from the constructor."""
    config = vnt.ClassifierConfig(num_classes=5, depth=12, num_latents=latents)
    model = vnt.VNTransformerClassifier(config)
    points, labels = toy_clouds(16, 64)
    torch.nn.functional.cross_entropy(model(points), labels).backward()
    encoder = model.trunk.encoder if latents == 0 else model.trunk.encoder.encoder
    norms = [block.attention.value.weight.grad.norm().item() for block in encoder.blocks]
    assert max(norms) < 100 * min(norms)
    assert min(norms) > 1e-6
