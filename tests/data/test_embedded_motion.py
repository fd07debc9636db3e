"""The motion set: the same everywhere, and a task that constant velocity gets wrong and the past gives away."""

import hashlib

import numpy as np
import pytest

from vnt.data.embedded import make_motion


@pytest.fixture(scope="module")
def train():
    return make_motion(2000)


@pytest.fixture(scope="module")
def test():
    return make_motion(500, split="test")


def test_sizes_and_kinds(test):
    assert test.past.shape == (500, 11, 3)
    assert test.future.shape == (500, 30, 3)
    assert test.past_speed.shape == (500, 11, 1)
    for array in test:
        assert array.dtype == np.float32
        assert np.isfinite(array).all()
    assert (test.past[:, -1] == 0).all()
    assert make_motion(1, past=1, future=1).future.shape == (1, 1, 3)


def test_a_track_does_not_depend_on_how_much_is_drawn(test):
    few = make_motion(7, split="test")
    long = make_motion(7, future=80, split="test")
    for array, longer, whole in zip(few, long, test, strict=True):
        np.testing.assert_array_equal(array, whole[:7])
        np.testing.assert_array_equal(array, longer[:, : array.shape[1]])


def test_splits_and_seeds_share_no_track(train, test):
    pasts = np.concatenate([train.past[:100], test.past[:100], make_motion(100, split="val").past])
    pasts = np.concatenate([pasts, make_motion(100, seed=1).past])
    assert len(np.unique(pasts.reshape(400, -1), axis=0)) == 400


def test_checksum():
    """Whole centimetres: a last bit that differs between machines does not reach them."""
    motion = make_motion(20, seed=7, split="val")
    whole = [np.round(array.astype(np.float64) * 100).astype("<i4").tobytes() for array in motion[:3]]
    assert (
        hashlib.sha256(b"".join(whole)).hexdigest()
        == "b6b96bbc9181a99a93569320afc0c1cbf9224f245f89df82bc32593b22f98071"
    )


def test_speeds_are_those_of_the_track(test):
    assert (test.past_speed >= 0).all()
    assert test.past_speed.max() < 40
    travelled = np.linalg.norm(test.past[:, -1] - test.past[:, 0], axis=-1)
    fast = test.past_speed[..., 0].mean(1) > 3
    np.testing.assert_allclose(travelled[fast], test.past_speed[fast, :, 0].mean(1), rtol=0.15, atol=0.3)


def test_headings_are_those_of_the_track(test):
    assert (np.abs(test.past_heading) <= np.pi).all()
    step = test.future[:, 1] - test.future[:, 0]
    fast = np.linalg.norm(step, axis=-1) > 0.3
    ahead = np.arctan2(step[:, 1], step[:, 0])[fast]
    off = np.angle(np.exp(1j * (ahead - test.past_heading[fast, -1, 0])))
    assert 0.01 < np.median(np.abs(off)) < 0.04  # the error that is measured with, and what it turned meanwhile
    assert np.abs(off).max() < 0.3
    standing = np.ptp(test.past_speed[..., 0], axis=1) + test.past_speed[:, -1, 0] < 0.2
    assert np.ptp(np.unwrap(test.past_heading[standing, :, 0], axis=1), axis=1).max() < 0.15


def test_vehicles_stop_start_turn_and_climb(test):
    step = np.diff(test.future, axis=1)
    speed = 10 * np.linalg.norm(step, axis=-1)
    heading = np.unwrap(np.arctan2(step[..., 1], step[..., 0]), axis=1)
    turned = np.abs(heading[:, -1] - heading[:, 0])[(speed > 0.5).all(1)]
    height = np.ptp(test.future[..., 2], axis=1)
    assert 0.03 < ((speed[:, 0] > 1) & (speed[:, -1] < 0.1)).mean() < 0.3
    assert 0.02 < ((speed[:, 0] < 0.5) & (speed[:, -1] > 1)).mean() < 0.3
    assert (turned > np.radians(30)).mean() > 0.15
    assert (turned < np.radians(5)).mean() > 0.1
    assert np.median(height) > 0.3


def test_accelerations_are_those_of_a_road_vehicle(test):
    acceleration = np.diff(test.future.astype(np.float64), n=2, axis=1) * 100
    assert np.linalg.norm(acceleration, axis=-1).max() < 12


def test_a_linear_equivariant_map_beats_constant_velocity(train, test):
    """future_t = Σ_s W_ts past_s with scalar weights turns with its input."""
    x, y = (np.moveaxis(array, 1, -1).reshape(-1, array.shape[1]) for array in (train.past[:, :-1], train.future))
    weight = np.linalg.solve(x.T @ x + 1e-2 * np.eye(x.shape[1]), x.T @ y)
    ridge = _ade(np.einsum("st,msx->mtx", weight, test.past[:, :-1]), test.future)
    constant = min(_ade(forecast, test.future) for forecast in _constant_velocity(test.past, 30))
    assert ridge < 0.8 * constant, f"{ridge:.2f} m against {constant:.2f} m"


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="num must be at least 1, got 0"):
        make_motion(0)
    with pytest.raises(ValueError, match="past and future must be at least 1, got 0 and 30"):
        make_motion(1, past=0)
    with pytest.raises(ValueError, match="seed must not be negative, got -1"):
        make_motion(1, seed=-1)
    with pytest.raises(ValueError, match=r"split must be one of .*, got 'dev'"):
        make_motion(1, split="dev")


def _constant_velocity(past: np.ndarray, steps: int) -> list[np.ndarray]:
    """Forecasts from the last two points, and from the line that fits the last five best."""
    ahead = np.arange(1, steps + 1)[None, :, None]
    line = np.linalg.pinv(np.stack([np.ones(5), np.arange(-4, 1)], -1))
    start, velocity = np.moveaxis(np.einsum("cs,msx->mcx", line, past[:, -5:]), 1, 0)
    return [(past[:, -1:] - past[:, -2:-1]) * ahead, start[:, None] + velocity[:, None] * ahead]


def _ade(forecast: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(forecast - truth, axis=-1).mean())
