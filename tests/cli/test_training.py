"""Train, evaluate, predict and list, as a user types it."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from vnt import ForecasterConfig, VNTransformerForecaster, save_pretrained
from vnt.cli.main import main
from vnt.cli.training import watching
from vnt.training.loop import Moment

SMALL = ["--epochs", "1", "--model.channels", "8", "--model.num-heads", "2", "--model.depth", "1", "--num-points", "16"]


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """A user's own folder: balls and sticks, in three formats."""
    root, rng = tmp_path_factory.mktemp("scans") / "mine", np.random.default_rng(0)
    for kind, stretch in (("ball", (1, 1, 1)), ("stick", (5, 0.3, 0.3))):
        (root / kind).mkdir(parents=True)
        for number in range(30):
            points = rng.normal(size=(40, 3)) * stretch
            path = root / kind / f"{number}.{['xyz', 'npy', 'csv'][number % 3]}"
            if path.suffix == ".npy":
                np.save(path, points)
            else:
                np.savetxt(path, points, delimiter="," if path.suffix == ".csv" else " ")
    return root


@pytest.fixture(scope="module")
def trained(tmp_path_factory, scans):
    """A run on the user's own folder."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    words = ["train", "shapes", "--dataset", str(scans), "--out", str(folder), *SMALL, "--batch-size", "4"]
    assert main([*words, "--epochs", "15", "--learning-rate", "0.01", "--ema", "0.9"]) == 0
    return folder


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "motion"
    words = ["train", "motion", "--out", str(folder), *SMALL, "--batch-size", "256", "--no-test"]
    assert main(words) == 0
    return folder


def test_train_help_lists_the_recipes(vnt):
    code, out, _ = vnt("train", "--help")
    assert code == 0
    assert "modelnet40_polka_dot" in out
    assert "torchrun" in out


def test_a_recipe_lists_its_settings(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", "shapes", "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    for word in ("--model.channels", "--rotation {I,z,SO3}", "--checkpoint-seconds", "clouds or tracks in a step"):
        assert word in out


def test_a_users_own_folder_is_learned(trained, vnt):
    code, out, _ = vnt("evaluate", trained, "--json")
    assert code == 0
    found = json.loads(out)
    assert set(found) == {"I/I", "I/z", "I/SO3"}
    assert found["I/SO3"]["accuracy"] >= 0.9
    assert found["I/SO3"]["accuracy"] == found["I/I"]["accuracy"]
    assert found["I/I"]["accuracy_low"] < found["I/I"]["accuracy"] <= found["I/I"]["accuracy_high"]
    assert set(found["I/I"]["classes"]) == {"ball", "stick"}
    noted = json.loads((trained / "run.json").read_text())["test"]
    assert noted["I/SO3"]["accuracy"] == found["I/SO3"]["accuracy"]


def test_data_that_have_moved_are_found_again(trained, scans, vnt, tmp_path):
    run, moved = tmp_path / "run", tmp_path / "moved"
    shutil.copytree(trained, run)
    about = json.loads((run / "config.json").read_text())
    assert about["training"]["dataset"] == str(scans)
    about["training"]["dataset"] = str(tmp_path / "gone")
    (run / "config.json").write_text(json.dumps(about))
    shutil.copytree(scans, moved)
    code, _, err = vnt("evaluate", run)
    assert code == 2
    assert "gone: no such folder of clouds or file of windows; --data says where it is if it has moved" in err
    assert vnt("evaluate", run, "--data", moved, "--rotations", "I")[0] == 0


def test_evaluate_tables(trained, vnt):
    _, out, _ = vnt("evaluate", trained, "--classes", "--rotations", "SO3", "--split", "val")
    assert "I/SO3" in out
    assert "stick" in out
    assert "95 % interval" in out


def test_a_run_is_looked_at_on_other_clouds_of_the_same_classes(trained, scans, vnt, tmp_path):
    others = tmp_path / "others"
    for side, start in (("train", 0), ("test", 20)):
        for name in ("ball", "stick"):
            (others / side / name).mkdir(parents=True)
            for path in sorted((scans / name).iterdir())[start : start + 5]:
                shutil.copy(path, others / side / name)
    before = (trained / "run.json").read_text()
    found = json.loads(vnt("evaluate", trained, "--json", "--rotations", "I", "--data", others)[1])
    assert found["I/I"]["count"] == 10
    assert (trained / "run.json").read_text() == before  # these are another test
    code, _, err = vnt("evaluate", trained, "--data", tmp_path / "nowhere")
    assert code == 2
    assert "nowhere: no such folder of clouds" in err


def test_settings_of_the_other_task_are_told(vnt, tmp_path):
    words = ["--epochs", "1", "--model.channels", "8", "--batch-size", "512", "--no-test", "--jitter", "0.5"]
    code, _, err = vnt("train", "motion", *words, "--out", tmp_path / "run")
    assert code == 0
    assert "without effect, since they are not of this task: jitter" in err


def test_classes_that_are_on_one_side_alone_are_told(vnt, scans, tmp_path):
    for side in ("train", "test"):
        shutil.copytree(scans, tmp_path / "some" / side)
    shutil.rmtree(tmp_path / "some" / "test" / "ball")
    code, _, err = vnt(
        "train", "shapes", "--dataset", tmp_path / "some", *SMALL, "--no-test", "--out", tmp_path / "run"
    )
    assert code == 0
    assert "there is nothing to test on of ball" in err


def test_a_look_at_fewer_points_is_kept_beside_that_at_all(trained, vnt):
    whole = json.loads(vnt("evaluate", trained, "--json")[1])
    some = json.loads(vnt("evaluate", trained, "--json", "--num-points", 4)[1])
    kept = json.loads((trained / "run.json").read_text())["test"]
    for name, numbers in whole.items():
        assert kept[name]["accuracy"] == numbers["accuracy"]
        assert kept[f"{name}@4"]["accuracy"] == some[name]["accuracy"]
    assert "@4" not in vnt("runs", trained.parent)[1]


def test_classes_without_clouds_are_null_in_json(vnt, scans, tmp_path):
    few = tmp_path / "few"
    for side in ("train", "val", "test"):
        shutil.copytree(scans, few / side)
    for path in (few / "val" / "ball").iterdir():
        path.unlink()
    assert vnt("train", "shapes", "--dataset", few, *SMALL, "--out", tmp_path / "run")[0] == 0
    code, out, _ = vnt("evaluate", tmp_path / "run", "--json", "--split", "val")
    assert code == 0

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(out, parse_constant=refuse)["I/I"]["classes"]["ball"] is None


def test_evaluate_forecasts(forecaster, vnt):
    found = json.loads(vnt("evaluate", forecaster, "--json", "--rotations", "I", "SO3")[1])
    assert {"ade", "fde", "miss_rate", "ade_95"} <= set(found["I/SO3"])
    assert abs(found["I/SO3"]["ade"] - found["I/I"]["ade"]) < 1e-3
    assert "ADE, m" in vnt("evaluate", forecaster, "--rotations", "I")[1]


def test_predict_clouds(trained, scans, vnt):
    code, out, _ = vnt("predict", scans / "ball", "--model", trained, "--format", "json")
    assert code == 0
    rows = json.loads(out)
    assert len(rows) == 30
    assert sum(row["class_1"] == "ball" for row in rows) > 25
    assert rows[0]["probability_1"] >= rows[0]["probability_2"]
    table = vnt("predict", scans / "stick" / "0.xyz", "--model", trained)[1]
    assert "stick" in table
    assert "%" in table


def test_a_cloud_in_other_units_is_scaled_and_told(trained, scans, vnt, tmp_path):
    np.savetxt(tmp_path / "millimetres.xyz", 1000 * np.loadtxt(scans / "stick" / "0.xyz"))
    (row,) = json.loads(vnt("predict", tmp_path / "millimetres.xyz", "--model", trained, "--format", "json")[1])
    assert row["class_1"] == "stick"
    assert 1e-4 < row["scaled_by"] < 1e-2
    (row,) = json.loads(vnt("predict", scans / "stick" / "0.xyz", "--model", trained, "--format", "json")[1])
    assert "scaled_by" not in row


def test_predict_csv_into_a_file(trained, scans, vnt, tmp_path):
    vnt("predict", scans / "stick", "--model", trained, "--format", "csv", "-o", tmp_path / "out.csv", "--top", 1)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert list(rows[0]) == ["file", "class_1", "probability_1"]
    assert len(rows) == 30


def test_a_bad_file_does_not_stop_the_others(trained, scans, vnt, tmp_path):
    (tmp_path / "bad.ply").write_text("nonsense")
    files = (tmp_path / "bad.ply", tmp_path / "missing.ply", scans / "ball" / "0.xyz")
    code, out, err = vnt("predict", *files, "--model", trained, "--format", "json")
    assert code == 1  # so that a script can tell
    assert err.startswith(f"vnt: 2 without an answer: {files[0]}: ")
    bad, missing, good = json.loads(out)
    assert "bad.ply" in bad["error"]
    assert "missing.ply: no such file" in missing["error"]
    assert good["class_1"] == "ball"
    assert vnt("predict", *files, "--model", trained)[1].split("\n")[0].split()[-1] == "error"  # the last column
    code, _, err = vnt("predict", tmp_path / "bad.ply", "--model", trained)
    assert code == 2
    assert err.startswith("vnt: ")


def test_attributes_of_a_folder_of_clouds(vnt, tmp_path):
    """Balls that differ in their heat alone; what was not asked for, here the noise, is not an input."""
    rng = np.random.default_rng(0)
    for kind, heat in (("cold", -1), ("hot", 1)):
        (tmp_path / "scans" / kind).mkdir(parents=True)
        for number in range(30):
            columns = np.c_[rng.normal(size=(40, 4)), np.full(40, heat)]
            np.savetxt(tmp_path / "scans" / kind / f"{number}.xyz", columns, header="x y z noise heat")
    words = ["train", "shapes", "--dataset", "scans", "--out", "run", *SMALL, "--batch-size", "4", "--epochs", "5"]
    assert "the data have 1 attributes, the model is for 0" in vnt(*words, "--attributes", "heat")[2]
    words += ["--model.num-attributes", "1", "--model.fusion", "late", "--learning-rate", "0.01", "--ema", "0.9"]
    assert "0.xyz has attributes ['noise', 'heat'], and not warmth" in vnt(*words, "--attributes", "warmth")[2]
    assert vnt(*words, "--attributes", "heat")[0] == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["attribute_names"] == ["heat"]
    rows = json.loads(vnt("predict", "scans", "--model", "run", "--format", "json")[1])
    assert all(row["class_1"] == row["file"].split("/")[1] for row in rows)


def test_attributes_that_a_set_does_not_have_are_refused(vnt):
    code, _, err = vnt("train", "shapes", "--attributes", "heat", *SMALL)
    assert code == 2
    assert "the clouds of shapes come with attributes (), and not ('heat',)" in err


def test_an_attribute_is_named_once(vnt):
    code, _, err = vnt("train", "motion", "--attributes", "heading", "heading", *SMALL)
    assert code == 2
    assert "attributes must differ" in err


def test_what_cannot_slide_is_refused_before_a_run_begins(vnt, tmp_path):
    rows = [f"car {n},{t / 10},{n * t / 10},0,{n}" for n in range(1, 31) for t in range(60)]
    (tmp_path / "tracks.csv").write_text("track_id,t,x,y,length\n" + "\n".join(rows))
    assert vnt("data", "convert", "tracks.csv", "-o", "w.safetensors", "--future", 10, "--test-fraction", 0)[0] == 0
    from dataclasses import replace

    from vnt.data.motion_set import load, save

    windows = load("w.safetensors")
    save(replace(windows, scenario=windows.track, is_test=windows.track == "car 1"), "w.safetensors")
    words = ["train", "motion", "--dataset", "w.safetensors", "--attributes", "length", "--slide", "3", "--out", "run"]
    assert "windows with length cannot slide" in vnt(*words, *SMALL)[2]
    assert not (tmp_path / "run").exists()


def test_predict_tracks(forecaster, vnt, tmp_path):
    lines = [f"car {n},{t / 10},{100 + 5 * n * t / 10},{t / 10},7" for n in range(3) for t in range(15)]
    (tmp_path / "tracks.csv").write_text("track_id,t,x,y,z\n" + "\n".join(lines))
    code, out, _ = vnt("predict", tmp_path / "tracks.csv", "--model", forecaster, "--format", "json")
    assert code == 0
    rows = json.loads(out)
    assert len(rows) == 3 * 30
    assert {row["track"] for row in rows} == {"car 0", "car 1", "car 2"}
    assert abs(rows[0]["x"] - 100) < 20  # in the table's own coordinates
    assert rows[-1]["seconds"] == 3.0


def test_tracks_without_a_forecast_are_told(forecaster, vnt, tmp_path):
    lines = ["track_id,t,x,y,z", *(f"a,{i / 10},{i},0,0" for i in range(12)), "b,1.1,5,5,0"]
    (tmp_path / "tracks.csv").write_text("\n".join(lines) + "\n")
    code, out, err = vnt("predict", tmp_path / "tracks.csv", "--model", forecaster, "--format", "csv")
    assert code == 0
    assert "no forecast of 1 not seen twice among their last steps: b" in err
    assert {row["track"] for row in csv.DictReader(io.StringIO(out))} == {"a"}


@pytest.mark.parametrize(("name", "start"), [("a.csv", "file,class_1"), ("a.json", "["), ("a.txt", "file ")])
def test_the_suffix_of_the_results_is_their_format(trained, scans, vnt, tmp_path, name, start):
    path = next(iter(sorted((scans / "ball").iterdir())))
    assert vnt("predict", path, "--model", trained, "-o", tmp_path / name)[0] == 0
    assert (tmp_path / name).read_text().startswith(start)


def test_a_forecaster_that_does_not_say_its_step_is_told(vnt, tmp_path):
    model = VNTransformerForecaster(ForecasterConfig(num_future=5, channels=8, num_heads=2, depth=1))
    save_pretrained(model, tmp_path / "model")
    (tmp_path / "tracks.csv").write_text("t,x,y,z\n" + "".join(f"{i / 10},{i},0,0\n" for i in range(12)))
    code, _, err = vnt("predict", tmp_path / "tracks.csv", "--model", tmp_path / "model")
    assert code == 2
    assert "does not say how many seconds its steps are apart" in err


def test_a_bad_table_does_not_stop_the_others(forecaster, vnt, tmp_path):
    header, rows = "track_id,t,x,y\n", [f"a,{t / 10},{t},0" for t in range(15)]
    (tmp_path / "good.csv").write_text(header + "\n".join(rows))
    (tmp_path / "bad.csv").write_text(header + "a,0,nan,0\n")
    (tmp_path / "milliseconds.csv").write_text(header + "\n".join(f"a,{100 * t},{t},0" for t in range(15)))
    files = ("bad.csv", "good.csv", "milliseconds.csv", "missing.csv", "good.csv")
    code, out, err = vnt("predict", *files, "--model", forecaster, "--format", "json")
    assert code == 1
    assert "3 without an answer: " in err
    missing, bad, *good, late = json.loads(out)
    assert "bad.csv: line 2: column 'x' is not a finite number" in bad["error"]
    assert len(good) == 30  # though it is named twice
    assert "Times must be in seconds" in late["error"]
    assert "missing.csv: no such file" in missing["error"]


def test_tables_of_results_are_not_cut_where_nobody_looks(trained, vnt, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / ("a long name " * 12).strip()
    folder.mkdir()
    (folder / "a.xyz").write_text("0 0 0\n1 0 0\n0 1 0\n0 0 1\n")
    assert str(folder / "a.xyz") in vnt("predict", folder, "--model", trained)[1]


def test_a_bundled_name_is_the_bundled_model_whatever_folders_there_are(vnt, tmp_path):
    (tmp_path / "shapes").mkdir()
    assert vnt("evaluate", "shapes", "--split", "val", "--rotations", "I", "--num-points", 16)[0] == 0
    assert list((tmp_path / "shapes").iterdir()) == []


def test_a_table_of_tracks_is_no_cloud(vnt, tmp_path):
    (tmp_path / "tracks.csv").write_text("track_id,t,x,y,z\n" + "".join(f"1,{n},{n},0,{n}\n" for n in range(9)))
    code, _, err = vnt("predict", "tracks.csv", "--model", "shapes")
    assert code == 2
    assert "a table of tracks, and the model is for clouds" in " ".join(err.split())


def test_nor_by_another_suffix_or_with_blanks(vnt, tmp_path):
    rows = [f"car7 {n} {n} 0 {n} " for n in range(9)]
    (tmp_path / "tracks.txt").write_text("\n".join(["track_id t x y z", *rows]) + "\n")
    code, _, err = vnt("predict", "tracks.txt", "--model", "shapes")
    assert code == 2
    assert "a table of tracks, and the model is for clouds" in " ".join(err.split())
    assert "tracks" in vnt("data", "info", "tracks.txt")[1]


@pytest.mark.parametrize("name", ["motion_linear", "motion_constant_velocity"])
def test_models_without_weights_predict_and_are_audited(name, vnt, tmp_path):
    assert vnt("train", name, "--out", "run", "--no-test")[0] == 0
    steps = [f"a,{0.1 * n:.1f},{n},0" for n in range(12)]
    (tmp_path / "tracks.csv").write_text("\n".join(["track_id,t,x,y", *steps]) + "\n")
    code, out, _ = vnt("predict", "tracks.csv", "--model", "run", "--format", "json")
    assert code == 0
    first = json.loads(out)[0]
    assert 11.5 < first["x"] < 12.5
    assert (first["t"], first["seconds"]) == (1.2, 0.1)
    code, out, _ = vnt("audit", "run", "--no-sweep", "--count", 2, "--samples", 4)
    assert code == 0
    assert "exact" in out


def test_a_recording_at_another_rate_is_refused(vnt, tmp_path):
    """Ten metres a second, ten times a second; the model's steps are 0.2 s apart."""
    vnt("train", "motion_constant_velocity", "--out", "run", "--no-test")
    about = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps(about | {"dt": 0.2}))
    poses = [f"1 0 0 {n} 0 1 0 0 0 0 1 0" for n in range(12)]
    (tmp_path / "00.txt").write_text("\n".join(poses) + "\n")
    code, _, err = vnt("predict", "00.txt", "--model", "run")
    assert code == 2
    assert "steps are 0.1 s apart and the model's 0.2 s" in " ".join(err.split())


