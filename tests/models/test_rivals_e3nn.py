"""Tensor Field Network and SE(3)-Transformer: symmetry, masks, degenerate clouds; VN-Linear and self-interaction."""

import copy
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

pytest.importorskip("e3nn", reason="the extra 'rivals' is not installed")

from e3nn import o3

import vnt
from helpers import assert_close, centred_logits, random_mask
from vnt.geometry import nearest_neighbors, random_rotation
from vnt.models.rivals.e3nn_config import SE3TransformerConfig, TFNConfig
from vnt.models.rivals.equivariant_kernels import Fiber, SteerableKernel, find_edges
from vnt.models.rivals.se3_transformer import (
    SE3Attention,
    SE3TransformerClassifier,
    SE3TransformerLayer,
    weighted_softmax,
)
from vnt.models.rivals.steerable_layers import Gate, SteerableNorm
from vnt.models.rivals.tfn import TFNClassifier, TFNLayer
from vnt.testing import equivariance_error

SMALL = {
    "num_classes": 5,
    "width": 8,
    "depth": 2,
    "num_neighbors": 4,
    "radial_channels": 8,
    "point_channels": 16,
    "head_channels": 16,
}
CASES: dict[str, dict] = {
    "tfn": {},
    "tfn, degree 2": {"max_degree": 2},
    "tfn, median": {"center": "median"},
    "tfn, raw": {"scale": "raw"},
    "tfn, no MLP": {"point_channels": 0},
    "se3": {},
    "se3, degree 2": {"max_degree": 2},
    "se3, pairs": {"radial": "pair"},
    "se3, pairs, degree 2": {"radial": "pair", "max_degree": 2},
    "se3, scale-invariant": {"scale": "invariant"},
}
ALL = pytest.mark.parametrize("name", CASES)
BOTH = pytest.mark.parametrize("name", ["tfn", "se3"])
FIBER = Fiber(6, 4)


def make(name, dtype=torch.float64, **more):
    options = {**SMALL, **CASES[name], **more}
    if name.startswith("tfn"):
        return TFNClassifier(TFNConfig(**options)).to(dtype)
    return SE3TransformerClassifier(SE3TransformerConfig(**{"num_heads": 2, **options})).to(dtype)


def largest(x):
    return float(x.detach().abs().max())


@ALL
@pytest.mark.parametrize(("dtype", "gate"), [(torch.float64, 1e-11), (torch.float32, 1e-4)], ids=["f64", "f32"])
def test_invariance(name, dtype, gate):
    points = torch.randn(4, 20, 3, dtype=dtype)
    function = centred_logits(make(name, dtype))
    for group in ("SO(3)", "translations", "permutations"):
        kinds = [vnt.testing.point(-2)]
        error = equivariance_error(function, [points], kinds, "scalar", group=group)
        assert error <= gate, f"{group}: {error:.1e}"


@BOTH
def test_reflections_are_told_apart(name):
    """SE(3), not E(3): the kernels contain cross products."""
    function, points = centred_logits(make(name)), torch.randn(2, 20, 3, dtype=torch.float64)
    assert largest(function(-points) - function(points)) > 1e-6


def lattice():
    axis = torch.arange(-1, 2, dtype=torch.float64)
    return torch.cartesian_prod(axis, axis, axis)[None]


@ALL
def test_neighbours_that_tie_do_not_break_the_symmetry(name):
    index, weight = nearest_neighbors(lattice(), 4)
    assert index.shape[-1] > 4  # there are ties
    assert float(weight.min()) < 1
    assert equivariance_error(centred_logits(make(name)), [lattice()], ["point"], "scalar") <= 1e-11


@BOTH
def test_deep_networks_do_not_amplify_rounding(name):
    """At the centre of a lattice vectors vanish but for rounding, which no norm may make long."""
    function = centred_logits(make(name, torch.float32, depth=6, num_neighbors=6, norm_eps=1.0).eval())
    assert equivariance_error(function, [lattice().float()], ["point"], "scalar") <= 1e-5


