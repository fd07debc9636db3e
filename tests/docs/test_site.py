"""The documentation site builds without a warning, and has what it names."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_site_builds(tmp_path):
    """On a copy, so that nothing is left behind; `make docs` is the same command."""
    for name in ("docs", "src", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "pretrained"))
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Parameter" not in done.stdout + done.stderr  # of a docstring that is not one of the function
    pages = {str(path.relative_to(tmp_path / "docs").with_suffix("")) for path in (tmp_path / "docs").rglob("*.md")}
    site = tmp_path / "build/site"
    assert pages <= {str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")}
    api = (site / "api.html").read_text()
    assert "VNMultiheadAttention" in api
    assert "&gt;&gt;&gt;" in api  # examples are code