def test_velocities_and_headings_are_vectors_in_training_and_in_prediction(vnt, tmp_path):
    """The same columns reach the model in the same way from a set and from a user's table."""
    rows = [
        f"car {n},{t / 10},{3 * n * t / 10},{t / 10},{3 * n},1,{math.atan2(1, 3 * n)}"
        for n in range(1, 9)
        for t in range(60)
    ]
    (tmp_path / "tracks.csv").write_text("track_id,t,x,y,velocity_x,velocity_y,heading\n" + "\n".join(rows))
    assert vnt("data", "convert", "tracks.csv", "-o", "kitti.safetensors", "--future", 10, "--test-fraction", 0)[0] == 0
    from dataclasses import replace

    from vnt.data.motion_set import load, save

    windows = load("kitti.safetensors")
    save(replace(windows, scenario=windows.track, is_test=windows.track == "car 1"), "kitti.safetensors")
    words = [
        "train",
        "motion",
        "--dataset",
        "kitti",
        "--attributes",
        "velocity_x",
        "velocity_y",
        "heading",
        "--slide",
        "3",
        "--out",
        "run",
        *SMALL,
    ]
    assert vnt(*words, "--data", ".", "--batch-size", 4)[0] == 0
    about = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (about["model"]["num_vectors"], about["model"]["num_attributes"]) == (2, 0)
    code, out, _ = vnt("predict", "tracks.csv", "--model", "run", "--format", "json")
    assert code == 0
    assert len(json.loads(out)) == 8 * 10


