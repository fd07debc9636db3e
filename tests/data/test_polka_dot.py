from dataclasses import replace

import pytest
import torch

from vnt.data.cloud_set import CloudSet
from vnt.data.polka_dot import add_polka_dots, class_radius


def make_set(M=60, N=200, names=("airplane", "chair", "table")):
    points = torch.randn(M, N, 3) * torch.rand(M, 1, 1).add(0.5).mul(10) + torch.randn(M, 1, 3) * 50
    return CloudSet(name="toy", points=points, labels=torch.arange(M) % len(names), class_names=names)


def unit_sphere(points):
    points = points - points.mean(-2, keepdim=True)
    return points / points.norm(dim=-1).amax(-1)[..., None, None]


def test_radii_are_those_of_the_paper():
    names = tuple(f"class_{n:02d}" for n in range(40))
    expected = torch.tensor([0.3 + (y - 1) / 39 * 0.7 for y in range(1, 41)])
    assert torch.allclose(class_radius(names), expected)
    assert torch.allclose(class_radius(names[::-1]), expected.flip(0))


@pytest.mark.parametrize("N", [30, 31, 200])
def test_every_cloud_has_thirty_dots(N):
    dotted = add_polka_dots(make_set(N=N))
    assert dotted.attributes.shape == (60, N, 1)
    assert dotted.attribute_names == ("dot",)
    assert dotted.attributes.sum((1, 2)).eq(30).all()
    assert set(dotted.attributes.unique().tolist()) <= {0.0, 1.0}


def test_dots_lie_within_the_radius_of_one_of_the_points():
    """There is a centre among the points from which no dot is farther than the class's radius."""
    clouds = make_set(N=2000)
    dotted = add_polka_dots(clouds)
    radius = class_radius(clouds.class_names)
    for points, dots, label in zip(unit_sphere(clouds.points), dotted.attributes, clouds.labels, strict=True):
        farthest = torch.cdist(points, points[dots[:, 0] == 1]).amax(1)
        assert farthest.min() <= radius[label] + 1e-6


def test_dots_are_spread_over_the_whole_radius():
    """Thirty of the points within the radius, drawn at random: not the thirty nearest."""
    clouds = make_set(M=30, N=5000, names=("only", "wide"))
    dotted = add_polka_dots(replace(clouds, labels=torch.ones(30, dtype=torch.long)))
    spread = [
        torch.pdist(points[dots[:, 0] == 1]).max()
        for points, dots in zip(unit_sphere(clouds.points), dotted.attributes, strict=True)
    ]
    assert torch.stack(spread).mean() > 0.8


def test_a_thin_cloud_takes_its_nearest_points_beyond_the_radius():
    line = torch.arange(40.0)[:, None] * torch.tensor([1.0, 0.0, 0.0])
    clouds = CloudSet(name="line", points=line[None], labels=torch.tensor([0]), class_names=("a", "b"))
    for seed in range(5):
        dots = add_polka_dots(clouds, seed=seed).attributes[0, :, 0].nonzero().squeeze(1)
        assert len(dots) == 30
        assert int(dots.max() - dots.min()) == 29  # about 13 within the radius, then the nearest: no holes


def test_seeds():
    clouds = make_set()
    dots = add_polka_dots(clouds).attributes
    assert torch.equal(dots, add_polka_dots(clouds).attributes)
    assert not torch.equal(dots, add_polka_dots(clouds, seed=1).attributes)


def test_points_stay_and_attributes_join():
    clouds = replace(make_set(), attributes=torch.full((60, 200, 1), 5.0), attribute_names=("height",))
    dotted = add_polka_dots(clouds)
    assert torch.equal(dotted.points, clouds.points)
    assert dotted.attribute_names == ("height", "dot")
    assert (dotted.attributes[..., 0] == 5).all()


def test_padding_gets_no_dot():
    clouds = make_set(N=60)
    mask = torch.arange(60) < torch.randint(30, 61, (60, 1))
    points = torch.where(mask[..., None], clouds.points, 1e6)
    dotted = add_polka_dots(replace(clouds, points=points, mask=mask))
    assert dotted.attributes.sum((1, 2)).eq(30).all()
    assert not dotted.attributes[~mask].any()


def test_a_cloud_of_fewer_points_than_dots_is_refused():
    with pytest.raises(ValueError, match="need 30 points, set 'toy' has clouds of 29"):
        add_polka_dots(make_set(N=29))