@ALL
def test_padding_changes_nothing(name):
    model, points = make(name), torch.randn(3, 12, 3, dtype=torch.float64)
    mask = random_mask(3, 12)
    expected = torch.stack([model(points[i][mask[i]][None])[0] for i in range(3)])
    for garbage in (0.0, 1e6, torch.nan, torch.inf):
        padded = torch.where(mask[..., None], points, garbage)
        assert_close(model(padded, None, mask), expected, 1e-11)


@BOTH
def test_gradients_do_not_reach_the_padding(name):
    model, mask = make(name), random_mask(3, 12)
    points = torch.randn(3, 12, 3, dtype=torch.float64, requires_grad=True)
    model(points, None, mask).square().sum().backward()
    assert largest(points.grad[~mask]) == 0
    assert largest(points.grad[mask]) > 0


DEGENERATE = {
    "zero": lambda x: (torch.zeros_like(x), None),
    "one point": lambda x: (x[:, :1].clone(), None),
    "two points": lambda x: (x[:, :2].clone(), None),
    "fewer than k": lambda x: (x[:, :3].clone(), None),
    "coincident": lambda x: (x[:, :1].expand_as(x).clone(), None),
    "coincident, far away": lambda x: (x[:, :1].expand_as(x) + 1e9, None),
    "pairs of copies": lambda x: (x[:, :4].repeat(1, 2, 1), None),
    "nearly coincident": lambda x: (x[:, :1] + 1e-7 * x, None),
    "collinear": lambda x: (x[:, :, :1] * torch.tensor([1.0, 2.0, -1.0], dtype=x.dtype), None),
    "planar": lambda x: (x * torch.tensor([1.0, 1.0, 0.0], dtype=x.dtype), None),
    "tiny": lambda x: (1e-12 * x, None),
    "huge": lambda x: (1e12 * x, None),
    "one left by the mask": lambda x: (x.clone(), torch.arange(x.shape[1]).eq(3).expand(len(x), -1)),
}


