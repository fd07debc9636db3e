"""Every Python block in the README and the docs runs, and says nothing that is not so."""

import re
from pathlib import Path

import pytest

import vnt

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_code_blocks_run(path, capsys, monkeypatch, tmp_path):
    """The blocks of one document run one after another, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        exec(compile(block, str(path), "exec"), namespace)
    if path.name == "README.md":
        printed = [float(number) for number in re.findall(r"tensor\(([-+.e\d]+)\)", capsys.readouterr().out)]
        assert len(printed) == 2
        assert max(printed) < 1e-5  # "about 1e-6"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(path):
    text = path.read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (path.parent / target).exists(), target
    rooms = "layers|functional|models|testing|geometry|equivariance"
    for name in re.findall(rf"`(tests/[\w/]+\.py|(?:{rooms})/\w+\.py)`", text):
        assert (ROOT / name).exists() or (ROOT / "src/vnt" / name).exists(), name


def test_names_in_the_paper_map_exist():
    """Each `vnt`-like name in docs/paper.md is one that can be imported."""
    from vnt import equivariance, functional, testing

    text = (ROOT / "docs/paper.md").read_text()
    for name in set(re.findall(r"`(VN\w+)`", text)):
        assert hasattr(vnt, name), name
    table = text.split("## What we measured")[0]
    for name in set(re.findall(r"`([a-z_]+)`", table)) - {"functional", "vnt"}:
        assert any(hasattr(home, name) for home in (functional, testing, equivariance)), name


def test_the_changelog_knows_this_version_or_what_is_coming():
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {vnt.__version__}" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_nothing_was_left_to_fill_in(path):
    assert not re.search(r"\bTODO\b|\bTBD\b|\bFIXME\b|^[A-Z]+_[A-Z_]+$", path.read_text(), re.MULTILINE)
