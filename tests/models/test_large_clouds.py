"""Clouds larger than ``chunk_size``, which models with latents read in chunks: the same numbers, in little memory."""

import dataclasses
import json

import pytest
import torch

import vnt
from helpers import assert_close, centred_logits, displacements
from models.cases import bind, classifier, forecaster, inputs_for
from vnt.bench.timing import peak_memory
from vnt.testing import equivariance_error, point, scalar

N, SIZE = 50, 16  # three chunks and two points more
LATENTS = {"num_latents": 6}
OPTIONS = {
    "default": {},
    "early": {"num_attributes": 2, "fusion": "early"},
    "late": {"num_attributes": 2, "fusion": "late"},
    "normals": {"num_vectors": 1, "num_attributes": 1, "fusion": "late"},
    "post-norm": {"norm_position": "post"},
    "norms in branches": {"norm_position": "branch"},
    "bias": {"bias_epsilon": 1e-2},
    "chirality": {"chirality": True, "scale": "raw"},
}
READ_BACK = {
    "default": {},
    "late": OPTIONS["late"],
    "late pooled": {"attribute_pooling": True, **OPTIONS["late"]},
    "late pooled, max": {"attribute_pooling": True, "pooling": "max", **OPTIONS["late"]},
    "bias": OPTIONS["bias"],
    "chirality": OPTIONS["chirality"],
    "max": {"pooling": "max"},
    "mean": {"pooling": "mean", "point_channels": 0},
}
ALL = pytest.mark.parametrize("name", OPTIONS)
BOTH = pytest.mark.parametrize("make", [classifier, forecaster])


def build(make, name, dtype=torch.float64):
    return make("paper" if name == "paper" else "default", dtype, **LATENTS, **OPTIONS.get(name, {}))


def holes() -> torch.Tensor:
    """A mask that leaves the second chunk of the first cloud, and the first of the second, without any point."""
    mask = torch.rand(2, N) < 0.8
    mask[0, SIZE : 2 * SIZE] = False
    mask[1, :SIZE] = False
    return mask


def largest_lift(model, run) -> int:
    """The most points that are lifted at once."""
    sizes = []
    hook = model.lift.register_forward_hook(lambda _, inputs, out: sizes.append(out.shape[-3]))
    run()
    hook.remove()
    return max(sizes)


def results(model, inputs, mask, size):
    """The answer, and the gradients of everything that it depends on."""
    model.lift.chunk_size = size
    tensors = [x.clone().requires_grad_() for x in inputs.tensors()]
    out = bind(model, mask)(*tensors)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    names = ["points", "others", "more"][: len(tensors)] + [name for name, _ in model.named_parameters()]
    gradients = torch.autograd.grad((out * weight).sum(), [*tensors, *model.parameters()])
    return {"output": out.detach()} | dict(zip(names, gradients, strict=True))


def assert_same(actual, expected, tolerance):
    """Gradients may differ by three times as much: they add up the rounding of two passes."""
    assert float(expected["points"].norm()) > 1e-4
    for name, value in expected.items():
        error = float((actual[name] - value).norm() / value.norm().clamp(min=1e-3))
        assert error <= (1 if name == "output" else 3) * tolerance, f"{name}: {error:.1e}"


