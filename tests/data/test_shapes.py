"""The shapes set: the same everywhere, varied within each class, and not to be told apart by distances alone."""

import hashlib
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vnt.data.embedded import SHAPE_CLASSES, make_shapes
from vnt.data.embedded.solids import bar, box, circle, lathe, prism, sample_surface, tube

K = len(SHAPE_CLASSES)


@pytest.fixture(scope="module")
def train():
    return make_shapes(100)


def test_sizes_and_kinds(train):
    points, labels = train
    assert K >= 16
    assert len(set(SHAPE_CLASSES)) == K
    assert points.shape == (100 * K, 256, 3)
    assert (points.dtype, labels.dtype) == (np.float32, np.int64)
    assert np.isfinite(points).all()
    assert (np.bincount(labels) == 100).all()
    assert make_shapes(1, num_points=1)[0].shape == (K, 1, 3)


def test_clouds_lie_about_the_origin_at_a_size_near_one(train):
    points = train[0]
    radius = np.sqrt(np.square(points).sum(-1).mean(-1))
    assert np.abs(points.mean(1)).max() < 1e-4
    assert radius.min() > 0.3
    assert radius.max() < 3


def test_the_same_draw_twice_and_a_smaller_draw_is_its_beginning(train):
    points, labels = make_shapes(3)
    np.testing.assert_array_equal(points, train[0][: 3 * K])
    np.testing.assert_array_equal(labels, train[1][: 3 * K])


def test_splits_and_seeds_share_no_cloud():
    draws = [make_shapes(10, num_points=32, split=split)[0] for split in ("train", "val", "test")]
    draws.append(make_shapes(10, num_points=32, seed=1)[0])
    clouds = np.concatenate(draws)
    assert len(np.unique(clouds.reshape(len(clouds), -1), axis=0)) == 4 * 10 * K


def test_checksum():
    """Whole thousandths: a last bit that differs between machines does not reach them."""
    points = make_shapes(4, num_points=64, seed=7, split="val")[0]
    digest = hashlib.sha256(np.round(points.astype(np.float64) * 1000).astype("<i4").tobytes()).hexdigest()
    assert digest == "5139d58974f008a8717239140180a8b1dd2d73b71a2025f6369b17dcdb5b07ab"


def test_coordinates_lie_on_the_grid(train):
    steps = train[0].astype(np.float64) * 2**20
    assert (steps == np.round(steps)).all()


@pytest.mark.parametrize("name", SHAPE_CLASSES)
def test_every_class_varies_in_its_proportions(train, name):
    """The ratio of one extent to another spreads by a fifth at least; an extent is that of all but a few points."""
    clouds = train[0][train[1] == SHAPE_CLASSES.index(name)]
    low, high = np.quantile(clouds, [0.02, 0.98], axis=1)
    extent = np.log(high - low)
    spread = (extent - extent[:, [1, 2, 0]]).std(0)
    assert spread.max() > 0.2, f"{name}: {spread}"


def test_every_class_has_a_pose_of_its_own(train):
    """What a model that is not equivariant can learn from upright clouds is lost on turned ones."""
    points, labels = train
    turns = np.linalg.qr(np.random.default_rng(0).standard_normal((len(points), 3, 3)))[0]
    upright, turned = _moments(points), _moments(points @ turns)
    centres = np.stack([upright[labels == k].mean(0) for k in range(K)])
    right = [
        (np.linalg.norm(moments[:, None] - centres, axis=-1).argmin(1) == labels).mean()
        for moments in (upright, turned)
    ]
    assert right[0] > 0.3
    assert right[1] < 0.6 * right[0]


@pytest.mark.parametrize("feature", ["quantiles", "histogram"])
def test_distances_from_the_centre_do_not_tell_the_classes_apart(train, feature):
    accuracy = _linear_accuracy(train, make_shapes(50, split="test"), feature)
    assert 0.2 < accuracy < 0.7, f"{feature}: {accuracy:.3f}"


def test_speed():
    """16 × 200 clouds of 256 points in five seconds are 1.6 ms a cloud; the bound has room for a busy machine."""
    start = time.perf_counter()
    make_shapes(10)
    assert (time.perf_counter() - start) / (10 * K) < 5e-3


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="num_per_class must be at least 1, got 0"):
        make_shapes(0)
    with pytest.raises(ValueError, match="num_points must be at least 1, got 0"):
        make_shapes(1, num_points=0)
    with pytest.raises(ValueError, match="seed must not be negative, got -1"):
        make_shapes(1, seed=-1)
    with pytest.raises(ValueError, match=r"split must be one of .*, got 'dev'"):
        make_shapes(1, split="dev")


@pytest.mark.parametrize(
    ("surface", "area"),
    [
        (box((1, 2, 3)), 22.0),
        (lathe([(1, 0), (1, 2)], 200), 4 * np.pi),
        (lathe([(0, 0), (1, 0)], 200), np.pi),
        (tube(np.array([[0.0, 0, 0], [0, 0, 1], [0, 0, 3]]), 0.5, (1, 0, 0), 200), 3 * np.pi),
        (bar((1, 1, 1), (1, 3, 1), 0.5, 200), 2 * np.pi),
        (prism(circle(200), 1.0, 0.5), 2 * np.pi * (1 + 0.5) + 2 * np.pi * (1 - 0.25)),
    ],
    ids=["box", "cylinder", "disc", "tube", "bar", "prism"],
)
def test_surfaces_have_the_area_they_should(surface, area):
    corner = surface[:, 0]
    found = np.linalg.norm(np.cross(surface[:, 1] - corner, surface[:, 2] - corner), axis=-1).sum() / 2
    assert found == pytest.approx(area, rel=1e-3)


def test_points_fall_evenly_on_a_surface():
    """Faces of a box get points by their area, and within a face the mean lies in the middle."""
    points = sample_surface(box((1, 2, 4)), 20_000, np.random.default_rng(0))
    on_large = (np.abs(points[:, 0]) == 0.5).mean()
    assert on_large == pytest.approx(16 / 28, abs=0.02)
    assert np.abs(points.mean(0)).max() < 0.05


def _moments(points: np.ndarray) -> np.ndarray:
    """Means of first, second and third powers of the coordinates, at size one."""
    points = points / np.sqrt(np.square(points).sum(-1, keepdims=True).mean(1, keepdims=True))
    return np.concatenate([points, points**2, points**3], -1).mean(1)


def _linear_accuracy(train, test, feature: str) -> float:
    """Test accuracy of multinomial logistic regression on how far the points lie from their centre."""
    x, X = (_distance_features(points, feature) for points, _ in (train, test))
    mean, std = x.mean(0), x.std(0) + 1e-6
    x, X = (torch.tensor((a - mean) / std, dtype=torch.float32) for a in (x, X))
    layer = torch.nn.Linear(x.shape[1], K)
    labels = torch.tensor(train[1])
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(layer(x), labels) + 1e-4 * layer.weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    with torch.no_grad():
        return float((layer(X).argmax(-1).numpy() == test[1]).mean())


def _distance_features(points: np.ndarray, feature: str) -> np.ndarray:
    distance = np.linalg.norm(points - points.mean(1, keepdims=True), axis=-1)
    distance = distance / np.sqrt(np.square(distance).mean(1, keepdims=True))
    if feature == "quantiles":
        return np.quantile(distance, (np.arange(48) + 0.5) / 48, axis=1).T
    return np.stack([np.histogram(d, bins=32, range=(0.0, 2.5))[0] / len(d) for d in distance])
