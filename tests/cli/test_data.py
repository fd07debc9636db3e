"""The real command line, in this process: what it prints, what it writes, how it fails."""

import json
import subprocess
import sys

import numpy as np
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
    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def tracks(tmp_path):
    path = tmp_path / "tracks.csv"
    time = np.arange(0, 12, 0.1)
    rows = [f"{car},{t:.1f},{(3 + car) * t:.3f},{np.sin(t):.3f},0.5,{3 + car}" for car in range(4) for t in time]
    path.write_text("track_id,t,x,y,z,speed\n" + "\n".join(rows))
    return path


@pytest.fixture
def cloud(tmp_path):
    path = tmp_path / "scan.xyz"
    rows = np.concatenate([np.random.default_rng(0).normal(size=(50, 3)), np.arange(50)[:, None]], 1)
    path.write_text("x y z intensity\n" + "\n".join(" ".join(f"{v:.4f}" for v in row) for row in rows))
    return path


def test_help_lists_the_commands(vnt):
    for words in ((), ("--help",), ("-h",)):
        code, out, err = vnt(*words)
        assert (code, err) == (0, "")
        assert "data" in out
    assert vnt("--version")[1].startswith("vnt 0")


def test_help_does_not_wait_for_torch():
    script = "import sys; from vnt.cli.main import main; main(['--help']); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


def test_module_and_script_are_the_same_program():
    run = subprocess.run([sys.executable, "-m", "vnt", "nothing"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith("vnt: no command 'nothing'")


@pytest.mark.parametrize("command", ["list", "info", "convert", "preview"])
def test_every_command_has_a_help_text(command, capsys):
    with pytest.raises(SystemExit) as end:
        main(["data", command, "--help"])
    assert end.value.code == 0
    assert len(capsys.readouterr().out) > 200


def test_list_says_what_is_here(vnt, tmp_path):
    code, out, _ = vnt("data", "list")
    assert code == 0
    assert "built in" in out.split("motion")[0]
    assert out.count("not here") >= 8
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "womd.safetensors").write_text("")
    _, out, _ = vnt("data", "list", "--data", tmp_path / "sets")
    assert "womd.safetensors" in out


def test_info_of_a_cloud(vnt, cloud):
    code, out, _ = vnt("data", "info", cloud)
    assert code == 0
    assert "table of points" in out
    assert "intensity 0.0 to 49.0" in out
    facts = json.loads(vnt("data", "info", cloud, "--json")[1])
    assert facts["points"] == 50
    assert facts["attributes"] == {"intensity": [0.0, 49.0]}
    assert set(facts["bounds"]) == {"x", "y", "z"}


def test_info_of_tracks(vnt, tracks):
    facts = json.loads(vnt("data", "info", tracks, "--json")[1])
    assert facts["form"] == "table of tracks"
    assert facts["rate"] == "10 Hz"
    assert facts["steps"] == 120
    assert sum(facts["tracks"].values()) == 4


def test_info_of_a_built_in_set(vnt):
    facts = json.loads(vnt("data", "info", "motion", "--json")[1])
    assert facts["windows"] == {"train": 4000, "val": 500, "test": 1000}
    assert facts["past"] == "11 steps"


def test_convert_tracks_then_look_at_them(vnt, tracks, tmp_path):
    code, out, _ = vnt("data", "convert", tracks, "-o", "windows.safetensors", "--future", 30, "--stride", 20)
    assert code == 0
    assert "windows of 1 scenarios" in out
    facts = json.loads(vnt("data", "info", "windows.safetensors", "--json")[1])
    assert facts["future"] == "30 steps"
    assert sum(facts["windows"].values()) == 4 * 4
    assert vnt("data", "preview", "windows.safetensors", "-o", "windows.png")[0] == 0
    assert (tmp_path / "windows.png").read_bytes().startswith(b"\x89PNG")


def test_convert_resamples_tables(vnt, tracks):
    assert vnt("data", "convert", tracks, "-o", "w.safetensors", "--future", 20, "--rate", 5)[0] == 0
    assert json.loads(vnt("data", "info", "w.safetensors", "--json")[1])["rate"] == "5 Hz"


def test_convert_a_cloud(vnt, cloud):
    assert vnt("data", "convert", cloud, "-o", "scan.npz", "--num-points", 20)[0] == 0
    facts = json.loads(vnt("data", "info", "scan.npz", "--json")[1])
    assert facts["points"] == 20
    assert "intensity" in facts["attributes"]


@pytest.mark.parametrize("what", ["cloud", "tracks", "shapes"])
def test_preview_is_a_picture(vnt, what, cloud, tracks, tmp_path):
    word = {"cloud": cloud, "tracks": tracks, "shapes": "shapes"}[what]
    assert vnt("data", "preview", word, "-o", "out.png", "--split", "val")[0] == 0
    from matplotlib.image import imread

    picture = imread(tmp_path / "out.png")
    assert min(picture.shape[:2]) > 400
    assert picture[..., :3].std() > 0.02  # not blank


def test_preview_by_attribute(vnt, cloud):
    assert vnt("data", "preview", cloud, "--color", "intensity")[0] == 0
    code, _, err = vnt("data", "preview", cloud, "--color", "intensty")
    assert code == 2
    assert err == "vnt: no attribute 'intensty' in scan.xyz; did you mean 'intensity'?\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dta", "list"], "no command 'dta'; did you mean 'data'?"),
        (["data", "info", "modelnet4"], "modelnet4: no such file, and no data set of that name; did you mean"),
        (["data", "info", "missing.ply"], "missing.ply: no such file"),
        (["data", "info", "modelnet40"], "ModelNet40 is not in"),
        (["data", "info", "scan.xyzzy"], "scan.xyzzy: no such file"),
        (["data", "convert", "missing.csv", "-o", "x.safetensors"], "missing.csv: no such file"),
        (["data", "preview", "womd"], "Waymo Open Motion is not in"),
    ],
)
def test_what_goes_wrong_is_one_line_and_code_2(vnt, words, message):
    code, _, err = vnt(*words)
    assert code == 2
    assert err.startswith(f"vnt: {message}")
    assert err.count("\n") == 1


def test_debug_shows_where(vnt):
    code, _, err = vnt("data", "info", "missing.ply", "--debug")
    assert code == 2
    assert "Traceback" in err


def test_the_real_record(vnt, real_data):
    folder = real_data("raw/motion_data_one_scenario.tfrecord")
    facts = json.loads(vnt("data", "info", folder / "raw/motion_data_one_scenario.tfrecord", "--json")[1])
    assert facts["scenario"] == "637f20cafde22ff8"
    assert facts["tracks"] == {"vehicle": 70, "pedestrian": 10, "cyclist": 3}
    assert (facts["steps"], facts["rate"], facts["current step"]) == (91, "10 Hz", 10)
