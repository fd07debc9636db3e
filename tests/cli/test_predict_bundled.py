"""The models that come with the library."""

import json
from pathlib import Path

import pytest
import torch

import vnt
from vnt.cli.main import main
from vnt.geometry import random_rotation, rotate
from vnt.models.saving import PRETRAINED, read_about

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("modelnet40", "modelnet40-small")


VIEWED = ("shapes", "shapes-transformer", "motion", "motion-transformer", "modelnet40-transformer")


def test_these_come_with_it():
    assert {folder.name for folder in PRETRAINED.iterdir() if folder.is_dir()} == {*NAMES, *VIEWED}
    for name in (*NAMES, *VIEWED):
        card = (PRETRAINED / name / "README.md").read_text()
        count = sum(parameter.numel() for parameter in vnt.load(name).parameters())
        assert f"{count:,} parameters" in card
        assert ("academic research only" in card) == name.startswith("modelnet40")
    for name in NAMES:
        assert len(read_about(name)["class_names"]) == 40


@pytest.mark.parametrize("name", NAMES)
def test_a_chair_is_a_chair(name, capsys):
    main(["predict", str(EXAMPLES / "chair.off"), "--model", name, "--format", "json"])
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["class_1"] == "chair"
    assert answer["probability_1"] > 0.7


@pytest.mark.parametrize("name", NAMES)
def test_however_it_is_turned(name):
    points = torch.randn(4, 300, 3)
    model = vnt.load(name)
    with torch.no_grad():
        logits, turned = model(points), model(rotate(points, random_rotation(4)))
    assert (logits - turned).norm() < 1e-5 * (logits - logits.mean(-1, keepdim=True)).norm()


def test_a_model_of_ones_own_comes_first(tmp_path, monkeypatch):
    """A folder of data may have the name of a bundled model, and does not hide it; a model does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "modelnet40").mkdir()
    assert vnt.load("modelnet40").config.num_classes == 40
    vnt.save_pretrained(vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=3)), tmp_path / "modelnet40")
    assert vnt.load("modelnet40").config.num_classes == 3