@pytest.mark.parametrize("name", ["tfn", "tfn, raw", "tfn, degree 2", "se3", "se3, pairs"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_degenerate_clouds_give_finite_values_and_gradients(name, dtype):
    model = make(name, dtype)
    for kind, make_cloud in DEGENERATE.items():
        model.zero_grad()
        points, mask = make_cloud(torch.randn(3, 8, 3, dtype=dtype))
        points.requires_grad_()
        out = model(points, None, mask)
        out.square().sum().backward()
        assert torch.isfinite(out).all(), kind
        assert torch.isfinite(points.grad).all(), kind
        for key, parameter in model.named_parameters():
            assert parameter.grad is None or torch.isfinite(parameter.grad).all(), f"{kind}: {key}"


@BOTH
def test_gradients_with_copies_of_a_point_are_of_ordinary_size(name):
    """A copy lies in no direction; the guard keeps the derivative of a direction from being one over nothing."""
    model, points = make(name), torch.randn(1, 5, 3, dtype=torch.float64).repeat(1, 2, 1).requires_grad_()
    model(points).square().sum().backward()
    assert largest(points.grad) < 1e4


@ALL
def test_every_parameter_matters(name):
    """All but the part of the embedding that reads the cloud's radius where the config does not tell it."""
    model = make(name)
    model(torch.randn(3, 20, 3, dtype=torch.float64)).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{key} is never used"
        assert largest(parameter.grad) > 0, f"{key} has no influence"


@BOTH
def test_derivatives_are_right(name):
    model = make(name, depth=1)
    points = torch.randn(1, 6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(model, (points,))


@BOTH
def test_size_matters_only_where_it_is_told(name):
    points = torch.randn(2, 16, 3, dtype=torch.float64)
    told, untold = make(name), make(name, scale="invariant")
    assert_close(untold(1e3 * points), untold(points), 1e-10)
    assert largest(told(1e3 * points) - told(points)) > 1e-3


@BOTH
def test_leading_axes_and_empty_batches(name):
    model, points = make(name), torch.randn(2, 3, 7, 3, dtype=torch.float64)
    assert_close(model(points), torch.stack([model(cloud) for cloud in points]), 1e-12)
    assert_close(model(points[0, 0]), model(points[:1, 0])[0], 1e-12)
    assert model(points[:0, 0]).shape == (0, 5)


@BOTH
def test_default_sizes(name):
    config = (TFNConfig if name == "tfn" else SE3TransformerConfig)(num_classes=40)
    model = (TFNClassifier if name == "tfn" else SE3TransformerClassifier)(config)
    assert 2e5 <= sum(p.numel() for p in model.parameters()) <= 1e6


@pytest.mark.parametrize("name", ["tfn, degree 2", "se3, pairs, degree 2"])
def test_constants_are_exact_and_not_in_files(name):
    """Through float32 and back, by state and by copy: coefficients of degree 2 have no exact float32 values."""
    model = make(name, torch.float32)
    assert not any("w3j" in key or "mask" in key for key in model.state_dict())
    assert all(x.numel() > 0 for x in model.state_dict().values())
    for there in (copy.deepcopy(model).double(), make(name)):
        there.load_state_dict(model.state_dict())
        points = torch.randn(2, 20, 3, dtype=torch.float64)
        assert equivariance_error(centred_logits(there), [points], ["point"], "scalar") <= 1e-12
        assert_close(model(points.float()), there(points), 1e-4)


@BOTH
def test_autocast_does_not_round(name):
    model, points = make(name, torch.float32), torch.randn(2, 20, 3)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(points)
    assert torch.equal(out, model(points))


# --- parts --------------------------------------------------------------------------------------------------------


def turned(row, R, fiber=FIBER):
    scalars, vectors = fiber.split(row)
    return torch.cat([scalars, (vectors @ R).flatten(-2)], -1)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: TFNLayer(FIBER, max_degree=2),
        lambda: SE3Attention(FIBER, 2),
        lambda: SE3Attention(FIBER, 2, radial="pair", max_degree=2),
        lambda: SE3TransformerLayer(FIBER, 2),
    ],
)
def test_vectors_turn_as_ours_do(layer):
    """Rows x, y, z times a rotation on the right, on both sides of a layer: e3nn's axes are ours."""
    layer = layer().double()
    x, positions = torch.randn(2, 15, FIBER.size).double(), torch.randn(2, 15, 3).double()
    R = random_rotation(dtype=torch.float64)
    degree = next(part for part in layer.modules() if isinstance(part, SteerableKernel)).product.irreps_in2.lmax
    out = layer(x, find_edges(positions, 5, max_degree=degree))
    again = layer(turned(x, R), find_edges(positions @ R, 5, max_degree=degree))
    assert largest(FIBER.split(out)[1]) > 1e-2
    assert_close(again, turned(out, R), 1e-12)


def test_harmonics_of_degree_one_are_the_direction():
    positions = torch.tensor([[0.0, 0, 0], [1, 2, 3]], dtype=torch.float64)
    edges = find_edges(positions, 1, eps=0.0)
    direction = torch.tensor([1.0, 2, 3], dtype=torch.float64) * (3 / 14) ** 0.5
    assert_close(edges.harmonics[0, 0], torch.cat([torch.ones(1), direction]), 1e-15)
    assert_close(edges.harmonics[1, 0], torch.cat([torch.ones(1), -direction]), 1e-15)


def test_a_point_on_top_of_another_has_no_direction():
    positions = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    edges = find_edges(positions, 1, max_degree=2)
    assert largest(edges.harmonics[..., 1:]) == 0
    (edges.harmonics.sum() + edges.distance.sum()).backward()
    assert torch.isfinite(positions.grad).all()


@pytest.mark.parametrize("radial", ["channel", "pair"])
def test_messages_by_hand(radial):
    """Products, inner products and cross products of the paths, weighted by the radial functions."""
    kernel = SteerableKernel(Fiber(1, 1), Fiber(1, 1), radial=radial).double()
    edges = find_edges(torch.randn(5, 3).double(), 2)
    row = torch.randn(5, 2, 4).double()
    s, v, Y = row[..., :1], row[..., 1:], edges.harmonics[..., 1:]
    w = kernel.radial(edges.distance)
    if radial == "pair":  # e3nn's order of paths, and each output scaled for its number of paths
        ss, sv, vv, dot, cross = (w[..., i : i + 1] for i in range(5))
        scalar = (ss * s + dot * (v * Y).sum(-1, keepdim=True) / 3**0.5) / 2**0.5
        vector = (sv * s * Y + vv * v + cross * torch.linalg.cross(v, Y) / 2**0.5) / 3**0.5
        assert_close(kernel(row, edges), torch.cat([scalar, vector], -1), 1e-12)
        return
    ss, dot, sv, vv, cross = (w[..., i : i + 1] for i in range(5))
    parts = [
        ss * s,
        dot * (v * Y).sum(-1, keepdim=True) / 3**0.5,
        sv * s * Y,
        vv * v,
        cross * torch.linalg.cross(v, Y) / 2**0.5,
    ]
    assert_close(kernel.messages(row, edges), torch.cat(parts, -1), 1e-12)


@pytest.mark.parametrize("fiber", [Fiber(6, 4), Fiber(0, 4)])
@pytest.mark.parametrize("radial", ["channel", "pair"])
def test_attention_is_what_its_formula_says(fiber, radial):
    """Keys and values formed for each edge, a loop over points and heads, and neighbours that tie."""
    layer = SE3Attention(fiber, 2, radial=radial).double()
    edges = find_edges(lattice()[0], 4)
    x = torch.randn(27, fiber.size).double()
    queries, keys, values = layer.query(x), *(kernel(edges.gather(x), edges) for kernel in (layer.key, layer.value))
    n0, n1 = fiber.scalars // 2, 3 * fiber.vectors // 2
    out = torch.zeros_like(x)
    for i in range(27):
        for head in range(2):
            mine = [*range(head * n0, (head + 1) * n0), *range(2 * n0 + head * n1, 2 * n0 + (head + 1) * n1)]
            score = (keys[i][:, mine] @ queries[i, mine]) / len(mine) ** 0.5
            share = edges.weight[i] * score.exp()
            out[i, mine] = (share / share.sum()) @ values[i][:, mine]
    assert_close(layer(x, edges), layer.output(out) + layer.own(x), 1e-12)


def test_weights_are_multiplicities():
    scores = torch.randn(4, dtype=torch.float64)
    repeated = scores[[0, 1, 1, 3]].softmax(-1)
    expected = torch.stack([repeated[0], repeated[1] + repeated[2], torch.zeros(()), repeated[3]])
    weight = torch.tensor([1.0, 2, 0, 1], dtype=torch.float64)
    assert_close(weighted_softmax(scores, weight), expected, 1e-15)
    assert_close(weighted_softmax(scores + 1e4, weight), expected, 1e-11)
    assert largest(weighted_softmax(scores, 0 * weight)) == 0


def test_gates_and_norms():
    gate, norm = Gate(FIBER).double(), SteerableNorm(FIBER, 1e-2).double()
    x, R = torch.randn(7, FIBER.size + FIBER.vectors).double(), random_rotation(dtype=torch.float64)
    assert_close(gate(turned(x, R, gate.inputs)), turned(gate(x), R), 1e-14)
    row = torch.randn(7, FIBER.size).double()
    assert_close(norm(turned(row, R)), turned(norm(row), R), 1e-14)
    vectors = FIBER.split(norm(100 * row))[1]
    assert_close(vectors.square().sum(-1).mean(-1), torch.ones(7), 1e-4)


# --- the paper's appendix ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("C", "C_out"), [(1, 1), (4, 7), (64, 64), (5, 2)])
def test_vn_linear_is_linear_self_interaction(C, C_out):
    """Appendix A.2: W V = o3.Linear with the transposed weights, which e3nn divides by √C; the axes are the same."""
    ours = vnt.VNLinear(C, C_out).double()
    theirs = o3.Linear(f"{C}x1o", f"{C_out}x1o").double()
    with torch.no_grad():
        theirs.weight.copy_(C**0.5 * ours.weight.mT.flatten())
    V = torch.randn(3, 10, C, 3, dtype=torch.float64)
    assert_close(theirs(V.flatten(-2)).unflatten(-1, (C_out, 3)), ours(V), 1e-14)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight.mT.flatten())
    if C > 1:  # and the normalisation is not idle
        assert largest(theirs(V.flatten(-2)).unflatten(-1, (C_out, 3)) - ours(V)) > 1e-3


