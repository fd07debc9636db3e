"""Models that are solved rather than trained, through the same commands; and SGD."""

import json
from dataclasses import replace

import pytest
import torch

import vnt
from vnt.cli.main import main
from vnt.training.config import TrainConfig
from vnt.training.optimizer import learning_rate, make_optimizer
from vnt.training.recipes import RECIPES, recipe


@pytest.mark.parametrize("name", ["motion_constant_velocity", "motion_linear"])
def test_solved_models_go_through_the_same_commands(name, tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["train", name, "--out", str(folder), "--no-test"]) == 0
    model = vnt.load(folder)
    assert model(torch.randn(3, 20, 3) if name == "motion_constant_velocity" else torch.randn(3, 11, 3)).shape[-1] == 3
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--split", "val", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ade = [numbers["ade"] for numbers in found.values()]
    assert max(ade) - min(ade) < 1e-3 * min(ade)  # in any frame
    assert ade[0] < (3.5 if name == "motion_constant_velocity" else 2.2)


def test_every_rival_has_a_recipe_with_a_title():
    for name in ("motion_gru", "womd_gru", "womd_linear", "womd_constant_velocity"):
        assert name in RECIPES
        assert RECIPES[name].__doc__.endswith(".")
        assert recipe(name).task == "forecast"


def test_sgd_is_the_optimizer_where_asked_for():
    config = replace(TrainConfig(), optimizer="sgd", learning_rate=0.1, weight_decay=1e-4)
    optimizer = make_optimizer(torch.nn.Linear(3, 2), config)
    assert isinstance(optimizer, torch.optim.SGD)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [1e-4, 0.0]
    assert optimizer.param_groups[0]["momentum"] == 0.9


def test_the_learning_rate_ends_where_it_is_told_to():
    config = replace(TrainConfig(), learning_rate=0.1, final_learning_rate=0.001, warmup=0.0)
    assert learning_rate(config, 0, 1000) == pytest.approx(0.1)
    assert learning_rate(config, 999, 1000) == pytest.approx(0.001, rel=0.01)
    assert learning_rate(replace(config, schedule="constant"), 999, 1000) == pytest.approx(0.1)
