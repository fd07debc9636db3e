"""Eager = compiled = exported, for both models, with dynamic batch and number of points.

Runs without the shape-checking import hook, which torch.compile cannot trace.
"""

import shutil

import pytest
import torch
from torch.export import Dim

from contracts.cases import LAYERS, cloud, make
from models.cases import CLASSIFIERS, classifier, forecaster, inputs_for
from vnt.testing import equivariance_error

HAS_COMPILER = shutil.which("g++") is not None or shutil.which("clang++") is not None
BACKEND = "inductor" if HAS_COMPILER else "aot_eager"  # without a C++ compiler there is nothing to generate code with
# The forecaster shares its options with the classifier; what differs is in these.
MODELS = [(classifier, name) for name in CLASSIFIERS] + [
    (forecaster, name) for name in ("default", "early", "late", "latents late", "edges", "normals", "batch norm")
]
IN_FULL = [(classifier, "default"), (forecaster, "default"), (classifier, "latents early"), (forecaster, "late")]


def relative(actual, expected):
    return float((actual - expected).detach().norm() / expected.detach().norm())


def arguments(model, *size):
    inputs = inputs_for(model, *size, dtype=torch.float32)
    return (inputs.points, inputs.attributes, None, inputs.vectors)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()


@pytest.mark.parametrize("name", LAYERS)
def test_layers_compile_as_one_graph(name):
    layer, V = make(name, torch.float32).eval(), cloud(2, dtype=torch.float32)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert relative(compiled(V), layer(V)) < 1e-5


@pytest.mark.parametrize(("make_model", "name"), MODELS)
def test_models_compile_as_one_graph_and_train(make_model, name):
    """Forward and gradients of every arrangement, traced whole (aot_eager: no code is generated)."""
    model = make_model(name, torch.float32)
    args = arguments(model, 2, 12)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected = model(*args)
    expected.square().sum().backward()
    gradients = {key: parameter.grad.clone() for key, parameter in model.named_parameters()}
    model.zero_grad()
    actual = compiled(*args)
    actual.square().sum().backward()
    assert relative(actual, expected) < 1e-4
    for key, parameter in model.named_parameters():
        assert relative(parameter.grad, gradients[key]) < 1e-3, key


@pytest.mark.parametrize(("make_model", "name"), IN_FULL)
def test_generated_code_equals_eager_at_any_size(make_model, name):
    """Inductor where there is a C++ compiler, aot_eager elsewhere; one graph serves all sizes."""
    model = make_model(name, torch.float32).eval()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=BACKEND)
    with torch.no_grad():
        for size in ((2, 12), (3, 17), (5, 33)):
            args = arguments(model, *size)
            assert relative(compiled(*args), model(*args)) < 1e-4


def test_generated_code_trains():
    model = classifier("default", torch.float32)
    args = arguments(model, 2, 16)
    compiled = torch.compile(model, fullgraph=True, backend=BACKEND)
    model(*args).square().sum().backward()
    expected = model.lift.lift.lift.weight.grad.clone()
    model.zero_grad()
    compiled(*args).square().sum().backward()
    assert relative(model.lift.lift.lift.weight.grad, expected) < 1e-4


def test_compiled_model_is_as_equivariant_as_eager():
    model = classifier("default", torch.float32).eval()
    compiled = torch.compile(model, fullgraph=True, backend=BACKEND)
    X = torch.randn(4, 24, 3)

    def logits(f):
        return lambda x: (out := f(x)) - out.mean(-1, keepdim=True)

    assert equivariance_error(logits(compiled), [X], ["point"], "scalar") < 1e-4


@pytest.mark.parametrize(("make_model", "name"), MODELS)
def test_exported_program_takes_any_batch_and_number_of_points(make_model, name):
    """One program, exported at one size, runs at others, and keeps the symmetry."""
    model = make_model(name, torch.float32).eval()
    args = arguments(model, 2, 24)
    # Searching neighbours needs as many points as there are slots.
    batch, tokens = Dim("batch", min=1, max=4096), Dim("tokens", min=16, max=100_000)
    shapes = tuple(None if x is None else {0: batch, 1: tokens} for x in args)
    program = torch.export.export(model, args, dynamic_shapes=shapes).module()
    with torch.no_grad():
        for size in ((1, 24), (3, 17), (4, 50)):
            args = arguments(model, *size)
            assert relative(program(*args), model(*args)) < 1e-4


@pytest.mark.parametrize("make_model", [classifier, forecaster])
def test_exported_program_takes_a_mask(make_model):
    model = make_model("default", torch.float32).eval()
    batch, tokens = Dim("batch", min=1, max=4096), Dim("tokens", min=2, max=100_000)
    points, mask = torch.randn(2, 24, 3), torch.ones(2, 24, dtype=torch.bool)
    shapes = ({0: batch, 1: tokens}, None, {0: batch, 1: tokens})
    program = torch.export.export(model, (points, None, mask), dynamic_shapes=shapes).module()
    points = torch.randn(3, 40, 3)
    mask = (torch.arange(40) < torch.tensor([[40], [25], [1]])).expand(3, -1)
    with torch.no_grad():
        assert relative(program(points, None, mask), model(points, None, mask)) < 1e-4
