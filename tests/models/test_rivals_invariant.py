"""RI-Conv and GC-Conv: exact invariance, ties, masks, degenerate clouds, mirror images, configs."""

import json
import math
from dataclasses import asdict, replace

import pytest
import torch

from helpers import assert_close, centred_logits
from vnt.geometry import random_rotation, rotate
from vnt.models.rivals.gc_conv import GCConvClassifier, soft_frame
from vnt.models.rivals.invariant_config import GCConvConfig, RIConvConfig
from vnt.models.rivals.ri_conv import RIConvClassifier, angle, distances_and_angles
from vnt.models.rivals.sampling import divide_into_shells, farthest_points
from vnt.testing import equivariance_error, point, scalar

N = 40
SMALL = {
    "num_classes": 5,
    "width": 0.1,
    "num_points": (20, 9, 4),
    "num_neighbors": (12, 6, 4),
    "num_shells": (3, 2, 1),
}
MAKERS = {"RI-Conv": (RIConvClassifier, RIConvConfig), "GC-Conv": (GCConvClassifier, GCConvConfig)}
NAMES = pytest.mark.parametrize("name", MAKERS)
TRAINING = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
GROUPS = pytest.mark.parametrize("group", ["SO(3)", "translations", "permutations"])
CLASSIFIERS = {
    "default": {},
    "median": {"center": "median"},
    "raw": {"scale": "raw"},
    "scale-invariant": {"scale": "invariant"},
    "one layer": {"num_points": (8,), "num_neighbors": (8,), "num_shells": (3,), "channels": (64,)},
    "more of everything than there is": {"num_points": (90, 80, 70), "num_neighbors": (99, 98, 97)},
}


def build(name, dtype=torch.float64, **options):
    classifier, config = MAKERS[name]
    return classifier(config(**{**SMALL, **options})).to(dtype)


