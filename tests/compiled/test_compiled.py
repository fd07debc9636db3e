"""Eager = compiled = exported, for both models, with dynamic batch and number of points.

Runs without the shape-checking import hook, which torch.compile cannot trace.
"""

import shutil

import pytest
import torch
from torch.export import Dim

import vnt
from contracts.cases import LAYERS, cloud, make
from models.cases import CLASSIFIERS, apart, classifier, forecaster, inputs_for
from vnt.testing import equivariance_error

HAS_COMPILER = shutil.which("g++") is not None or shutil.which("clang++") is not None
BACKEND = "inductor" if HAS_COMPILER else "aot_eager"  # without a C++ compiler there is nothing to generate code with
# The forecaster shares its options with the classifier; what differs is in these.
MODELS = [(classifier, name) for name in CLASSIFIERS] + [
    (forecaster, name) for name in ("default", "early", "late", "latents late", "edges", "normals", "batch norm")
]
MODELS.append((apart, "default"))
IN_FULL = [(classifier, "default"), (forecaster, "default"), (classifier, "latents early"), (forecaster, "late")]


def make_one(make_model, name):
    """A model of one block: a second is the same code again, and takes as long."""
    return make_model(name, torch.float32, depth=1)


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
    model = make_one(make_model, name)
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


@pytest.mark.parametrize("make_model", [classifier, forecaster])
def test_models_with_a_mask_compile_as_one_graph(make_model):
    model, inputs = make_one(make_model, "default").eval(), inputs_for(make_one(make_model, "default"), 3, 12)
    points = inputs.points.float()
    mask = torch.arange(12) >= torch.tensor([[0], [2], [5]])
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert relative(compiled(points, None, mask), model(points, None, mask)) < 1e-5


@pytest.mark.parametrize(("make_model", "name"), IN_FULL)
def test_generated_code_equals_eager_at_any_size(make_model, name):
    """Inductor where there is a C++ compiler, aot_eager elsewhere; one graph serves all sizes."""
    model = make_one(make_model, name).eval()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=BACKEND)
    with torch.no_grad():
        for size in ((2, 12), (3, 17), (5, 33)):
            args = arguments(model, *size)
            assert relative(compiled(*args), model(*args)) < 1e-4


def test_generated_code_trains():
    model = make_one(classifier, "default")
    args = arguments(model, 2, 16)
    compiled = torch.compile(model, fullgraph=True, backend=BACKEND)
    model(*args).square().sum().backward()
    expected = {key: parameter.grad.clone() for key, parameter in model.named_parameters()}
    model.zero_grad()
    compiled(*args).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert relative(parameter.grad, expected[key]) < 1e-3, key


def test_compiled_model_is_as_equivariant_as_eager():
    model = make_one(classifier, "default").eval()
    compiled = torch.compile(model, fullgraph=True, backend=BACKEND)
    X = torch.randn(4, 24, 3)

    def logits(f):
        return lambda x: (out := f(x)) - out.mean(-1, keepdim=True)

    assert equivariance_error(logits(compiled), [X], ["point"], "scalar") < 1e-4


@pytest.mark.parametrize(("make_model", "name"), MODELS)
def test_exported_program_takes_any_batch_and_number_of_points(make_model, name):
    """One program, exported at one size, runs at others, and keeps the symmetry."""
    model = make_one(make_model, name).eval()
    args = arguments(model, 2, 24)
    batch, tokens = Dim("batch", min=1, max=4096), Dim("tokens", min=1, max=100_000)
    shapes = tuple(None if x is None else {0: batch, 1: tokens} for x in args)
    program = torch.export.export(model, args, dynamic_shapes=shapes).module()
    with torch.no_grad():
        for size in ((1, 24), (3, 2), (4, 50)):
            args = arguments(model, *size)
            assert relative(program(*args), model(*args)) < 1e-4


