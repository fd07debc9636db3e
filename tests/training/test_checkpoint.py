import json

import pytest
import torch

import vnt
from training.tasks import clouds, config
from vnt.training.checkpoint import State, forget_after, load_state, save_state
from vnt.training.config import FORMAT, TrainConfig
from vnt.training.loop import train
from vnt.training.recipes import RECIPES, recipe
from vnt.training.run_folder import RunFolder, find_runs, new_run_folder


def state(step):
    return State(step, {"x": torch.full((5,), float(step))}, {"loss_sum": 0.1 + step})


def test_round_trip_and_the_last_two_are_kept(tmp_path):
    assert load_state(tmp_path) is None
    for step in (10, 20, 30):
        save_state(tmp_path, state(step))
    found = load_state(tmp_path)
    assert found.step == 30
    assert found.rest == {"loss_sum": 30.1}
    assert torch.equal(found.tensors["x"], torch.full((5,), 30.0))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"state-000000{step}.{kind}" for step in (20, 30) for kind in ("json", "safetensors")
    ]


@pytest.mark.parametrize(
    "damage", ["truncated", "flipped", "empty", "missing", "bad json", "json without checksum", "edited json"]
)
def test_damage_is_refused_and_the_one_before_is_offered(tmp_path, damage):
    save_state(tmp_path, state(1))
    save_state(tmp_path, state(2))
    tensors, about = tmp_path / "state-00000002.safetensors", tmp_path / "state-00000002.json"
    data = tensors.read_bytes()
    match damage:
        case "truncated":
            tensors.write_bytes(data[:-3])
        case "flipped":
            tensors.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "empty":
            tensors.write_bytes(b"")
        case "missing":
            tensors.unlink()
        case "bad json":
            about.write_text("{")
        case "json without checksum":
            about.write_text("{}")
        case "edited json":
            about.write_text(about.read_text().replace("2.1", "99.5"))
    with pytest.raises(ValueError, match=r"state-00000002.json: this checkpoint is damaged .*--from-step 1"):
        load_state(tmp_path)
    assert load_state(tmp_path, step=1).step == 1


def test_a_damaged_only_checkpoint_offers_nothing(tmp_path):
    save_state(tmp_path, state(1))
    (tmp_path / "state-00000001.safetensors").write_bytes(b"x")
    with pytest.raises(ValueError, match="there is no earlier one"):
        load_state(tmp_path)
    with pytest.raises(FileNotFoundError, match="no state after 7 steps"):
        load_state(tmp_path, step=7)


def test_states_ahead_are_forgotten_when_a_run_goes_on_from_an_earlier_one(tmp_path):
    save_state(tmp_path, state(6))
    save_state(tmp_path, state(13))
    forget_after(tmp_path, 6)
    assert load_state(tmp_path).step == 6
    assert len(list(tmp_path.iterdir())) == 2


def test_tensors_without_their_json_do_not_count(tmp_path):
    """What a crash between the two writes leaves."""
    save_state(tmp_path, state(1))
    (tmp_path / "state-00000002.safetensors").write_bytes(b"half")
    assert load_state(tmp_path).step == 1


def test_weights_that_do_not_fit_are_refused(tmp_path):
    train(config(epochs=1), tmp_path, data=clouds())
    about = json.loads((tmp_path / "config.json").read_text())
    about["model"]["channels"] = 16
    (tmp_path / "config.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"model\.safetensors: these weights do not fit config\.json"):
        vnt.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match=r"model\.safetensors: these weights do not fit"):
        vnt.load(tmp_path)


def test_files_of_a_newer_version_are_refused(tmp_path):
    train(config(epochs=1), tmp_path, data=clouds())
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(about | {"format": 99, "vnt": "7.0"}))
    with pytest.raises(ValueError, match=r"written by a newer vnt \(7.0, format 99\), this one reads up to 1"):
        vnt.load(tmp_path)
    with pytest.raises(ValueError, match="format 2, this version of vnt reads up to 1"):
        TrainConfig.from_dict(config().to_dict() | {"format": FORMAT + 1})


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_survive_json(name):
    assert TrainConfig.from_json(recipe(name).to_json()) == recipe(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"ema": 1.0}, r"ema must lie in \[0, 1\)"),
        ({"rotation": "so3"}, "rotation must be one of"),
        ({"batchsize": 3}, "no key 'batchsize'; did you mean 'batch_size'"),
        ({"scale": 0.5}, "scale must be at least 1"),
    ],
)
def test_configs_check_their_values(change, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**change)


def test_run_folders(tmp_path):
    train(config(epochs=1), tmp_path / "runs" / "a-1", data=clouds())
    assert new_run_folder(tmp_path / "runs", "a").name == "a-2"
    assert [run.path.name for run in find_runs(tmp_path)] == ["a-1"]
    run = RunFolder(tmp_path / "runs" / "a-1")
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 2, "st')  # cut off by a crash
    assert len(run.metrics()) == 1
