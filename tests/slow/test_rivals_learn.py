"""Every classifier learns the built-in shapes by its own recipe, in minutes of two CPU cores: `make test-slow`."""

import sys

import pytest

from vnt.data import as_batch
from vnt.evaluation.evaluate import evaluate_batches
from vnt.training.loop import train
from vnt.training.recipes import RECIPES, recipe
from vnt.training.task import load_split

INVARIANT = ["shapes", *(f"shapes_{name}" for name in ("vn_pointnet", "vn_dgcnn", "ri_conv", "gc_conv", "tfn"))]
INVARIANT += ["shapes_se3_transformer"]
PLAIN = ["shapes_transformer", "shapes_pointnet", "shapes_dgcnn"]


def test_no_recipe_is_forgotten():
    assert sorted(INVARIANT + PLAIN) == sorted(name for name in RECIPES if recipe(name).dataset == "shapes")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PLAIN + INVARIANT)
def test_it_learns_and_turning_the_test_set_tells_which_it_is(name, tmp_path, capsys):
    trained = train(recipe(name), tmp_path / "run")
    test = as_batch(load_split(recipe(name), "test"))
    still, turned = (evaluate_batches(trained.model, test, rotation=r, up="z").accuracy for r in ("I", "SO3"))
    with capsys.disabled():
        minutes = trained.metrics[-1]["seconds"] / 60
        sys.stdout.write(f"\n{name}: {still:.1%} at I/I, {turned:.1%} at I/SO(3), {minutes:.1f} minutes\n")
    assert still >= 0.85
    if name in INVARIANT:
        assert abs(still - turned) <= 0.005
    else:
        assert still - turned >= 0.20
