"""Constant velocity, the best linear map and the GRU."""

import pytest
import torch

import vnt
from vnt.bench.toy import toy_tracks
from vnt.geometry import random_rotation, rotate
from vnt.models.kinds import build_model, model_from_dict, model_to_dict
from vnt.models.rivals.config import TransformerForecasterConfig
from vnt.models.rivals.forecasting import ConstantVelocity, GRUForecaster, LinearForecaster, filled
from vnt.models.rivals.forecasting_config import ConstantVelocityConfig, GRUForecasterConfig, LinearForecasterConfig
from vnt.models.rivals.transformer import TransformerForecaster

CONFIGS = [
    ConstantVelocityConfig(num_future=20),
    LinearForecasterConfig(num_future=20),
    GRUForecasterConfig(num_future=20),
]
TRACKS = toy_tracks(64, 31, dtype=torch.float64)
PAST, FUTURE = TRACKS[:, :11], TRACKS[:, 11:]


def fitted():
    model = LinearForecaster(CONFIGS[1]).double()
    model.fit(PAST, FUTURE, None)
    return model


def test_constant_velocity_is_exact_on_a_straight_line():
    line = torch.arange(31.0, dtype=torch.float64)[None, :, None] * torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    assert torch.allclose(ConstantVelocity(CONFIGS[0])(line[:, :11]), line[:, 11:])


def test_constant_velocity_knows_which_steps_were_observed():
    line = torch.arange(5.0)[None, :, None] * torch.tensor([1.0, -2.0, 0.5])
    for gaps in ([], [0], [3], [1, 2, 3], [0, 1, 3]):
        mask = torch.tensor([[step not in gaps for step in range(5)]])
        seen = torch.where(mask[..., None], line, torch.nan)
        assert torch.allclose(
            ConstantVelocity(ConstantVelocityConfig(num_future=2))(seen, None, mask)[0, :, 0], line.new_tensor([5, 6])
        )
    padded = torch.cat([line, 7 + line[:, :2]], 1)
    mask = torch.tensor([[True] * 5 + [False] * 2])
    model = ConstantVelocity(ConstantVelocityConfig(num_future=2))
    assert torch.allclose(model(padded, None, mask), model(line))
    once = torch.tensor([[False, False, True, False, False]])
    assert torch.allclose(model(line, None, once), line[:, 2:3].expand(1, 2, 3))


def test_the_linear_map_learns_from_steps_that_are_known():
    straight = torch.arange(7.0, dtype=torch.float64)[None, :, None] * torch.randn(40, 1, 3, dtype=torch.float64)
    known = torch.rand(40, 4) < 0.5
    known[:, 3] = False  # of no track
    future = torch.where(known[..., None], straight[:, 3:], 99.0)
    model = LinearForecaster(LinearForecasterConfig(num_past=3, num_future=4, ridge=1e-9)).double()
    model.fit(straight[:, :3], future, None, known)
    assert torch.allclose(model(straight[:, :3])[:, :3], straight[:, 3:6], atol=1e-5)
    assert torch.equal(model.weight[3], torch.zeros(2, dtype=torch.float64))
    whole, told = (LinearForecaster(CONFIGS[1]).double() for _ in range(2))
    whole.fit(PAST, FUTURE, None)
    told.fit(PAST, FUTURE, None, torch.ones(FUTURE.shape[:2], dtype=torch.bool))
    assert torch.allclose(whole.weight, told.weight, atol=1e-9)


def test_the_linear_map_is_the_best_there_is():
    """No small change of the weights lowers the squared error."""
    model = fitted()
    best = (model(PAST) - FUTURE).square().mean()
    for _ in range(20):
        weight = model.weight.clone()
        model.weight += 1e-3 * torch.randn_like(weight)
        assert (model(PAST) - FUTURE).square().mean() > best
        model.weight.copy_(weight)
    assert best < 0.5 * (ConstantVelocity(CONFIGS[0])(PAST) - FUTURE).square().mean()