def test_e3nn_turns_vectors_by_the_same_matrix():
    """D of type 1o is the rotation itself, in the order x, y, z."""
    R = random_rotation(dtype=torch.float64)
    assert_close(o3.Irrep("1o").D_from_matrix(R), R, 1e-5)


def test_the_attentions_differ_where_the_paper_says():
    """Keys of VN attention do not depend on where the points lie; the SE(3)-Transformer's do, and must be steerable."""
    steerable = SE3Attention(Fiber(0, 4), 2).double()
    x = torch.randn(10, 12).double()
    here, there = (find_edges(torch.randn(10, 3).double(), 9) for _ in range(2))
    assert largest(steerable(x, here) - steerable(x, there)) > 1e-2
    shapes = {key: tuple(p.shape) for key, p in vnt.VNMultiheadAttention(4, 2).named_parameters()}
    assert shapes == {f"{part}.weight": (4, 4) for part in ("query", "key", "value", "output")}


# --- configs and messages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        TFNConfig(num_classes=40),
        TFNConfig(num_classes=3, width=12, max_degree=2, center="none"),
        SE3TransformerConfig(num_classes=7, num_heads=2, radial="pair", scale="raw"),
    ],
)
def test_configs_survive_json(config):
    assert type(config).from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_attributes": 1}, "num_attributes must be 0: this model takes positions alone, no attributes; got 1"),
        ({"num_vectors": 2}, "num_vectors must be 0: .* no vectors; got 2"),
        ({"width": 1}, "width must be at least 2"),
        ({"num_neighbors": 0}, "num_neighbors must be at least 1"),
        ({"point_channels": -1}, "point_channels must be at least 0"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        ({"widht": 8}, "no key 'widht'.*width"),
    ],
)
@pytest.mark.parametrize("config", [TFNConfig, SE3TransformerConfig])
def test_wrong_configs(config, values, message):
    with pytest.raises(ValueError, match=message):
        config(num_classes=5, **values)


