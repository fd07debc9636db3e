"""What attributes can and cannot do: partial symmetry, the O(3 + d_A) trap of early fusion, and the way out of it."""

import pytest
import torch

from helpers import assert_close
from models.cases import classifier, forecaster
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