@BOTH
@ALL
@pytest.mark.parametrize(("dtype", "gate"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["f32", "f64"])
@pytest.mark.parametrize("masked", [True, False])
def test_chunks_change_neither_answer_nor_gradients(make, name, dtype, gate, masked):
    model = build(make, name, dtype)
    inputs = inputs_for(model, 2, N, dtype=dtype)
    mask = holes() if masked else None
    whole, streamed = results(model, inputs, mask, 0), results(model, inputs, mask, SIZE)
    assert_same(streamed, whole, gate)
    assert largest_lift(model, lambda: results(model, inputs, mask, SIZE)) == SIZE


@pytest.mark.parametrize("name", READ_BACK)
@pytest.mark.parametrize("masked", [True, False])
def test_points_that_read_back_are_pooled_in_chunks(name, masked):
    model = classifier("default", **LATENTS, read_back=True, **READ_BACK[name])
    inputs = inputs_for(model, 2, N)
    mask = holes() if masked else None
    whole, streamed = results(model, inputs, mask, 0), results(model, inputs, mask, SIZE)
    assert_same(streamed, whole, 1e-12)
    assert largest_lift(model, lambda: results(model, inputs, mask, SIZE)) == SIZE
    features = [
        model.features(inputs.points, inputs.attributes, mask, inputs.vectors) for model.lift.chunk_size in (0, SIZE)
    ]
    assert features[0].equivariant.shape[-3] == N
    for one, other in zip(*features, strict=True):
        assert_close(one, other, 1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_chunk_counts_in_full_whatever_the_precision(dtype):
    """65,505 points are infinitely many in float16, and 524,289 as many as 524,288 in bfloat16."""
    model = classifier("latents read back", pooling="mean")
    counts, means = torch.tensor([[524288], [300001]]), torch.tensor([[1.0], [-2.0]], dtype=dtype)
    merged = model._merge([[count, mean] for count, mean in zip(counts, means, strict=True)])
    expected = (524288 - 2 * 300001) / (524288 + 300001)
    assert merged.dtype == dtype
    assert abs(float(merged) - expected) <= torch.finfo(dtype).eps * abs(expected)


def test_latents_are_pooled_by_attribute_in_chunks_too():
    model = classifier("latents late pooled")
    inputs, mask = inputs_for(model, 2, N), holes()
    whole, streamed = results(model, inputs, mask, 0), results(model, inputs, mask, SIZE)
    assert_same(streamed, whole, 1e-12)
    assert largest_lift(model, lambda: results(model, inputs, mask, SIZE)) == SIZE


def test_forecasts_and_batch_statistics_hold_all_points_that_read_back():
    for model in (
        forecaster("default", **LATENTS, read_back=True, chunk_size=SIZE),
        classifier("default", **LATENTS, read_back=True, chunk_size=SIZE, head_norm="batch").train(),
    ):
        points = torch.randn(2, N, 3, dtype=torch.float64)
        assert largest_lift(model, lambda: model(points)) == N  # noqa: B023


@BOTH
def test_the_papers_arrangement_in_evaluation(make):
    """VN-BatchNorm on its running statistics looks at each point by itself."""
    model = build(make, "paper")
    inputs = inputs_for(model, 2, N)
    bind(model)(*inputs.tensors())
    model.eval()
    mask = holes()
    assert_same(results(model, inputs, mask, SIZE), results(model, inputs, mask, 0), 1e-9)
    assert largest_lift(model, lambda: results(model, inputs, mask, SIZE)) == SIZE


@pytest.mark.parametrize(
    "options", [{"num_neighbors": 4}, {"surroundings": (0.5,)}, {"norm": "batch"}, {"lift": "mlp", "mlp_norm": "batch"}]
)
def test_what_needs_all_points_gets_them(options):
    """Neighbours, surroundings, and batch statistics in training: held at once, with the same answer as ever."""
    model = classifier("latents", chunk_size=SIZE, **options).train()
    points = torch.randn(2, N, 3, dtype=torch.float64)
    assert largest_lift(model, lambda: model(points)) == N
    held = {key: value.clone() for key, value in model.state_dict().items()}
    streamed = model(points)
    model.load_state_dict(held)
    model.lift.chunk_size = 0
    assert torch.equal(streamed, model(points))


@BOTH
def test_smaller_clouds_and_models_without_latents_are_left_alone(make):
    """Bit for bit: not another order of sums."""
    for name in ("latents", "default"):
        model = make(name, torch.float32, chunk_size=SIZE)
        size = SIZE if name == "latents" else N
        points = torch.randn(2, size, 3)
        assert largest_lift(model, lambda: model(points)) == size  # noqa: B023
        expected = model(points)
        model.lift.chunk_size = 0
        assert torch.equal(model(points), expected)


@pytest.mark.parametrize("batch", [(), (2, 2), (0,)])
def test_any_leading_axes(batch):
    model = build(classifier, "late").eval()
    inputs = inputs_for(model, *batch, N).tensors()
    expected = bind(model)(*inputs)
    model.lift.chunk_size = SIZE
    assert_close(bind(model)(*inputs), expected)


@BOTH
@ALL
def test_symmetry(make, name):
    """Rotations; and for clouds the order of points, which moves them between chunks."""
    model = build(make, name).eval()
    model.lift.chunk_size = SIZE
    inputs = inputs_for(model, 3, N)
    group = "SO(3)" if model.config.chirality else "O(3)"
    call = bind(model)
    centred = centred_logits(call) if make is classifier else displacements(call)
    output = "scalar" if make is classifier else "vector"
    if model.config.bias_epsilon == 0:
        assert equivariance_error(centred, inputs.tensors(), inputs.kinds, output, group=group) <= 1e-9
    if make is classifier and inputs.kinds == ["point"]:
        error = equivariance_error(centred, [inputs.points], [point(-2)], scalar(), group="permutations")
        assert error <= 1e-9


def test_autocast_is_kept_in_the_backward_pass():
    """In bfloat16 chunks are as exact as the whole; a recomputation in another precision would raise."""
    model = build(classifier, "late", torch.float32)
    inputs = inputs_for(model, 2, N, dtype=torch.float32)
    mask = holes()
    exact = results(model, inputs, mask, 0)
    with torch.autocast("cpu", torch.bfloat16):
        both = results(model, inputs, mask, SIZE), results(model, inputs, mask, 0)
    for name in ("output", "points"):
        streamed, whole = (float((found[name] - exact[name]).norm() / exact[name].norm()) for found in both)
        assert 0 < streamed < 2 * whole < 0.1, name


@pytest.mark.parametrize("read_back", [False, True])
def test_memory_grows_by_coordinates_only(read_back):
    """From 4,096 to 12,288 points: less than one token of 64 channels for each point more, gradients included."""
    options = {"num_latents": 4, "read_back": read_back, "depth": 1, "chunk_size": 1024}
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, **options))

    def growth(size: int) -> float:
        model.lift.chunk_size = size
        sizes = (4096, 12288)
        clouds = [torch.randn(1, n, 3, requires_grad=True) for n in sizes]
        few, many = (peak_memory(lambda x=x: torch.autograd.grad(model(x).sum(), x)) for x in clouds)
        return (many - few) * 2**20 / (sizes[1] - sizes[0])

    token = 4 * model.config.channels * 3
    assert growth(1024) < token / 2
    assert growth(0) > 5 * token


def test_configs_from_before_have_the_default():
    model = build(classifier, "default")
    values = dataclasses.asdict(vnt.ClassifierConfig(num_classes=5))
    del values["chunk_size"]
    assert vnt.ClassifierConfig.from_json(json.dumps(values)) == vnt.ClassifierConfig(num_classes=5)
    small = dataclasses.replace(model.config, chunk_size=SIZE)
    other = vnt.VNTransformerClassifier(small).to(torch.float64)
    other.load_state_dict(model.state_dict())
    points = torch.randn(2, N, 3, dtype=torch.float64)
    assert_close(other(points), model(points))


@pytest.mark.parametrize(("points", "weights"), [(torch.float64, torch.float32), (torch.float32, torch.float64)])
@BOTH
def test_late_attributes_of_another_precision_than_the_weights(make, points, weights):
    model = make("default", weights, **LATENTS, **OPTIONS["late"]).eval()
    x, attributes = torch.randn(2, N, 3, dtype=points), torch.rand(2, N, 2, dtype=points)
    whole = model(x, attributes)
    model.lift.chunk_size = SIZE
    assert torch.allclose(model(x, attributes), whole, atol=1e-5)
