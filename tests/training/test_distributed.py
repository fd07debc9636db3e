"""Two processes on the CPU do what one does."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import vnt
from vnt.models.kinds import build_model
from vnt.training.recipes import RECIPES, recipe
from vnt.training.run_folder import RunFolder

SCRIPT = Path(__file__).parent / "spread.py"


def launch(folder, processes, *words, timeout=200):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, str(SCRIPT), str(folder), *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=environment,
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    root = tmp_path_factory.mktemp("spread")
    for processes in (1, 2):
        run = launch(root / str(processes), processes)
        assert run.returncode == 0, run.stderr[-3000:]
    return root


def test_losses_are_those_of_one_process(both):
    one, two = (RunFolder(both / name).metrics() for name in ("1", "2"))
    assert len(one) == len(two) == 3
    for first, second in zip(one, two, strict=True):
        assert abs(first["loss"] - second["loss"]) <= 1e-5 * abs(first["loss"])
        assert abs(first["val_loss"] - second["val_loss"]) <= 1e-4 * abs(first["val_loss"])


def test_sums_and_counts_are_exact(both):
    one, two = (RunFolder(both / name).metrics() for name in ("1", "2"))
    for first, second in zip(one, two, strict=True):
        assert first["val_count"] == second["val_count"] == 20
        assert first["val_accuracy"] == second["val_accuracy"]


def test_weights_agree(both):
    one, two = (vnt.load(both / name).state_dict() for name in ("1", "2"))
    for name, value in one.items():
        assert torch.allclose(value, two[name], rtol=1e-3, atol=1e-5), name


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith(("shapes", "motion"))])
def test_no_statistics_are_a_process_s_own(name):
    """torch's own batch norms know of one process; ours sum over all."""
    if name.startswith(("shapes_tfn", "shapes_se3")):
        pytest.importorskip("e3nn", reason="these two are built of e3nn (extra `rivals`)")
    network = build_model(recipe(name).model)
    assert not [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]


def test_a_failing_process_ends_the_job_with_its_message(tmp_path):
    start = time.monotonic()
    run = launch(tmp_path / "run", 2, "fail")
    assert run.returncode != 0
    assert "process 1 has had enough" in run.stderr
    assert time.monotonic() - start < 90
