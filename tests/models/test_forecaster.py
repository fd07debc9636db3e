"""What is the forecaster's own: time, gaps, padding on either side, velocities."""

import pytest
import torch

from helpers import assert_close
from models.cases import forecaster
from vnt.models.forecaster import last_observed, smooth_motions, time_features

pytestmark = pytest.mark.usefixtures("no_gradients")

NAN = float("nan")


def track(*batch: int) -> torch.Tensor:
    return torch.randn(*batch, 11, 3, dtype=torch.float64).cumsum(-2)


def test_the_order_of_steps_matters():
    model, past = forecaster("default").eval(), track(2)
    swapped = past.clone()
    swapped[:, [3, 5]] = past[:, [5, 3]]
    assert (model(past) - model(swapped)).abs().max() > 1e-3


def test_time_is_counted_from_the_last_observed_step():
    """Padding before or behind the track changes nothing, whatever lies there."""
    model, past = forecaster("default").eval(), track(2)
    padding = torch.full((2, 4, 3), NAN, dtype=past.dtype)
    exists, absent = torch.ones(2, 11, dtype=torch.bool), torch.zeros(2, 4, dtype=torch.bool)
    before = model(torch.cat([padding, past], 1), None, torch.cat([absent, exists], 1))
    behind = model(torch.cat([past, padding], 1), None, torch.cat([exists, absent], 1))
    assert_close(before, model(past), 1e-11)
    assert_close(behind, model(past), 1e-11)


def test_a_step_that_was_not_observed_does_not_matter():
    """A gap in the middle: its value is not read, and neither are differences to it."""
    model, past = forecaster("default").eval(), track(2)
    mask = torch.ones(2, 11, dtype=torch.bool)
    mask[:, 4] = False
    spoiled = past.clone()
    spoiled[:, 4] = NAN
    assert_close(model(spoiled, None, mask), model(past, None, mask), 1e-12)
    assert (model(past, None, mask) - model(past)).abs().max() > 1e-4
    closed = past[:, mask[0]]  # without the gap the steps before it are nearer in time
    assert (model(past, None, mask) - model(closed)).abs().max() > 1e-4


def test_the_last_observed_step_is_where_the_forecast_starts():
    x = torch.arange(5.0)[:, None].expand(2, 5, 1)
    mask = torch.tensor([[True, True, False, True, False], [True, False, False, False, False]])
    assert last_observed(x, mask).tolist() == [[3.0], [0.0]]
    assert last_observed(x, None).tolist() == [[4.0], [4.0]]


def test_time_features_tell_steps_apart():
    features = time_features(torch.zeros(64, 3, dtype=torch.float64), None)
    distance = torch.cdist(features, features) + 10 * torch.eye(64)
    assert float(distance.min()) > 0.5


def test_time_features_in_half_precision_are_those_of_float32():
    """A phase of 90 π has no digits behind the point in bfloat16."""
    exact = time_features(torch.zeros(91, 3), None)
    assert float((time_features(torch.zeros(91, 3, dtype=torch.bfloat16), None) - exact).abs().max()) <= 2**-8


@pytest.mark.parametrize("steps", [1, 11])
def test_velocities_count_where_the_positions_do_not_move(steps):
    """A single sighting with a velocity is enough to forecast by; its units are those of the positions."""
    model = forecaster("normals").eval()
    past = torch.ones(1, steps, 3, dtype=torch.float64)
    velocity = torch.tensor([10.0, 0.0, 0.0], dtype=torch.float64).expand(1, steps, 1, 3)
    moved = model(past, None, None, velocity) - past[:, -1:]
    assert float(moved.abs().max()) > 0.1
    without_length = forecaster("normals", scale="invariant").eval()
    once, ten = (without_length(past, None, None, factor * velocity) - past[:, -1:] for factor in (1.0, 10.0))
    assert_close(ten, 10 * once, 1e-9)


def test_a_past_that_stands_still_stays():
    model = forecaster("default").eval()
    past = torch.full((1, 11, 3), 5.0, dtype=torch.float64)
    assert_close(model(past), torch.full((1, 7, 3), 5.0), 1e-9)


def test_smooth_motions_span_what_leaves_by_a_polynomial():
    """Constant velocity and constant acceleration are among them, a step that jumps is not."""
    motions, t = smooth_motions(80, 4).double(), torch.arange(1, 81).double()
    share = motions @ motions.T / 80
    for exponent in (1, 2, 3, 4):
        assert_close(share @ t**exponent, t**exponent, 1e-5)
    assert (share @ (t % 2) - t % 2).abs().max() > 0.3
    assert_close(motions.T @ motions / 80, torch.eye(4).double(), 1e-5)
    for count in (1, 2):
        assert smooth_motions(7, count).shape == (7, count)


def test_smooth_motions_are_not_learned():
    model = forecaster("motions")
    assert not list(model.motions.parameters())
    rough = (model(track(2)).diff(n=5, dim=-2)).abs().max()  # of degree four: its fifth differences vanish
    assert rough < 1e-5


def test_smooth_motions_have_the_dtype_that_models_are_made_in():
    torch.set_default_dtype(torch.float64)
    try:
        model = forecaster("default", torch.float64, num_motions=4)
        assert model(torch.randn(2, 6, 3)).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("assign", [False, True])
def test_smooth_motions_survive_being_made_without_memory(assign):
    model, past = forecaster("default", torch.float32, num_motions=4).eval(), torch.randn(2, 6, 3)
    with torch.device("meta"):
        other = type(model)(model.config).eval()
    if not assign:
        other.to_empty(device="cpu")
    other.load_state_dict(model.state_dict(), assign=assign)
    assert torch.equal(other(past), model(past))
