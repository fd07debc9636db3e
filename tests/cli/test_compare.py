"""`vnt compare`: trained on a budget, turned, counted, timed, audited, drawn."""

import json
from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from vnt.bench import rivals
from vnt.cli.main import main
from vnt.data.motion_set import save_parts
from vnt.data.sets import load_set
from vnt.training.loop import Trained
from vnt.training.run_folder import RunFolder

LARGE = {"batch_size": 1024}
"""Batches, so that an epoch is soon over."""


def test_models_of_one_task_are_compared(tmp_path):
    found = rivals.compare(["motion", "motion_gru"], tmp_path, minutes=0.001, device="cpu", changes=LARGE)
    ours, plain = found
    assert (ours.verdict, plain.verdict) == ("exact", "broken")
    assert ours.scores["I"] == pytest.approx(ours.scores["SO3"], rel=1e-3)
    assert ours.parameters > 1000
    assert all(s.epochs >= 1 and s.microseconds > 0 for s in found)
    again = rivals.compare(["motion"], tmp_path, minutes=0.001, device="cpu", changes=LARGE)
    assert again[0].minutes == ours.minutes  # not trained again


def test_other_settings_than_a_run_was_trained_with_are_refused(tmp_path):
    rivals.compare(["motion_linear"], tmp_path, device="cpu")
    for other in ({"seed": 1}, {"minutes": 3.0}, {"changes": LARGE}):
        with pytest.raises(ValueError, match="trained with other settings than are asked for now"):
            rivals.compare(["motion_linear"], tmp_path, device="cpu", **other)


def test_an_interrupted_comparison_goes_on_with_the_epochs_that_it_had_planned(tmp_path, monkeypatch):
    def stop(moment):
        if moment.step >= 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(rivals, "budgeted", lambda config, data, minutes: replace(config, epochs=2))
    with pytest.raises(KeyboardInterrupt):
        rivals.compare(["motion_gru"], tmp_path, device="cpu", changes=LARGE, watch=stop)
    monkeypatch.setattr(rivals, "budgeted", lambda config, data, minutes: replace(config, epochs=5))
    found = rivals.compare(["motion_gru"], tmp_path, device="cpu", changes=LARGE)
    assert found[0].epochs == 2


def test_an_interrupted_training_is_not_scored(tmp_path, monkeypatch):
    stopped = Trained(tmp_path, nn.Identity(), [], finished=False)
    monkeypatch.setattr(rivals, "budgeted", lambda config, data, minutes: config)
    monkeypatch.setattr(rivals, "train", lambda *_, **__: stopped)
    with pytest.raises(KeyboardInterrupt):
        rivals.compare(["motion"], tmp_path, device="cpu")


def test_from_the_command_line(tmp_path, capsys):
    words = ["motion_constant_velocity", "motion_linear", "--minutes", "0.01", "-o", str(tmp_path), "--device", "cpu"]
    assert main(["compare", *words]) == 0
    table = capsys.readouterr().out
    assert table.index("motion_linear") < table.index("motion_constant_velocity")  # the better one first
    rows = json.loads((tmp_path / "compare.json").read_text())["rows"]
    assert [row["verdict"] for row in rows] == ["exact", "exact"]
    assert (tmp_path / "compare.md").read_text() in table
    assert (tmp_path / "pareto.png").read_bytes().startswith(b"\x89PNG")


def test_on_windows_of_one_s_own(tmp_path, capsys):
    parts = [load_set("motion", split) for split in ("train+val", "test")]
    save_parts([part.take(np.arange(200)) for part in parts], tmp_path / "mine.safetensors", name="mine")
    words = ["motion_linear", "--dataset", str(tmp_path / "mine.safetensors"), "--data", str(tmp_path)]
    assert main(["compare", *words, "-o", str(tmp_path / "out"), "--device", "cpu"]) == 0
    assert "motion_linear" in capsys.readouterr().out
    assert RunFolder(tmp_path / "out" / "motion_linear-I").config().dataset == str(tmp_path / "mine.safetensors")


@pytest.mark.parametrize(
    ("words", "message"),
    [(["shapes", "motion"], "not one task"), (["shapez"], "no recipe 'shapez'")],
)
def test_wrong_requests_get_one_line(words, message, tmp_path, capsys):
    assert main(["compare", *words, "-o", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
