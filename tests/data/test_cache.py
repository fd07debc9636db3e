import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
import torch

from vnt.data.cache import cached
from vnt.files import atomic_write


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "source"
    path.write_text("x")
    return path


def counting():
    calls = []

    def build():
        calls.append(1)
        return {"x": torch.arange(1000.0), "flags": torch.ones(3, dtype=torch.bool)}

    return calls, build


def test_builds_once(source):
    calls, build = counting()
    first, second = cached("set", {}, [source], build), cached("set", {}, [source], build)
    assert len(calls) == 1
    assert torch.equal(first["x"], second["x"])
    assert second["flags"].dtype == torch.bool


def test_other_settings_are_another_file(source):
    calls, build = counting()
    cached("set", {"n": 1}, [source], build)
    cached("set", {"n": 2}, [source], build)
    cached("set", {"n": 1}, [source], build)
    assert len(calls) == 2


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage"])
def test_a_damaged_file_is_built_again(source, tmp_path, damage):
    calls, build = counting()
    cached("set", {}, [source], build)
    (file,) = (tmp_path / "cache").iterdir()
    whole = file.read_bytes()
    file.write_bytes({"truncated": whole[:-1], "empty": b"", "garbage": b"\xff" * len(whole)}[damage])
    assert torch.equal(cached("set", {}, [source], build)["x"], torch.arange(1000.0))
    assert len(calls) == 2
    assert file.read_bytes() == whole


def test_nowhere_to_write_is_a_warning(source, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "file" / "cache"))
    _, build = counting()
    with pytest.warns(UserWarning, match="could not keep set"):
        assert "x" in cached("set", {}, [source], build)


def test_an_interrupted_build_leaves_nothing(source, tmp_path):
    def build():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("set", {}, [source], build)
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())


def test_a_killed_write_leaves_no_file_of_that_name(tmp_path):
    """SIGKILL in the middle of a write: the old file stays, and is whole."""
    target = tmp_path / "set.bin"
    target.write_text("old")
    script = (
        "import sys, time\nfrom vnt.files import atomic_write\n"
        f"with atomic_write({str(target)!r}) as path:\n"
        "    path.write_text('half')\n    print('writing', flush=True)\n    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"writing\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert target.read_text() == "old"


def test_an_exception_while_writing_leaves_the_old_file(tmp_path):
    target = tmp_path / "set.bin"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(target) as path:  # noqa: PT012 - the block is what is tested
        path.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["set.bin"]


def test_written_files_have_ordinary_permissions(tmp_path):
    with atomic_write(tmp_path / "new") as path:
        path.write_text("whole")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_mapped_files_survive_their_removal(source, tmp_path):
    """A running training keeps its data when another process replaces the cache."""
    _, build = counting()
    first = cached("set", {}, [source], build)
    time.sleep(0.01)
    source.write_text("changed")
    with warnings.catch_warnings():
        cached("set", {}, [source], build)
    assert torch.equal(first["x"], torch.arange(1000.0))


def test_a_full_disk_is_a_warning(source, tmp_path):
    """The system refuses to make files longer than a thousand bytes, as a full disk would."""
    program = f"""
import resource, warnings, pathlib, torch
from vnt.data.cache import cached
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    found = cached("set", {{}}, [pathlib.Path({str(source)!r})], lambda: {{"x": torch.arange(1000.0)}})
print(float(found["x"].sum()), len(said), "could not keep set" in str(said[0].message))
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.stdout == "499500.0 1 True\n", child.stderr
    assert not list((tmp_path / "cache").iterdir())
