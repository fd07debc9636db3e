"""What attributes can and cannot do: partial symmetry, the O(3 + d_A) trap of early fusion, and the way out of it."""

import pytest
import torch

from helpers import assert_close
from models.cases import classifier, forecaster
from vnt.models.heads import AttributePool
from vnt.testing import equivariance_error


def cloud():
    return torch.randn(4, 20, 3, dtype=torch.float64), torch.randn(4, 20, 2, dtype=torch.float64)


@pytest.mark.parametrize("make", [classifier, forecaster])
@pytest.mark.parametrize("name", ["early", "early without anchor", "late", "latents late"])
def test_attributes_matter(make, name):
    model = make(name).eval()
    points, attributes = cloud()
    assert (model(points, attributes) - model(points, attributes.roll(1, 1))).abs().max() > 1e-4


@pytest.mark.parametrize("make", [classifier, forecaster])
def test_early_fusion_without_anchor_is_blind_to_the_sign_of_an_attribute(make):
    """The trap: at ε = 0 the group is O(3 + d_A), so a negated or swapped attribute changes nothing."""
    model = make("early without anchor").eval()
    points, attributes = cloud()
    assert_close(model(points, -attributes), model(points, attributes), 1e-11)
    assert_close(model(points, attributes.flip(-1)), model(points, attributes), 1e-11)


@pytest.mark.parametrize("make", [classifier, forecaster])
@pytest.mark.parametrize("name", ["early", "late"])
def test_the_anchor_and_late_fusion_see_the_sign(make, name):
    model = make(name).eval()
    points, attributes = cloud()
    for other in (-attributes, attributes.flip(-1)):
        assert (model(points, other) - model(points, attributes)).abs().max() > 1e-4


@pytest.mark.parametrize("make", [classifier, forecaster])
@pytest.mark.parametrize("name", ["early", "late"])
def test_units_of_attributes_do_not_matter_to_a_model_that_knows_them(make, name):
    options = {"predict_attributes": True} if make is forecaster and name == "early" else {}
    scales = torch.tensor([2.0, 1000.0], dtype=torch.float64)
    model = make(name, **options).eval()
    other = make(name, attribute_scales=tuple(scales.tolist()), **options).eval()
    other.load_state_dict(model.state_dict())
    points, attributes = cloud()
    expected = model(points, attributes)
    if options:
        expected[..., 3:] *= scales
    assert_close(other(points, scales * attributes), expected, 1e-9)


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 0.0), (1.0, float("inf"))])
def test_scales_that_do_not_fit_are_refused(scales):
    with pytest.raises(ValueError, match="attribute_scales must be 2 positive numbers or none"):
        classifier("early", attribute_scales=scales)


def test_attribute_pool_is_a_weighted_sum_over_the_points_that_exist():
    pool = AttributePool(4, 2).double()
    torch.nn.init.normal_(pool.focus)
    x, V, a = (torch.randn(2, 7, *shape, dtype=torch.float64) for shape in ((5,), (4, 3), (2,)))
    mask = torch.rand(2, 7) < 0.7
    mask[:, 0] = True
    expected = []
    for b in range(2):
        here = mask[b].nonzero().squeeze(1).tolist()
        for i in range(2):
            weight = {n: (pool.focus[i] * a[b, n, i]).exp() for n in here}
            total = sum(weight.values())
            expected.append(sum(weight[n] / total * x[b, n] for n in here))
            expected.append(pool.invariant(sum(weight[n] / total * V[b, n] for n in here)).flatten())
    for tensor in (x, V, a):
        tensor[~mask] = torch.nan if tensor is not a else 1e3  # models blank the attributes that they are given
    assert_close(pool(x, V, a, mask), torch.cat(expected).view(2, -1), 1e-12)


def test_attribute_pool_sees_where_a_few_points_lie():
    """Two dots near each other or far apart: means over all points are the same, and so is the largest of anything."""
    points = torch.eye(3, dtype=torch.float64).repeat(2, 1)
    points[3:] *= -1  # an octahedron, all of whose corners are alike
    near, far = torch.zeros(6, 1, dtype=torch.float64), torch.zeros(6, 1, dtype=torch.float64)
    near[[0, 1]], far[[0, 3]] = 1, 1
    for options, tells in (({}, False), ({"attribute_pooling": True}, True)):
        model = classifier("default", num_attributes=1, fusion="late", **options).eval()
        difference = (model(points, near) - model(points, far)).abs().max()
        assert (difference > 1e-4) == tells


def test_attribute_pool_is_for_late_fusion():
    with pytest.raises(ValueError, match="attribute_pooling needs fusion='late'"):
        classifier("early", attribute_pooling=True)


def test_the_forecast_may_carry_attributes():
    """Partial equivariance: N_out × (3 + d_A), of which the first three turn."""
    model = forecaster("early", predict_attributes=True).eval()
    points, attributes = cloud()
    assert model(points, attributes).shape == (4, 7, 5)
    error = equivariance_error(model, [points, attributes], ["point", "scalar"], "concat")
    assert error <= 1e-11


def test_scale():
    """The invariant model forgets the size of a cloud; the relative one knows it, and its forecast keeps the units."""
    points, _ = cloud()
    for make in (classifier, forecaster):
        for name, same in (("scale-invariant", True), ("default", False)):
            model = make(name).eval()
            factor = 1.0 if make is classifier else 7.0
            difference = (model(7 * points) - factor * model(points)).abs().max()
            assert (difference < 1e-10) == same


def test_the_median_ignores_an_outlier_that_moves_the_mean():
    points = torch.randn(1, 100, 3, dtype=torch.float64)
    spoiled = points.clone()
    spoiled[0, 0] = 1e3
    from vnt.geometry import center

    means, medians = ([center(x, method=method)[1] for x in (points, spoiled)] for method in ("mean", "median"))
    assert (means[0] - means[1]).norm() > 5
    assert (medians[0] - medians[1]).norm() < 0.1
