"""ONNX Runtime gives what eager gives. The shape-checking import hook cannot be exported either."""

import pytest
import torch

from vnt.bench import inference
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.config import ClassifierConfig


def test_onnx_runtime_gives_what_eager_gives():
    """Exported at one size, run at others."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    pytest.importorskip("onnxscript", reason="the extra 'onnx' is not installed")
    torch.manual_seed(0)
    config = ClassifierConfig(num_classes=5, channels=8, num_heads=2, depth=1, point_channels=8, head_channels=8)
    model = VNTransformerClassifier(config).eval()
    run = inference.onnx_session(model)
    for size in ((1, 40), (3, 17)):
        points = torch.randn(*size, 3)
        assert inference.largest_change(run(points), model(points).detach()) < 1e-5
