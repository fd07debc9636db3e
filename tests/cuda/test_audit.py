"""The audit where the model is on a GPU: the same verdicts, and the same numbers as on the CPU in float64."""

import pytest
import torch

import vnt
from vnt.bench.toy import toy_clouds, toy_tracks

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("epsilon", [0.0, 1e-6])
@pytest.mark.parametrize("kind", ["classifier", "forecaster"])
def test_verdicts_and_numbers_on_a_gpu(kind, epsilon):
    torch.manual_seed(0)
    if kind == "classifier":
        model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, bias_epsilon=epsilon)).eval()
        points = toy_clouds(3, 128)[0]
    else:
        model = vnt.VNTransformerForecaster(vnt.ForecasterConfig(bias_epsilon=epsilon)).eval()
        points = toy_tracks(3, 11)
    on_cpu = vnt.audit(model, points, num_steps=4)
    on_gpu = vnt.audit(model.cuda(), points.cuda(), num_steps=4, epsilons=(1e-6,))
    for precision in ("float64", "float32"):
        assert on_gpu.verdicts[precision].word == on_cpu.verdicts[precision].word
    assert on_gpu.verdicts["bfloat16"].word == "rounding"
    assert not on_gpu.broken
    if epsilon > 0:
        assert on_gpu.violations["float64"].worst == pytest.approx(on_cpu.violations["float64"].worst, rel=1e-6)
        assert torch.allclose(
            on_gpu.law.gram, on_cpu.law.gram, rtol=1e-6, atol=1e-6 * float(on_cpu.law.gram.abs().max())
        )
        assert on_gpu.certificate.worst == pytest.approx(on_cpu.certificate.worst, rel=1e-3)
    assert "relative violation" in str(on_gpu)
    on_gpu.to_dict()
