"""Our kernels on a GPU: equal to their twins, as exact, and chosen where they should be."""

import pytest
import torch
import torch.nn.functional as F

import vnt
from helpers import centred_logits
from vnt.bench.toy import toy_clouds
from vnt.geometry import pack_ragged, random_rotation, rotate
from vnt.kernels import half_precision, kernels, usable
from vnt.models import classifier
from vnt.testing import equivariance_error

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@pytest.mark.filterwarnings("ignore:TensorFloat32")  # off on purpose
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("compiled", [False, True])
def test_kernels_equal_their_twins_in_a_whole_model(dtype, compiled):
    torch.manual_seed(0)
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5)).cuda()
    points = torch.randn(4, 100, 3, device="cuda")
    assert usable(points)

    def run(on: bool):
        torch.compiler.reset()
        f = torch.compile(model, fullgraph=True) if compiled else model
        with kernels(on), torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
            out = f(points).float()
        gradients = torch.autograd.grad(out.square().sum(), list(model.parameters()))
        return out.detach(), torch.cat([g.flatten() for g in gradients])

    for fast, plain in zip(run(True), run(False), strict=True):
        error = float((fast - plain).norm() / plain.norm())
        assert error <= (1e-5 if dtype == torch.float32 else 2e-2)


def test_kernels_are_chosen_in_compiled_code_and_left_out_of_exported_programs():
    x = torch.randn(2, 4, 3, device="cuda")
    chosen = torch.compile(lambda x: x + 1 if usable(x) else x, fullgraph=True)
    assert torch.equal(chosen(x), x + 1)
    layer = vnt.VNReLU(4).cuda()
    program = torch.export.export(layer, (x,))
    assert not any("rectify" in str(node.target) for node in program.graph.nodes)


def test_kernels_keep_the_symmetry():
    torch.manual_seed(0)
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5)).cuda().eval()
    points = torch.randn(8, 256, 3, device="cuda")
    errors = []
    for on in (True, False):
        with kernels(on):
            errors.append(equivariance_error(centred_logits(model), [points], ["point"], "scalar"))
    assert errors[0] <= 2 * errors[1] + 1e-6


def results(model, points, labels, on, dtype):
    """Logits and all gradients, with kernels or without; in float32 where no dtype is given."""
    model.zero_grad()
    with kernels(on), torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
        logits = model(points).float()
    F.cross_entropy(logits, labels).backward()
    return logits.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])


def difference(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("channels", "heads"), [(64, 2), (64, 4), (64, 8), (64, 16), (32, 4), (16, 16)])
def test_sublayers_are_as_near_to_float32_as_their_twins(channels, heads, dtype):
    torch.manual_seed(0)
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, channels=channels, num_heads=heads)).cuda()
    points, labels = (x.cuda() for x in toy_clouds(32, 200))
    with torch.autocast("cuda", dtype):
        assert half_precision(torch.zeros(1, channels, 3, device="cuda")) == dtype
    exact = results(model, points, labels, False, None)
    twin, fast = (results(model, points, labels, on, dtype) for on in (False, True))
    for f, t, e in zip(fast, twin, exact, strict=True):
        assert difference(f, e) <= 1.5 * difference(t, e) + 1e-4


def test_the_fast_path_is_as_equivariant_as_the_plain_one():
    """Root mean square over five models and 64 clouds of what a rotation changes, in bfloat16."""
    found = {True: 0.0, False: 0.0}
    for seed in range(5):
        torch.manual_seed(seed)
        model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5)).cuda().eval()
        points = toy_clouds(64, 512)[0].cuda()
        turned = rotate(points, random_rotation(64).cuda())
        for on in found:
            with kernels(on), torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
                found[on] += float((model(points).float() - model(turned).float()).square().mean())
    assert found[True] <= 1.1 * found[False]


def test_packed_and_padded_batches_agree(monkeypatch):
    torch.manual_seed(0)
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5)).cuda()
    points, labels = (x.cuda() for x in toy_clouds(16, 300))
    mask = (torch.arange(300) < torch.randint(1, 300, (16, 1))).cuda()

    def run(packed, dtype):
        monkeypatch.setattr(classifier, "pack_ragged", pack_ragged if packed else lambda mask: mask)
        return results(under_mask(model, mask), points, labels, True, dtype)

    exact = run(False, None)
    for f, e in zip(run(True, None), exact, strict=True):
        assert difference(f, e) <= 1e-4
    padded, packed = run(False, torch.bfloat16), run(True, torch.bfloat16)
    for f, t, e in zip(packed, padded, exact, strict=True):
        assert difference(f, e) <= 1.5 * difference(t, e) + 1e-4


def under_mask(model, mask):
    """The model with a mask that it always gets."""

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, points):
            return self.model(points, None, mask)

    return Masked()


def test_deterministic_algorithms_give_the_same_gradients_twice():
    torch.manual_seed(0)
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, num_heads=4)).cuda()
    points, labels = (x.cuda() for x in toy_clouds(16, 300))
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (results(model, points, labels, True, torch.bfloat16)[1] for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(first, second)
