"""``vnt view`` as a command."""

import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from vnt.cli.main import main
from vnt.data.cloud_files import read_cloud

CHAIR = Path(__file__).parents[2] / "examples" / "chair.off"


def test_export_is_one_file(tmp_path, capsys):
    page, few = tmp_path / "page.html", tmp_path / "chair.xyz"
    np.savetxt(few, read_cloud(CHAIR, num_points=64).points)  # so that models answer quickly, at 312 turns
    assert main(["view", str(few), "--export", str(page)]) == 0
    text = page.read_text()
    assert '"name":"chair.xyz"' in text
    assert "{{DATA}}" not in text
    assert "<script src" not in text
    assert capsys.readouterr().out.strip() == str(page)


def test_export_needs_no_server():
    """`viser` is an extra; a page on its own can do without."""
    blocked = "import sys; sys.modules['viser'] = None; import vnt.view.gallery"
    assert subprocess.run([sys.executable, "-c", blocked]).returncode == 0


def test_a_file_that_is_not_there(capsys):
    assert main(["view", "nowhere.off"]) == 2
    assert "nowhere.off: no such file" in capsys.readouterr().err


def test_what_is_not_a_cloud(tmp_path, capsys):
    bad = tmp_path / "bad.off"
    bad.write_text("no mesh")
    assert main(["view", str(bad), "--export", str(tmp_path / "page.html")]) == 2
    assert "bad.off" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_plain_needs_a_model(capsys):
    assert main(["view", "--plain", "shapes-transformer"]) == 2
    assert "--plain needs --model" in capsys.readouterr().err


def test_without_viser_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "viser", None)
    for name in [name for name in sys.modules if name.startswith("vnt.view.page")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["view", "--model", "shapes"]) == 2
    assert "pip install 'vnt[view]'" in capsys.readouterr().err


@pytest.mark.timeout(120)
def test_it_serves_this_machine_alone():
    command = [sys.executable, "-m", "vnt", "view", "--model", "shapes", "--browser", "False", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = next(
                line for line in iter(server.stdout.readline, "") if line.startswith("http://127.0.0.1")
            ).split()[0]
            port = int(address.rsplit(":", 1)[1])
            assert b"<html" in urllib.request.urlopen(address, timeout=30).read(2000).lower()
            own = socket.gethostbyname(socket.gethostname())
            if not own.startswith("127."):
                with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
                    socket.create_connection((own, port), timeout=3)
        finally:
            server.terminate()