def test_heads_must_divide_both_types():
    with pytest.raises(ValueError, match="num_heads must divide the 12 type-0 and the 6 type-1 features, got 4"):
        SE3TransformerConfig(num_classes=5, width=12, num_heads=4)
    with pytest.raises(ValueError, match="num_heads must divide"):
        SE3Attention(Fiber(4, 3), 2)
    assert replace(SE3TransformerConfig(num_classes=5), width=16).num_type1 == 8


@BOTH
def test_wrong_input(name):
    model, points = make(name), torch.randn(2, 6, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="built without attributes"):
        model(points, torch.randn(2, 6, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="built without vectors"):
        model(points, None, None, torch.randn(2, 6, 1, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="N of at least 1"):
        model(points[:, :0])
    with pytest.raises(ValueError, match="leaves no point in cloud"):
        model(points, None, torch.zeros(2, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match="must be finite"):
        model(points.log())


def test_without_e3nn_there_is_a_word_on_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "e3nn", None)
    for name in ("tfn", "se3"):
        with pytest.raises(ModuleNotFoundError, match=r"needs e3nn: pip install 'vnt\[rivals\]'"):
            make(name)


def test_nothing_but_the_models_needs_e3nn():
    code = (
        "import sys; sys.modules['e3nn'] = None\n"
        "import vnt.models.rivals.e3nn_config\n"
        "assert 'torch' not in sys.modules\n"
        "import vnt, vnt.models.rivals.tfn, vnt.models.rivals.se3_transformer, vnt.bench.attention_cost"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