@pytest.mark.parametrize("name", ["default", "edges", "latents late"])
@pytest.mark.parametrize("make_model", [classifier, forecaster])
def test_exported_program_takes_a_mask(make_model, name):
    model = make_one(make_model, name).eval()
    batch, tokens = Dim("batch", min=1, max=4096), Dim("tokens", min=1, max=100_000)
    points, attributes, _, _ = arguments(model, 2, 24)
    mask = torch.ones(2, 24, dtype=torch.bool)
    dynamic = {0: batch, 1: tokens}
    shapes = (dynamic, None if attributes is None else dynamic, dynamic)
    program = torch.export.export(model, (points, attributes, mask), dynamic_shapes=shapes).module()
    points, attributes, _, _ = arguments(model, 3, 40)
    mask = (torch.arange(40) < torch.tensor([[40], [25], [1]])).expand(3, -1)
    with torch.no_grad():
        assert relative(program(points, attributes, mask), model(points, attributes, mask)) < 1e-4


def test_chunks_compile_as_one_graph_and_train():
    """The loop over chunks is unrolled; gradients are those of eager mode."""
    model = classifier("latents late", torch.float32, depth=1, chunk_size=8)
    args = arguments(model, 2, 21)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected, actual = model(*args), compiled(*args)
    assert relative(actual, expected) < 1e-4
    inputs = list(model.parameters())
    pairs = zip(*(torch.autograd.grad(out.square().sum(), inputs) for out in (actual, expected)), strict=True)
    for (key, _), (gradient, wanted) in zip(model.named_parameters(), pairs, strict=True):
        assert relative(gradient, wanted) < 1e-3, key


def test_exported_program_holds_large_clouds_whole():
    model = classifier("latents late", torch.float32, depth=1, chunk_size=8).eval()
    args = arguments(model, 2, 6)
    dynamic = {0: Dim("batch", min=1, max=4096), 1: Dim("tokens", min=1, max=100_000)}
    program = torch.export.export(model, args, dynamic_shapes=(dynamic, dynamic, None, None)).module()
    with torch.no_grad():
        args = arguments(model, 3, 40)
        assert relative(program(*args), model(*args)) < 1e-5


def test_compiled_edges_share_ties():
    """On a lattice and at k up to 26 a compiled edge-convolution, which has 3k slots, is the eager one."""
    axis = torch.arange(-1.0, 2.0)
    x = torch.cartesian_prod(axis, axis, axis)[None, :, None]
    for k in (4, 6, 13, 26):
        layer = make_edges(k)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        with torch.no_grad():
            assert relative(compiled(x), layer(x)) < 1e-5


def test_compiled_edges_in_training_have_few_slots_for_ties():
    """Four: enough for clouds that were drawn, not for a lattice, where they are a mean over some of those that tie."""
    x = torch.randn(1, 40, 1, 3)
    layer = make_edges(6).train()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert relative(compiled(x).detach(), layer(x).detach()) < 1e-5
    axis = torch.arange(-1.0, 2.0)
    lattice = torch.cartesian_prod(axis, axis, axis)[None, :, None]
    assert 1e-5 < relative(compiled(lattice).detach(), layer(lattice).detach()) < 0.5


def test_compiled_edges_with_more_ties_than_slots_keep_their_size():
    """The apex of a cone ties with the whole rim; three slots of k = 1 hold part of it, and are a mean all the same."""
    angle = torch.arange(24) * torch.pi / 12
    rim = torch.stack([angle.cos(), angle.sin(), -torch.ones_like(angle)], -1)
    x = torch.cat([torch.zeros(1, 3), rim])[None, :, None]
    layer = make_edges(1)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert 0.8 < float(compiled(x)[0, 0].norm() / layer(x)[0, 0].norm()) < 1.6
        assert relative(compiled(x)[:, 1:], layer(x)[:, 1:]) < 1e-5


def make_edges(k: int):
    torch.manual_seed(0)
    return vnt.VNEdgeConv(1, 8, num_neighbors=k).eval()
