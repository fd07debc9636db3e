"""The real command line, in this process: what it prints, what it writes, how it fails."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from vnt.cli.main import main


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


WRITES = ["train shapes", "demo", "predict", "compare", "reproduce", "audit", "import", "export", "bench"]


@pytest.mark.parametrize("command", [*WRITES, "data convert", "data preview"])
def test_every_command_that_writes_calls_it_by_the_same_names(command, capsys):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    words = re.split(r"[\s,│]+", capsys.readouterr().out)
    assert {"-o", "--out", "--output"} <= set(words)


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
        (["data", "preview", "shapes", "--color", "height"], "--color height names an attribute of a cloud file"),
        (["data", "preview", "shapes", "-o", "."], ".: a folder, expected the name of a picture such as preview.png"),
        (["data", "preview", "shapes", "-o", "a.tiff"], "a.tiff: cannot draw '.tiff', expected one of .png, .jpg"),
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


@pytest.mark.parametrize(
    ("name", "header", "form"),
    [
        ("lidar.csv", "x,y,z,intensity,timestamp", "table of points"),
        ("lidar.CSV", "x,y,z,intensity,timestamp", "table of points"),
        ("lidar.txt", "x y z track, t", None),
        ("cars.csv", "id,time,x,y,z", "table of tracks"),
        ("CARS.CSV", "id,time,x,y,z", "table of tracks"),
        ("cars.tsv", "track;t;x;y;z", "table of tracks"),
        ("cars.txt", "track;t;x;y;z", "table of tracks"),
    ],
)
def test_info_takes_a_table_for_what_it_is(vnt, tmp_path, name, header, form):
    mark = ";" if ";" in header else ","
    rows = [mark.join(str(t if column else 7) for column in range(5)) for t in range(5)]
    (tmp_path / name).write_text(header + "\n" + "\n".join(rows))
    code, out, _ = vnt("data", "info", name, "--json")
    assert code == (0 if form else 2)
    assert form is None or json.loads(out)["form"] == form


def test_info_of_twelve_columns(vnt, tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 12))
    np.savetxt(tmp_path / "points.txt", rows)
    assert json.loads(vnt("data", "info", "points.txt", "--json")[1])["points"] == 20
    (tmp_path / "00.txt").write_text("".join(f"1 0 0 0 0 1 0 0 0 0 1 {t}\n" for t in range(30)))
    assert json.loads(vnt("data", "info", "00.txt", "--json")[1])["form"] == "KITTI poses"


def test_tracks_are_no_cloud(vnt, tracks, cloud):
    code, _, err = vnt("data", "convert", tracks, "-o", "out.npz")
    assert code == 2
    assert err.startswith(f"vnt: {tracks}: table of tracks, and out.npz would be a cloud")
    code, _, err = vnt("data", "convert", cloud, "-o", "out.safetensors")
    assert code == 2
    assert "A cloud is converted to .npz" in err


def test_names_with_brackets_are_printed_as_they_are(vnt, tmp_path):
    name = "scan[bold].csv"
    (tmp_path / name).write_text("x,y,z,speed[m/s],[red]heat\n1,2,3,4,5\n2,3,4,5,6\n")
    code, out, _ = vnt("data", "info", name)
    assert code == 0
    assert name in out
    assert "speed[m/s] 4.0 to 5.0" in out
    assert "[red]heat 5.0 to 6.0" in out
    assert vnt("data", "convert", name, "-o", "out[i].npz")[1] == "out[i].npz: 2 points\n"
    assert vnt("data", "preview", name, "-o", "out[i].png")[1] == "wrote out[i].png\n"
    assert "sets[x]" in vnt("data", "list", "--data", tmp_path / "sets[x]")[1]


def test_convert_a_cloud_whose_columns_have_any_name(vnt, tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z,file,points,past,future\n1,2,3,4,5,6,7\n2,3,4,5,6,7,8\n")
    assert vnt("data", "convert", "a.csv", "-o", "a.npz")[0] == 0
    facts = json.loads(vnt("data", "info", "a.npz", "--json")[1])
    assert list(facts["attributes"]) == ["file", "points_", "past", "future"]


def test_info_of_a_damaged_archive(vnt, tmp_path):
    np.savez(tmp_path / "a.npz", points=np.zeros((5, 3)))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at : at + 2] = b"QQ"
    (tmp_path / "a.npz").write_bytes(data)
    code, _, err = vnt("data", "info", "a.npz")
    assert code == 2
    assert err.startswith("vnt: a.npz: ")


def test_bounds_have_the_digits_that_matter(vnt, tmp_path):
    (tmp_path / "survey.xyz").write_text("4000000.123456 0.1 7\n4000010.654321 0.3 7\n")
    assert "x 4000000.1235 to 4000010.6543, y 0.1 to 0.3, z 7 to 7" in vnt("data", "info", "survey.xyz")[1]
    facts = json.loads(vnt("data", "info", "survey.xyz", "--json")[1])
    assert facts["bounds"]["x"] == [4000000.123456, 4000010.654321]


def test_a_motion_set_may_have_any_name(vnt, tracks, tmp_path):
    assert vnt("data", "convert", tracks, "-o", "windows", "--future", 30)[0] == 0
    assert json.loads(vnt("data", "info", "windows", "--json")[1])["form"] == "motion set"
    (tmp_path / "windows").rename(tmp_path / "windows.v1")
    assert json.loads(vnt("data", "info", "windows.v1", "--json")[1])["form"] == "motion set"


def test_a_folder_of_recordings_is_not_read_as_a_whole(vnt, tracks, tmp_path):
    (tmp_path / "raw").mkdir()
    tracks.rename(tmp_path / "raw" / "a.csv")
    for number in range(3):  # tables of tracks by their header, and damaged
        (tmp_path / "raw" / f"b{number}.csv").write_text("track_id,t,x,y\nwhat?\n")
    (tmp_path / "raw" / "notes.txt").write_text("hello\n")
    facts = json.loads(vnt("data", "info", "raw", "--json")[1])
    assert facts["form"] == "folder of recordings"
    assert facts["described"] == "raw/a.csv"
    assert facts["further files"] == 3
    assert facts["steps"] == 120
    assert vnt("data", "preview", "raw")[0] == 0


def test_a_folder_of_clouds(vnt, cloud, tmp_path, monkeypatch):
    (tmp_path / "scans" / "deeper").mkdir(parents=True)
    for number in range(14):
        (tmp_path / "scans" / "deeper" / f"{number:02d}.xyz").write_bytes(cloud.read_bytes())
    np.save(tmp_path / "scans" / "last.npy", np.zeros((3, 3)))
    facts = json.loads(vnt("data", "info", "scans", "--json")[1])
    assert facts["form"] == "folder of clouds"
    assert facts["files"] == {"table of points": 14, "NumPy array": 1}
    assert facts["described"] == "scans/deeper/00.xyz"
    assert facts["points"] == 50
    drawn = []
    monkeypatch.setattr(
        "vnt.cli.preview.draw_clouds", lambda clouds, titles, **options: drawn.extend(titles) or Figure()
    )
    assert vnt("data", "preview", "scans", "--color", "intensity")[0] == 0
    assert drawn == [f"{number:02d}.xyz: 50 points" for number in range(12)]
    (tmp_path / "nothing").mkdir()
    code, _, err = vnt("data", "info", "nothing")
    assert code == 2
    assert err.startswith("vnt: nothing: neither recordings nor clouds in this folder")


def test_a_folder_of_classes(vnt, cloud, tmp_path, monkeypatch):
    for side, count in (("train", 3), ("test", 2)):
        for name in ("chair", "table"):
            (tmp_path / "scans" / side / name).mkdir(parents=True)
            for number in range(count):
                (tmp_path / "scans" / side / name / f"{number}.xyz").write_bytes(cloud.read_bytes())
    facts = json.loads(vnt("data", "info", "scans", "--json")[1])
    assert facts["classes to train with"] == {"chair": 3, "table": 3}
    assert facts["and to test with"] == {"chair": 2, "table": 2}
    drawn = []
    monkeypatch.setattr(
        "vnt.cli.preview.draw_clouds", lambda clouds, titles, **options: drawn.extend(titles) or Figure()
    )
    assert vnt("data", "preview", "scans")[0] == 0
    assert drawn == ["chair: 50 points", "table: 50 points"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "victim.csv"], "victim.csv: windows are written to .safetensors, a cloud to .npz"),
        (["-o", "x.safetensors", "--types", "car"], "name files or folders to convert"),
    ],
)
def test_what_convert_would_do_by_mistake_is_refused(vnt, tracks, tmp_path, words, message):
    (tmp_path / "victim.csv").write_text("precious")
    sources = [tracks] if "--types" not in words else []
    code, _, err = vnt("data", "convert", *sources, *words)
    assert code == 2
    assert message in err
    assert (tmp_path / "victim.csv").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "start"), [("a.jpg", b"\xff\xd8"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml"), ("a", b"\x89PNG")]
)
def test_the_suffix_of_a_picture_is_its_format(vnt, cloud, tmp_path, name, start):
    assert vnt("data", "preview", cloud, "-o", name)[0] == 0
    assert (tmp_path / name).read_bytes().startswith(start)


def test_dollars_in_titles_are_no_mathematics(vnt, tmp_path):
    (tmp_path / "a$b_{$.csv").write_text("x,y,z,$cost_{$\n1,2,3,4\n2,3,4,5\n")
    assert vnt("data", "preview", "a$b_{$.csv", "--color", "$cost_{$")[0] == 0


def test_no_attribute_to_colour_by(vnt, tmp_path):
    (tmp_path / "bare.xyz").write_text("1 2 3\n4 5 6\n")
    assert vnt("data", "preview", "bare.xyz", "--color", "heat")[2] == (
        "vnt: no attribute 'heat' in bare.xyz; it has none\n"
    )
