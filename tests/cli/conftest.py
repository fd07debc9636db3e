import pytest

from vnt.cli.main import main


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """No data, no cache, and a folder of its own to write to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("VNT_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def vnt(capsys):
    """The command line in this process: exit code, what it printed, and its errors."""

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run