def test_runs_lists_and_compares(trained, forecaster, vnt):
    _, out, _ = vnt("runs", trained.parent)
    assert "mine" in out
    assert "15/15" in out
    lines = json.loads(vnt("runs", trained.parent, "--json")[1])
    assert lines[0]["state"] == "finished"
    different = json.loads(vnt("runs", trained, forecaster, "--json")[1])
    assert different["batch_size"] == [4, 256]
    assert "seed" not in different
    assert vnt("runs", trained, trained)[1] == "no setting differs\n"


def test_a_log_is_not_silent_between_looks_at_the_validation_split(vnt, tmp_path, monkeypatch):
    """Where output is a file there is no bar."""
    words = ["train", "motion", *SMALL, "--batch-size", "16", "--no-test"]
    quiet = vnt(*words, "--out", str(tmp_path / "quiet"))
    monkeypatch.setattr("vnt.cli.training.LOG_SECONDS", 0.0)
    spoken = vnt(*words, "--out", str(tmp_path / "spoken"))
    steps = [[line for line in "".join(said[1:]).splitlines() if " step " in line] for said in (quiet, spoken)]
    assert steps[0] == []
    assert re.fullmatch(r"epoch    1  loss \d+\.\d{4}  step 1 of [\d,]+", steps[1][0])
    assert re.fullmatch(r"epoch    1  loss \d+\.\d{4}  step [\d,]+ of [\d,]+, \d+:\d\d:\d\d left", steps[1][-1])


