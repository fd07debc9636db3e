"""Beginning with the weights of another model."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from training.tasks import clouds, config, motion_config, tracks
from vnt.models.kinds import build_model
from vnt.models.rivals.config import TransformerForecasterConfig
from vnt.models.saving import load, save_pretrained
from vnt.training.loop import train
from vnt.training.starting import start_from
from vnt.training.task import Data


@pytest.fixture
def first(tmp_path):
    torch.manual_seed(7)
    about = {"class_names": list("abcde")}
    return str(save_pretrained(build_model(config().model), tmp_path / "first", about=about))


def test_a_run_begins_with_the_weights_of_another(tmp_path, first):
    still = config(start=first, epochs=1, learning_rate=0.0, ema=0.0)
    begun = train(still, tmp_path / "run", data=clouds()).model
    anew = train(replace(still, start=""), tmp_path / "anew", data=clouds()).model
    expected = dict(load(first).named_parameters())
    assert all(torch.equal(value, expected[name]) for name, value in begun.named_parameters())
    assert not all(torch.equal(value, expected[name]) for name, value in anew.named_parameters())


@pytest.mark.parametrize(
    ("ours", "changes"),
    [
        (config().model, {"num_classes": 9, "dropout": 0.5}),
        (motion_config().model, {"num_future": 9}),
        (TransformerForecasterConfig(), {"num_future": 9, "dropout": 0.5, "block_dropout": 0.5}),
    ],
)
def test_what_the_data_decide_begins_anew(tmp_path, ours, changes):
    save_pretrained(build_model(ours), tmp_path)
    other = replace(ours, **changes)
    model = build_model(other)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    start_from(model, other, str(tmp_path))
    theirs, after = load(tmp_path).state_dict(), model.state_dict()
    anew = [name for name in after if after[name].shape != theirs[name].shape]
    assert 0 < len(anew) < 4
    for name, value in after.items():
        assert torch.equal(value, before[name] if name in anew else theirs[name])


def test_other_classes_of_the_same_number_begin_anew(tmp_path, first):
    still = config(start=first, epochs=1, learning_rate=0.0, ema=0.0)
    begun = train(still, tmp_path / "run", data=replace(clouds(), class_names=tuple("vwxyz"))).model
    theirs = load(first).state_dict()
    changed = [name for name, value in begun.named_parameters() if not torch.equal(value, theirs[name])]
    assert changed == ["head.4.weight", "head.4.bias"]


def test_a_run_that_was_stopped_goes_on_without_its_start(tmp_path, first):
    begun = config(start=first, epochs=2)
    whole = train(begun, tmp_path / "whole", data=clouds())
    train(begun, tmp_path / "run", data=clouds())
    states = sorted((tmp_path / "run" / "checkpoints").glob("state-*"))
    steps = {int(path.stem.split("-")[1].split(".")[0]) for path in states}
    Path(first).rename(tmp_path / "gone")
    again = train(begun, tmp_path / "run", data=clouds(), resume=True, from_step=min(steps))
    values = zip(whole.model.state_dict().values(), again.model.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in values)


def test_attributes_stay_in_the_units_of_the_model_that_it_goes_on_from(tmp_path):
    def measured(unit: float) -> Data:
        data = clouds()
        parts = (replace(part, attributes=unit * part.points[..., :1]) for part in (data.train, data.val))
        return Data(*parts, data.class_names, ("heat",))

    early = replace(config().model, num_attributes=1, fusion="early")
    first = train(config(model=early, epochs=1), tmp_path / "first", data=measured(100.0))
    begun = config(model=early, epochs=2, start=str(tmp_path / "first"))
    second = train(begun, tmp_path / "second", data=measured(1.0))
    assert second.model.config.attribute_scales == first.model.config.attribute_scales
    (tmp_path / "first").rename(tmp_path / "gone")
    again = train(begun, tmp_path / "second", data=measured(1.0), resume=True)
    assert again.model.config.attribute_scales == first.model.config.attribute_scales
    literal = config(model=replace(early, scale="raw"), epochs=1)
    assert train(literal, tmp_path / "raw", data=measured(9.0)).model.config.attribute_scales == ()


def test_another_model_is_refused(tmp_path, first):
    deeper = replace(config().model, depth=2, norm_eps=0.5)
    with pytest.raises(ValueError, match=r"is another model: it has depth = 1, not 2; norm_eps = 1\.0, not 0\.5"):
        train(config(start=first, model=deeper), tmp_path / "run", data=clouds())
    with pytest.raises(ValueError, match="is a VNTransformerClassifier, the model is to be a VNTransformerForecaster"):
        train(motion_config(start=first), tmp_path / "run", data=tracks())
    with pytest.raises(ValueError, match="begins as it is"):
        train(config(start=first), tmp_path / "run", data=clouds(), model=load(first))
    assert not (tmp_path / "run").exists()
