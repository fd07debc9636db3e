"""The documentation site builds without a warning, and has what it names."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_site_builds(tmp_path):
    """On a copy, so that nothing is left behind; `make docs` is the same command."""
    for name in ("docs", "src", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "pretrained"))
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Parameter" not in done.stdout + done.stderr  # of a docstring that is not one of the function
    pages = {str(path.relative_to(tmp_path / "docs").with_suffix("")) for path in (tmp_path / "docs").rglob("*.md")}
    site = tmp_path / "build/site"
    assert pages <= {str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")}
    api = (site / "api.html").read_text()
    assert "VNMultiheadAttention" in api
    assert "&gt;&gt;&gt;" in api  # examples are code
    for page in site.rglob("*.html"):  # formulas are MathML, and no LaTeX is left
        text = page.read_text()
        assert text.count('class="arithmatex"') == text.count("<math ") == text.count("</math>")
        assert "$$" not in text
    assert api.count('display="block"') > 10
    assert "<math " in (site / "precision.html").read_text()


def test_what_is_no_formula_is_refused(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from mathml import mathml

    assert mathml("a < b") != mathml("a < b", block=True)
    for latex in (r"\nonsense{x}", r"a$$ $$b"):
        with pytest.raises(ValueError, match="cannot be put into MathML"):
            mathml(latex)