def used(model):
    """The model after some steps of training, so that running statistics and gains are off their starting values."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(2):
        points = torch.randn(6, N, 3, dtype=torch.float64) * torch.tensor([1.0, 0.7, 0.4])
        optimizer.zero_grad()
        model.train()(points).square().sum(-1).mean().backward()
        optimizer.step()
    return model


def error_of(model, points, group):
    return equivariance_error(centred_logits(model), [points], [point(-2)], scalar(), group=group, num_trials=2)


@NAMES
@TRAINING
@GROUPS
@pytest.mark.parametrize("options", CLASSIFIERS)
def test_symmetry(name, training, group, options):
    """A rotation and a shift for each cloud of its own, and any order of points."""
    model = used(build(name, **CLASSIFIERS[options])).train(training)
    assert error_of(model, torch.randn(4, N, 3, dtype=torch.float64), group) <= 1e-9


def lattice():
    axis = torch.arange(-1, 2, dtype=torch.float64)
    return torch.cartesian_prod(axis, axis, axis)


def ring():
    turn = torch.arange(27, dtype=torch.float64) * 2 * torch.pi / 27
    return torch.stack([turn.cos(), turn.sin(), torch.zeros_like(turn)], -1)


def cone():
    turn = torch.arange(26, dtype=torch.float64) * torch.pi / 13
    rim = torch.stack([turn.cos(), turn.sin(), -torch.ones_like(turn)], -1)
    return torch.cat([torch.zeros(1, 3, dtype=torch.float64), rim])


def sphere():
    x = torch.randn(27, 3, dtype=torch.float64)
    return x / x.norm(dim=-1, keepdim=True)


def copies():
    return torch.randn(9, 3, dtype=torch.float64).repeat(3, 1)


SYMMETRIC = [lattice, ring, cone, sphere, copies]


@NAMES
@GROUPS
@TRAINING
def test_symmetric_clouds_do_not_amplify_rounding(name, group, training):
    """Every choice ties here: the first point, the next one, the k-th neighbour, the border of a shell, an axis."""
    model = used(build(name, num_points=(9, 5, 3), num_neighbors=(8, 4, 3))).train(training)
    assert error_of(model, torch.stack([cloud() for cloud in SYMMETRIC]), group) <= 1e-9


@NAMES
def test_reflections(name):
    """Distances and angles do not tell mirror images apart; right-handed frames do."""
    model = used(build(name)).eval()
    points = torch.randn(4, N, 3, dtype=torch.float64)
    mirrored = points * torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    difference = float((model(mirrored) - model(points)).detach().abs().max())
    assert (difference > 1e-3) == (name == "GC-Conv")
    assert name == "GC-Conv" or difference < 1e-12


@NAMES
def test_it_is_not_invariant_to_everything(name):
    model = used(build(name)).eval()
    points = torch.randn(4, N, 3, dtype=torch.float64)
    sheared = points + 0.3 * points[..., [1, 2, 0]]
    assert float((model(sheared) - model(points)).detach().abs().max()) > 1e-3


@NAMES
@TRAINING
def test_a_padded_cloud_gives_what_the_bare_one_gives(name, training):
    model = build(name, dropout=0.0).train(training)
    points = torch.randn(3, N, 3, dtype=torch.float64)
    padded = torch.full((3, N + 9, 3), float("nan"), dtype=torch.float64)
    place = torch.stack([torch.randperm(N + 9)[:N].sort().values for _ in range(3)])
    padded.scatter_(1, place[..., None].expand(-1, -1, 3), points)
    mask = torch.zeros(3, N + 9, dtype=torch.bool).scatter(1, place, True)
    assert_close(model(padded, mask=mask), model(points), 1e-11)


@NAMES
def test_clouds_of_different_sizes(name):
    """Each gives what it gives alone, also where one is smaller than a layer and another larger."""
    model = used(build(name)).eval()
    sizes = [1, 2, 5, 13, N]
    clouds = [torch.randn(size, 3, dtype=torch.float64) for size in sizes]
    points = torch.nn.utils.rnn.pad_sequence(clouds, batch_first=True, padding_value=float("inf"))
    mask = torch.arange(N) < torch.tensor(sizes)[:, None]
    alone = torch.cat([model(cloud[None]) for cloud in clouds])
    assert_close(model(points, mask=mask), alone, 1e-11)


DEGENERATE = {
    "zero": torch.zeros_like,
    "one point": lambda x: x[:, :1],
    "two points": lambda x: x[:, :2],
    "coincident": lambda x: x[:, :1].expand_as(x),
    "coincident, far away": lambda x: x[:, :1].expand_as(x) + 1e9,
    "collinear": lambda x: x[:, :, :1] * torch.tensor([1.0, 2.0, -1.0], dtype=x.dtype),
    "planar": lambda x: x * torch.tensor([1.0, 1.0, 0.0], dtype=x.dtype),
    "lattice": lambda x: lattice().to(x.dtype).expand(3, -1, -1),
    "ring": lambda x: ring().to(x.dtype).expand(3, -1, -1),
    "tiny": lambda x: 1e-12 * x,
    "huge": lambda x: 1e12 * x,
    "far away": lambda x: x + 1e6,
}


@NAMES
@TRAINING
@pytest.mark.parametrize("kind", DEGENERATE)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_degenerate_clouds_give_finite_values_and_gradients(name, training, kind, batch, dtype):
    model = build(name, dtype).train(training)
    points = DEGENERATE[kind](torch.randn(3, 12, 3, dtype=dtype))[:batch].clone().requires_grad_()
    out = model(points)
    out.square().sum().backward()
    assert torch.isfinite(out).all()
    assert points.grad is not None
    assert torch.isfinite(points.grad).all()
    for key, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), key


@NAMES
@pytest.mark.parametrize("kind", ["one point", "two points", "coincident", "collinear", "planar"])
def test_degenerate_clouds_are_invariant_too(name, kind):
    model = used(build(name)).eval()
    points = DEGENERATE[kind](torch.randn(3, 12, 3, dtype=torch.float64)).contiguous()
    for group in ("SO(3)", "translations", "permutations"):
        assert error_of(model, points, group) <= 1e-9


@NAMES
def test_gradients_turn_with_the_cloud(name):
    model = used(build(name)).eval()
    points = torch.randn(3, N, 3, dtype=torch.float64)
    turn = random_rotation(3)

    def gradient(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(model(x).square().sum(), x)[0]

    turned = gradient(rotate(points, turn))
    assert float(turned.abs().max()) > 1e-6
    assert_close(turned, rotate(gradient(points), turn), 1e-9)


@NAMES
def test_every_parameter_matters(name):
    model = build(name)
    model(torch.randn(6, N, 3, dtype=torch.float64)).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{key} is never used"
        assert float(parameter.grad.abs().max()) > 0, f"{key} has no influence"


@NAMES
def test_published_size(name):
    model = build(name, width=1.0, num_classes=40)
    assert 0.6e6 < sum(parameter.numel() for parameter in model.parameters()) < 0.8e6


@NAMES
def test_wrong_input_is_refused(name):
    model = build(name)
    points = torch.randn(2, N, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="without attributes"):
        model(points, attributes=torch.ones(2, N, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="without vectors"):
        model(points, vectors=torch.ones(2, N, 1, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="finite"):
        model(points.masked_fill(points > 2, float("nan")))
    with pytest.raises(ValueError, match="leaves no point"):
        model(points, mask=torch.zeros(2, N, dtype=torch.bool))


@pytest.mark.parametrize("config", [RIConvConfig, GCConvConfig])
class TestConfigs:
    def test_json(self, config):
        original = config(num_classes=7, num_points=(30, 10, 5), width=0.5)
        assert config.from_json(original.to_json()) == original
        listed = object.__new__(config)
        for key, value in json.loads(json.dumps(asdict(original))).items():
            object.__setattr__(listed, key, value)
        listed.__post_init__()
        assert listed == original
        assert replace(original, num_classes=3, num_vectors=0).num_points == (30, 10, 5)

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"num_attributes": 1}, "num_attributes must be 0, got 1"),
            ({"num_vectors": 2}, "num_vectors must be 0, got 2"),
            ({"num_points": (4, 2)}, "one entry per layer"),
            ({"num_neighbors": (8, 4, 1)}, "num_neighbors must be whole numbers of at least 2"),
            ({"num_shells": (4, 2, 99)}, "99 shells"),
            ({"channels": (8, 8, 0)}, "channels must be whole numbers"),
            ({"width": 0.0}, "width must be positive"),
            ({"dropout": 1.0}, "dropout must lie"),
            ({"num_pints": (1, 1, 1)}, "num_points"),
        ],
    )
    def test_wrong_values_are_refused(self, config, wrong, told):
        with pytest.raises(ValueError, match=told):
            config(num_classes=5, **wrong)


class TestParts:
    def test_farthest_points_are_those_of_the_plain_algorithm(self):
        x = torch.randn(1, N, 3, dtype=torch.float64)
        chosen = [int((x[0] - x[0].mean(0)).norm(dim=-1).argmax())]
        while len(chosen) < 10:
            chosen.append(int((x[0, :, None] - x[0, chosen]).norm(dim=-1).amin(-1).argmax()))
        found, exists = farthest_points(x, torch.ones(1, N, dtype=torch.bool), 10, torch.zeros(1, dtype=x.dtype))
        assert found[0].tolist() == chosen
        assert exists.all()

    def test_farthest_points_take_all_that_tie(self):
        """Of a lattice: its eight corners, then its middle, then the twelve middles of edges, then all."""
        x = lattice()[None]
        mask, resolution = torch.ones(1, 27, dtype=torch.bool), torch.full((1,), 1e-16, dtype=x.dtype)
        for count, taken in ((1, 8), (8, 8), (9, 9), (10, 21), (22, 27)):
            found, exists = farthest_points(x, mask, count, resolution)
            assert len(set(found[exists].tolist())) == int(exists.sum()) == taken

    def test_farthest_points_take_one_of_each_copy(self):
        x = copies()[None]
        found, exists = farthest_points(x, torch.ones(1, 27, dtype=torch.bool), 20, torch.full((1,), 1e-16).double())
        assert sorted(i % 9 for i in found[exists].tolist()) == list(range(9))

    def test_shells_share_what_ties_at_their_border(self):
        distance = torch.tensor([[0.0, 1, 1, 1, 2, 3, 7, 7]], dtype=torch.float64)
        weight = torch.tensor([[1.0, 1, 1, 1, 1, 1, 0, 0]], dtype=torch.float64)
        held = divide_into_shells(distance, weight, 3, torch.zeros(1, dtype=torch.float64))[0]
        assert [row.nonzero().flatten().tolist() for row in held] == [[0, 1, 2, 3], [1, 2, 3], [4, 5]]

    def test_angles(self):
        a, b = torch.randn(2, 50, 3, dtype=torch.float64)
        cosine = torch.nn.functional.cosine_similarity(a, b, -1)
        assert_close(angle(a, b), cosine.acos(), 1e-12)
        assert_close(angle(a, a), torch.zeros(50), 1e-15)
        assert_close(angle(a, -2 * a), torch.full((50,), torch.pi, dtype=torch.float64), 1e-12)

    def test_distances_and_angles_by_hand(self):
        """p at the origin, neighbours at (2, 0, 0) and (0, 2, 0) and itself: the mean lies at (2/3, 2/3, 0)."""
        relative = torch.tensor([[[0.0, 0, 0], [2, 0, 0], [0, 2, 0]]], dtype=torch.float64)
        found = distances_and_angles(relative, torch.ones(1, 3, dtype=torch.float64), eps=1e-9)[0]
        mean = math.sqrt(8 / 9)
        at_mean = math.acos(-4 / 9 / (mean * math.sqrt(20 / 9)))
        right = [[mean, 0, 0, 0], [mean, 2, math.pi / 4, at_mean], [mean, 2, math.pi / 4, at_mean]]
        assert_close(found, torch.tensor(right, dtype=torch.float64))

    def test_frames_turn_with_what_they_are_made_of(self):
        x = torch.randn(6, 50, 3, dtype=torch.float64) * torch.tensor([3.0, 2.0, 1.0]) + 0.5
        weight = torch.rand(6, 50, dtype=torch.float64)
        turn = random_rotation(6)
        frame = soft_frame(x, weight)
        assert_close(soft_frame(rotate(x, turn), weight), frame @ turn, 1e-11)
        assert (torch.linalg.det(frame) > 0).all()
        assert float(frame.norm(dim=-1).max()) <= 1 + 1e-12

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_points_that_are_equally_far_away_give_no_frame(self, dtype):
        """Seen from a corner of a tetrahedron, or from the centre of a sphere, weights are nothing but rounding."""
        tetrahedron = [[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
        sphere = torch.nn.functional.normalize(torch.randn(40, 3, dtype=torch.float64), dim=-1)
        for points in (torch.tensor(tetrahedron, dtype=torch.float64), torch.cat([0 * sphere[:1], sphere])):
            model = build("GC-Conv", dtype, num_points=(8, 4, 2)).eval()
            error = error_of(model, points[None].to(dtype), "SO(3)")
            assert error <= (1e-5 if dtype == torch.float32 else 1e-13), f"{error:.1e}"

    def test_frames_fade_continuously(self):
        """A cloud stretched from isotropic to not: at no point does the frame jump."""
        x = torch.cat([lattice(), 0.2 * torch.ones(1, 3, dtype=torch.float64)])
        stretches = torch.linspace(1, 1.5, 2001, dtype=torch.float64)
        clouds = x * torch.stack([stretches, stretches.square(), torch.ones_like(stretches)], -1)[:, None]
        frames = soft_frame(clouds, torch.ones(clouds.shape[:2], dtype=torch.float64))
        assert float((frames[1:] - frames[:-1]).abs().max()) < 0.05
        assert float(soft_frame(lattice()[None], torch.ones(1, 27, dtype=torch.float64)).abs().max()) < 1e-12
