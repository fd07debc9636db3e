"""What only a GPU can show: the same numbers as on the CPU, the same symmetry, in float32, bfloat16 and compiled."""

import pytest
import torch

import vnt
from helpers import centred_logits, displacements
from vnt.bench.toy import toy_clouds, toy_tracks, train_classifier
from vnt.geometry import random_rotation, rotate
from vnt.testing import equivariance_error

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

OPTIONS = {
    "default": {},
    "latents": {"num_latents": 16},
    "latents read back": {"num_latents": 16, "read_back": True},
    "edges": {"num_neighbors": 8},
    "chirality": {"chirality": True},
    "median": {"center": "median"},
    "paper's norms": {"norm": "layer", "mlp_norm": "batch"},
}


def classifier(name, **more):
    return vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, **OPTIONS[name], **more))


@pytest.mark.parametrize("name", OPTIONS)
def test_gpu_equals_cpu(name):
    model, points = classifier(name).eval(), toy_clouds(4, 200)[0]
    mask = (torch.arange(200) < torch.tensor([[200], [150], [3], [1]])).expand(4, -1)
    with torch.no_grad():
        expected = model(points, None, mask)
        actual = model.cuda()(points.cuda(), None, mask.cuda()).cpu()
    assert float((actual - expected).norm() / expected.norm()) < 1e-4


@pytest.mark.parametrize("name", ["default", "latents", "edges", "chirality", "median"])
@pytest.mark.parametrize(("dtype", "gate"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
def test_symmetry(name, dtype, gate):
    model = classifier(name).to("cuda", dtype)
    points = toy_clouds(8, 256, dtype=dtype)[0].cuda()
    for training in (True, False):
        error = equivariance_error(centred_logits(model.train(training)), [points], ["point"], "scalar")
        assert error <= gate


@pytest.mark.parametrize(("dtype", "gate"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
def test_forecaster_symmetry(dtype, gate):
    model = vnt.VNTransformerForecaster(vnt.ForecasterConfig()).to("cuda", dtype).eval()
    past = toy_tracks(8, 11, dtype=dtype).cuda()
    assert equivariance_error(displacements(model), [past], ["point"], "vector") <= gate


def test_bfloat16_autocast_keeps_rotation_noise_small():
    """Depth 4 after 50 steps: RMS change of the logits under rotation within 5 % of their spread over classes."""
    model = classifier("default", depth=4)
    train_classifier(model, 50)
    model.cuda().eval()
    points = toy_clouds(32, 256)[0]
    turned = rotate(points, random_rotation(32)).cuda()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        logits, other = model(points.cuda()).float(), model(turned).float()
    ratio = float((other - logits).square().mean().sqrt() / logits.std(-1).mean())
    assert ratio <= 0.05


def test_a_million_points():
    """In chunks what they are at once, to 1e-5 in float32; forward and backward in less than 4 GiB."""
    model = classifier("latents").cuda()
    points = torch.randn(1, 1_000_000, 3, device="cuda")
    with torch.no_grad():
        streamed = model(points)
        model.lift.chunk_size = 0
        whole = model(points)
    assert float((streamed - whole).norm() / whole.norm()) < 1e-5
    model.lift.chunk_size = model.config.chunk_size
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", torch.bfloat16):
        out = model(points)
    out.float().square().sum().backward()
    assert torch.cuda.max_memory_allocated() < 4 * 2**30


@pytest.mark.filterwarnings("ignore:TensorFloat32")  # off on purpose
@pytest.mark.parametrize("name", ["default", "latents", "edges"])
def test_compiled_equals_eager(name):
    model = classifier(name).cuda()
    compiled = torch.compile(model, fullgraph=True)
    points = toy_clouds(4, 256)[0].cuda()
    expected, actual = model(points), compiled(points)
    actual.square().sum().backward()
    assert float((actual - expected).detach().norm() / expected.detach().norm()) < 1e-4


def test_checks_of_values_work_on_the_gpu():
    model = classifier("default").cuda()
    points = torch.randn(2, 10, 3, device="cuda")
    with pytest.raises(ValueError, match="leaves no point"):
        model(points, None, torch.zeros(2, 10, dtype=torch.bool, device="cuda"))
    points[0, 3, 1] = float("nan")
    with pytest.raises(ValueError, match=r"finite, got nan at index \(0, 3, 1\)"):
        model(points)
