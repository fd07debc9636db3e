"""Both models in every arrangement: symmetry, masks, padding, degenerate clouds, features."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import vnt
from helpers import assert_close, random_mask
from models.cases import CLASSIFIERS, FORECASTERS, bind, classifier, forecaster, inputs_for
from vnt.testing import equivariance_error, point, scalar, vector

N = 24
GATE = {torch.float32: 1e-4, torch.float64: 1e-11}
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
PAIRS = [(classifier, name) for name in CLASSIFIERS] + [(forecaster, name) for name in FORECASTERS]
ALL = pytest.mark.parametrize(("make", "name"), PAIRS)
TRAINING = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def centred(model):
    """What is compared: logits less their mean, forecasts less the last observed point."""
    call = bind(model)
    if isinstance(model, vnt.VNTransformerClassifier):
        return lambda *x: (out := call(*x)) - out.mean(-1, keepdim=True)
    return lambda points, *x: call(points, *x) - points[..., -1:, :]


def output_kind(model):
    return scalar() if hasattr(model.config, "num_classes") else vector(token_axis=None)


@ALL
@DTYPES
@TRAINING
def test_symmetry(make, name, dtype, training):
    """Rotations, translations, and for clouds the order of points, in train and eval mode; O(3) unless chiral."""
    model = make(name, dtype).train(training)
    inputs = inputs_for(model, 4, N, dtype=dtype)
    groups = ["SO(3)" if model.config.chirality else "O(3)", "translations"]
    for group in groups:
        error = equivariance_error(centred(model), inputs.tensors(), inputs.kinds, output_kind(model), group=group)
        assert error <= GATE[dtype], f"{group}: {error:.1e}"
    if make is classifier:
        tokens = {"point": point(-2), "scalar": scalar(-2), "vector": vector(-3)}
        kinds = [tokens[kind] for kind in inputs.kinds]
        error = equivariance_error(centred(model), inputs.tensors(), kinds, scalar(), group="permutations")
        assert error <= GATE[dtype], f"permutations: {error:.1e}"


@ALL
def test_chirality_is_what_tells_mirror_images_apart(make, name):
    model = make(name).eval()
    inputs = inputs_for(model, 4, N)
    error = equivariance_error(centred(model), inputs.tensors(), inputs.kinds, output_kind(model), group="O(3)")
    assert (error > 1e-8) == model.config.chirality


@ALL
@TRAINING
def test_a_padded_cloud_gives_what_the_bare_one_gives(make, name, training):
    torch.manual_seed(3)
    model = make(name).train(training)
    bare = inputs_for(model, 3, N)
    mask = (torch.arange(N + 9) < N).expand(3, -1)
    padded = [torch.cat([x, torch.full((3, 9, *x.shape[2:]), float("nan"), dtype=x.dtype)], 1) for x in bare.tensors()]
    expected = bind(model)(*bare.tensors())
    assert_close(bind(model, mask)(*padded), expected, 1e-11)


@ALL
def test_an_item_alone_gives_what_it_gives_in_a_batch(make, name):
    model = make(name).eval()
    inputs = inputs_for(model, 4, N).tensors()
    assert_close(bind(model)(*[x[1:2] for x in inputs])[0], bind(model)(*inputs)[1], 1e-11)
    assert_close(bind(model)(*[x[1] for x in inputs]), bind(model)(*inputs)[1], 1e-11)


WITH_PAPER = pytest.mark.parametrize(("make", "name"), [*PAIRS, (classifier, "paper"), (forecaster, "paper")])
DEGENERATE = {
    "zero": lambda x: (torch.zeros_like(x), None),
    "one point": lambda x: (x[:, :1].clone(), None),
    "coincident": lambda x: (x[:, :1].expand_as(x).clone(), None),
    "coincident, far away": lambda x: (x[:, :1].expand_as(x) + 1e9, None),
    "collinear": lambda x: (x[:, :, :1] * torch.tensor([1.0, 2.0, -1.0], dtype=x.dtype), None),
    "planar": lambda x: (x * torch.tensor([1.0, 1.0, 0.0], dtype=x.dtype), None),
    "tiny": lambda x: (1e-12 * x, None),
    "huge": lambda x: (1e12 * x, None),
    "far away": lambda x: (x + 1e6, None),
    "one left by the mask": lambda x: (x.clone(), torch.arange(x.shape[1]).eq(3).expand(len(x), -1)),
    "one left by the mask, huge": lambda x: (1e12 * x, torch.arange(x.shape[1]).eq(3).expand(len(x), -1)),
    "coincident, far away, padded": lambda x: (
        x[:, :1].expand_as(x) + 1e9,
        torch.arange(x.shape[1]).lt(6).expand(len(x), -1),
    ),
}


@WITH_PAPER
@DTYPES
@TRAINING
@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_clouds_give_finite_values_and_gradients(make, name, dtype, training, kind):
    model = make(name, dtype).train(training)
    inputs = inputs_for(model, 3, 8, dtype=dtype)
    points, mask = DEGENERATE[kind](inputs.points)
    others = [x[:, : points.shape[1]] for x in inputs.tensors()[1:]]
    points.requires_grad_()
    out = bind(model, mask)(points, *others)
    (out / out.detach().abs().amax().clamp(min=1)).square().sum().backward()
    assert torch.isfinite(out).all()
    if name == "paper" and kind.endswith("huge") and not training:
        return  # fresh running statistics let 1e12 through to the attention, and scores of 1e24 have no gradient
    assert points.grad is not None
    assert torch.isfinite(points.grad).all()
    for key, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), key


def lattice(dtype):
    axis = torch.arange(-1, 2, dtype=dtype)
    return torch.cartesian_prod(axis, axis, axis)


def torus(dtype):
    u, v = torch.meshgrid(torch.arange(16, dtype=dtype) / 16, torch.arange(8, dtype=dtype) / 8, indexing="ij")
    u, v = (2 * torch.pi * x.flatten() for x in (u, v))
    return torch.stack([(1 + 0.3 * v.cos()) * u.cos(), (1 + 0.3 * v.cos()) * u.sin(), 0.3 * v.sin()], -1)


def cone(dtype):
    angle = torch.arange(24, dtype=dtype) * torch.pi / 12
    rim = torch.stack([angle.cos(), angle.sin(), -torch.ones_like(angle)], -1)
    return torch.cat([torch.zeros(1, 3, dtype=dtype), rim])


@pytest.mark.parametrize("cloud", [lattice, torus, cone])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"depth": 12},
        {"num_latents": 8},
        {"num_latents": 8, "read_back": True},
        {"num_neighbors": 4},
        {"surroundings": (0.1, 0.4)},
        {"surroundings": (0.1, 0.4), "pair_rounds": 2, "pair_divisor": 8},
        {"chirality": True},
    ],
    ids=str,
)
@DTYPES
def test_symmetric_clouds_do_not_amplify_rounding(cloud, options, dtype):
    """A point at the centre, a vanishing mean, neighbours that tie: what is exactly zero must not become noise."""
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, **options)).to(dtype).eval()
    points = cloud(dtype)[None].expand(3, -1, -1).contiguous()
    assert equivariance_error(centred(model), [points], ["point"], "scalar") <= GATE[dtype]


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("name", ["default", "early", "late", "normals", "latents early", "surroundings early"])
@pytest.mark.parametrize("make", [classifier, forecaster])
def test_copies_of_one_point_have_no_size_wherever_they_are(make, name, count):
    """All that is left of the radius is its guard, which grows with the coordinates: no network may hear of it."""
    model = make(name).eval()
    inputs = inputs_for(model, 1, count)
    turned = torch.tensor([5.0, 5.0, 5.0], dtype=torch.float64) / 3**0.5
    places = torch.stack([turned.new_tensor([5.0, 0, 0]), turned, turned + 1000, turned * 0])
    clouds = places[:, None].expand(-1, count, -1)
    _, *others = inputs.tensors()
    out = torch.cat([centred(model)(cloud[None], *others) for cloud in clouds])
    assert_close(out, out[:1].expand_as(out), 1e-9)


@ALL
def test_features_are_a_backbone(make, name):
    """Per-point features: equivariant ones turn, invariant ones do not, both follow the order of the points."""
    model = make(name).eval()
    inputs = inputs_for(model, 2, N)

    def part(index: int):
        def function(points, *others):
            rest = list(others)
            attributes = rest.pop(0) if model.config.num_attributes else None
            return model.features(points, attributes, None, rest.pop(0) if rest else None)[index]

        return function

    equivariant, invariant = (part(i)(*inputs.tensors()) for i in (0, 1))
    tokens = model.config.num_latents if model.config.pools_latents else N
    assert equivariant.shape == (2, tokens, model.config.channels, model.config.spatial_dim)
    assert invariant.shape[:2] == (2, tokens)
    assert equivariance_error(part(0), inputs.tensors(), inputs.kinds, "vector") <= 1e-11
    assert equivariance_error(part(1), inputs.tensors(), inputs.kinds, "scalar") <= 1e-11


@ALL
def test_every_parameter_matters(make, name):
    model = make(name)
    mask = random_mask(3, N)
    bind(model, mask)(*inputs_for(model, 3, N).tensors()).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{key} is never used"
        assert float(parameter.grad.abs().max()) > 0, f"{key} has no influence"


@pytest.mark.parametrize("options", [{}, {"mlp_norm": "batch"}, {"num_latents": 16}], ids=str)
@TRAINING
def test_700_points_padded_to_1024_in_float32(options, training):
    """Full size, garbage under the mask: the bare cloud's logits to 1e-5.

    With batch statistics in training the same, but for what VN-BatchNorm makes of rounding: in a pre-norm block the
    channels of a fresh model have nearly the same length in every token, and it divides by how much they differ.
    """
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=40, **options)).train(training)
    points = torch.randn(2, 700, 3)
    padded = torch.cat([points, 1e3 * torch.randn(2, 324, 3)], 1)
    mask = (torch.arange(1024) < 700).expand(2, -1)
    with torch.no_grad():
        bare, full = model(points), model(padded, None, mask)
    amplified = training and "mlp_norm" in options
    assert float(((full - bare).norm(dim=-1) / bare.norm(dim=-1)).max()) <= (1e-4 if amplified else 1e-5)


def test_700_points_padded_to_1024_in_float32_batch_norm_alone():
    """The layer itself keeps 1e-5 in training: its statistics leave out the padding."""
    norm = vnt.VNBatchNorm(64).train()
    V = torch.randn(2, 700, 64, 3)
    padded = torch.cat([V, 1e3 * torch.randn(2, 324, 64, 3)], 1)
    mask = (torch.arange(1024) < 700).expand(2, -1)
    with torch.no_grad():
        bare, full = norm(V), norm(padded, mask)[:, :700]
    assert float((full - bare).norm() / bare.norm()) <= 1e-5


@pytest.mark.parametrize("make", [classifier, forecaster])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_models(make, half):
    """A model cast whole runs on points of either dtype; a float32 model takes half-precision points."""
    for name in ("default", "early", "late", "latents late", "edges", "chirality", "batch norm"):
        exact = make(name, torch.float32).eval()
        inputs = inputs_for(exact, 2, 16, dtype=torch.float32).tensors()
        with torch.no_grad():
            expected = bind(exact)(*inputs)
            for dtype, points in (
                (half, inputs),
                (half, [x.to(half) for x in inputs]),
                (torch.float32, [x.to(half) for x in inputs]),
            ):
                out = bind(make_like(make, name, exact).to(dtype).eval())(*points)
                assert float((out.float() - expected).norm() / expected.norm()) < 0.2


def make_like(make, name, other):
    model = make(name, torch.float32)
    model.load_state_dict(other.state_dict())
    return model


@pytest.mark.parametrize("name", ["default", "latents", "edges", "batch norm", "late"])
@pytest.mark.parametrize("make", [classifier, forecaster])
def test_an_empty_batch_gives_an_empty_answer(make, name):
    model = make(name).train()
    out = bind(model)(*inputs_for(model, 0, 8).tensors())
    assert out.shape[0] == 0
    assert all(torch.isfinite(x).all() for x in model.state_dict().values())


@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e12, 1e25])
@pytest.mark.parametrize("make", [classifier, forecaster])
def test_any_unit_will_do(make, factor):
    """Scale invariance, in float32, from one end of its range to the other."""
    model = make("scale-invariant", torch.float32).eval()
    points = torch.randn(2, 16, 3)
    with torch.no_grad():
        expected = model(points)
        scaled = model(factor * points)
    if make is forecaster:
        scaled = scaled.double() / factor
    assert float((scaled - expected).norm() / expected.norm()) < 1e-5


def test_forward_mode_of_a_single_cloud():
    """Without leading axes, too, where a radius has no axis at all."""
    model, x = classifier("default", torch.float32).eval(), torch.randn(9, 3)
    with vnt.value_checks(enabled=False), sdpa_kernel(SDPBackend.MATH):
        forward = torch.func.jacfwd(model)(x)
        assert torch.allclose(forward, torch.func.jacrev(model)(x), atol=1e-5)
