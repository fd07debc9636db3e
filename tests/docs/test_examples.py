"""Every script in examples/ runs, and does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.stem != "onnx_runtime")  # that one: tests/export


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, tmp_path):
    command = [sys.executable, "-W", "error", str(path), str(tmp_path / "run")]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=200, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert run.returncode == 0, run.stderr
    if path.stem == "bring_your_own":
        assert float(run.stdout.split()[-1]) > 0.95
    if path.stem == "train_on_shapes":
        still, turned = re.findall(r"I/\w+ ([\d.]+)%", run.stdout)
        assert still == turned
    if path.stem == "audit_your_own":
        right, wrong = run.stdout.splitlines()
        assert "'float64': 'exact'" in right
        assert "'float64': 'broken'" in wrong
    if path.stem == "forecast_tracks":
        assert float(re.findall(r"back: (\S+) m", run.stdout)[0]) < 1e-3
