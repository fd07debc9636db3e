"""Every block of Python, and of commands behind a ``$``, in the README and the docs runs, and prints what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vnt

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RESULTS = sorted((ROOT / "docs/results").glob("*.md"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_code_blocks_run(path, capsys, monkeypatch, tmp_path):
    """The blocks of one document run one after another, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))
    namespace: dict = {}
    printed = None  # by the last block of Python
    everything = ""
    for language, block in re.findall(r"```(python|console|text)\n(.*?)```", path.read_text(), re.DOTALL):
        if language == "python":
            exec(compile(block, str(path), "exec"), namespace)
            printed = capsys.readouterr().out
            everything += printed
        elif language == "console":
            run_commands(block)
        elif printed is not None:
            require_shown(block, printed)
    if path.name == "README.md":
        numbers = [float(number) for number in re.findall(r"tensor\(([-+.e\d]+)\)", everything)]
        assert len(numbers) == 2
        assert max(numbers) < 1e-5  # "about 1e-6"


def run_commands(block):
    """Each line behind a ``$`` in a shell, with what should come out below it."""
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": tools, "OMP_NUM_THREADS": "1", "COLUMNS": "140"}
    for command, shown in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
        run = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=200, env=environment)
        assert run.returncode == 0, run.stderr[-3000:]
        require_shown(shown, run.stdout + run.stderr)


def require_shown(shown, printed):
    """Every line that is shown was printed; numbers may differ from machine to machine, words may not."""
    lines = {words(line) for line in printed.splitlines()}
    for line in shown.splitlines():
        assert words(line) in lines, f"{line!r} is not in\n{printed}"


def words(line):
    return " ".join(re.sub(r"-?\d[\d.,]*(e[-+]\d+)?", "#", line).split())


@pytest.mark.parametrize("path", [*DOCUMENTS, *RESULTS], ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(path):
    text = path.read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (path.parent / target).exists(), target
    rooms = "layers|functional|models|testing|geometry|equivariance"
    for name in re.findall(rf"`(tests/[\w/]+\.py|(?:{rooms})/\w+\.py)`", text):
        assert (ROOT / name).exists() or (ROOT / "src/vnt" / name).exists(), name


def test_names_in_the_paper_map_exist():
    """Each `vnt`-like name in docs/paper.md is one that can be imported."""
    from vnt import equivariance, functional, geometry, testing

    text = (ROOT / "docs/paper.md").read_text()
    for name in set(re.findall(r"`(VN\w+)`", text)):
        assert hasattr(vnt, name), name
    table = text.split("## What we measured")[0]
    for name in set(re.findall(r"`([a-z_]+)`", table)) - {"functional", "vnt"}:
        assert any(hasattr(home, name) for home in (geometry, functional, testing, equivariance)), name


def test_the_changelog_knows_this_version_or_what_is_coming():
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {vnt.__version__}" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_nothing_was_left_to_fill_in(path):
    assert not re.search(r"\bTODO\b|\bTBD\b|\bFIXME\b|^[A-Z]+_[A-Z_]+$", path.read_text(), re.MULTILINE)