def test_the_linear_map_finds_weights_that_made_the_data():
    true = LinearForecaster(LinearForecasterConfig(num_future=4, num_past=6, ridge=0.0)).double()
    true.weight.normal_()
    past = torch.randn(50, 6, 3, dtype=torch.float64).cumsum(1)
    found = LinearForecaster(true.config).double()
    found.fit(past, true(past), None)
    assert torch.allclose(found.weight, true.weight, atol=1e-9)


@pytest.mark.parametrize("make", [lambda: ConstantVelocity(CONFIGS[0]), fitted])
def test_two_of_them_turn_and_move_with_their_input(make):
    model, R, t = make(), random_rotation(64, dtype=torch.float64), torch.randn(64, 1, 3, dtype=torch.float64)
    assert torch.allclose(model(rotate(PAST, R) + t), rotate(model(PAST), R) + t, atol=1e-9)
    assert (
        vnt.audit(model.eval(), PAST[:4], precisions=("float64",), num_certified=0).verdicts["float64"].word == "exact"
    )


def test_the_gru_moves_but_does_not_turn_with_its_input():
    torch.manual_seed(0)
    model, R = GRUForecaster(CONFIGS[2]).double(), random_rotation(64, dtype=torch.float64)
    assert torch.allclose(model(PAST + 7), model(PAST) + 7, atol=1e-9)
    assert float((model(rotate(PAST, R)) - rotate(model(PAST), R)).detach().abs().max()) > 0.1


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_what_was_not_observed_does_not_matter(config):
    torch.manual_seed(0)
    model = build_model(config).double()
    if isinstance(model, LinearForecaster):
        model.fit(PAST, FUTURE, None)
    mask = torch.rand(64, 11) < 0.6
    mask[:, 5] = True
    noise = torch.where(mask[..., None], PAST, float("nan"))
    assert torch.equal(model(PAST, None, mask), model(noise, None, mask))
    assert torch.isfinite(model(noise, None, mask)).all()


def test_missing_steps_are_filled_with_the_last_known_place():
    x = torch.arange(5.0)[None, :, None].expand(1, 5, 3)
    mask = torch.tensor([[False, True, False, False, True]])
    assert filled(x, mask)[0, :, 0].tolist() == [1, 1, 1, 1, 4]
    assert filled(x, None) is x


def test_a_past_of_another_length_is_refused():
    with pytest.raises(ValueError, match="pasts of 11 steps"):
        fitted()(PAST[:, :5])


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_configs_survive_json(config):
    assert model_from_dict(model_to_dict(config)) == config


@pytest.mark.parametrize("num_motions", [0, 4])
def test_vectors_of_the_plain_transformer_have_units_of_length(num_motions):
    """Everything ten times as large, in other units say: so is the forecast."""
    config = TransformerForecasterConfig(num_future=5, num_vectors=1, scale="invariant", num_motions=num_motions)
    model = TransformerForecaster(config).double().eval()
    past, vectors = torch.randn(3, 11, 3).double(), torch.randn(3, 11, 1, 3).double()
    with torch.no_grad():
        forecast = model(past, vectors=vectors)
        torch.testing.assert_close(model(10 * past, vectors=10 * vectors), 10 * forecast)
        assert not torch.allclose(model(10 * past, vectors=vectors), 10 * forecast)


@pytest.mark.parametrize("name", ["dropout", "block_dropout"])
def test_dropout_of_the_plain_transformer(name):
    """It is of training alone, has no weights, and must leave something."""
    model = TransformerForecaster(TransformerForecasterConfig(num_future=5, **{name: 0.5}))
    bare = TransformerForecaster(TransformerForecasterConfig(num_future=5))
    bare.load_state_dict(model.state_dict())
    past = torch.randn(3, 11, 3)
    assert not torch.allclose(model(past), model(past))
    torch.testing.assert_close(model.eval()(past), bare.eval()(past))
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\), got 1"):
        TransformerForecasterConfig(**{name: 1.0})
