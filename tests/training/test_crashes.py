"""Nothing that happens to a run may lose more than the work since its last checkpoint."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_twenty_kills_and_the_same_weights(tmp_path):
    run = subprocess.run(
        [sys.executable, str(HERE / "kill.py"), str(tmp_path), "20"],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "kills=20 resumed=True weights=True state=True metrics=True"


def test_a_full_disk_is_one_line(tmp_path):
    """A limit on the size of files stands in for a disk that is full."""
    script = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from vnt.cli.main import main\n"
        "sys.exit(main(['train', 'motion', '--epochs', '1', '--model.channels', '8', '--out', sys.argv[1]]))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 2, run.stderr
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("vnt: ")
    assert "too large" in last
    assert "Traceback" not in run.stderr