def test_a_log_says_how_long_a_slow_run_will_take(capsys, monkeypatch):
    """Two steps in a hundred seconds, of ten; resumed after the fourth."""
    now = [0.0]
    monkeypatch.setattr("vnt.cli.training.time.monotonic", lambda: now[0])
    with watching(Console(file=sys.stdout, width=200)) as watch:
        for step, now[0] in ((4, 0.0), (6, 100.0), (8, 130.0)):
            watch(Moment(step, 10, 0, 1.5))
    assert capsys.readouterr().out.strip() == "epoch    1  loss 1.5000  step 6 of 10, 0:03:20 left"


def test_resume_after_an_interruption(vnt, tmp_path):
    """A run that was stopped by Ctrl-C says how to go on, and goes on."""
    words = ["train", "motion", "--out", "run", *SMALL, "--epochs", "12", "--batch-size", "256", "--no-test"]
    child = subprocess.Popen([sys.executable, "-m", "vnt", *words], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run" / "metrics.jsonl").exists() or not (tmp_path / "run" / "metrics.jsonl").read_text():
        assert child.poll() is None
    child.send_signal(2)
    err = child.communicate(timeout=100)[1]
    assert child.returncode == 1
    assert "vnt train --resume run" in " ".join(err.split())
    assert vnt("train", "--resume", "run", "--no-test")[0] == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["finished"]
    code, _, err = vnt("train", "--resume", "run")
    assert code == 2
    assert "has finished" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "shapez"], "no recipe 'shapez'; did you mean 'shapes'?"),
        (["train", "modelnet40", "--device", "cpu", "--data", "."], "ModelNet40 is not in"),
        (["train", "shapes", "--dataset", "nothing"], "no data set 'nothing', and no such folder of clouds"),
        (["train", "shapes", "--epochs", "0"], "epochs must be at least 1"),
        (["train", "motion", "--out", "/proc/run"], "[Errno"),
        (["train", "motion", "--device", "mps"], "device must be 'auto', 'cpu'"),
        (["demo", "--effort", "inf"], "effort must be positive"),
        (["train", "--resume", "nowhere"], "nowhere: there is no run to resume"),
        (["evaluate", "nowhere"], "nowhere/config.json: no such file"),
        (["predict", "x.ply", "--model", "nowhere"], "nowhere/config.json: no such file"),
        (["runs", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_what_goes_wrong_is_one_line_and_code_2(vnt, words, message):
    code, _, err = vnt(*words)
    assert code == 2
    last = err.strip().splitlines()[-1]
    assert last.startswith(f"vnt: {message}")
    assert "Traceback" not in err


def test_a_wrong_value_of_the_model_is_told_with_code_2(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", "shapes", "--model.num-heads", "5"])
    assert end.value.code == 2
    assert "num_heads must divide channels, got 5 heads for 32 channels" in capsys.readouterr().err


def test_a_config_of_a_newer_version(trained, vnt, tmp_path):
    about = json.loads((trained / "config.json").read_text())
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.json").write_text(json.dumps(about | {"format": 9}))
    code, _, err = vnt("evaluate", tmp_path / "new")
    assert code == 2
    assert "written by a newer vnt" in err


def test_tensorboard_files(vnt, tmp_path):
    words = ["train", "motion", "--out", "run", *SMALL, "--batch-size", "512", "--no-test", "--tensorboard"]
    assert vnt(*words)[0] == 0
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert b"val/ade" in events.read_bytes()
