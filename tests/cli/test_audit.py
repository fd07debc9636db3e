"""Audit runs, as a user types it."""

import json
import re

import numpy as np
import pytest

from vnt.cli.main import main

SMALL = ["--model.channels", "8", "--model.num-heads", "2", "--model.depth", "1"]
QUICK = ["--count", "2", "--num-points", "32", "--samples", "4", "--no-sweep"]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def scans(runs):
    """A user's own folder: clouds of different sizes, so that there are masks."""
    rng = np.random.default_rng(0)
    for kind, stretch in (("ball", (1, 1, 1)), ("stick", (5, 0.3, 0.3))):
        (runs / "scans" / kind).mkdir(parents=True)
        for number in range(20):
            points = rng.normal(size=(int(rng.integers(20, 60)), 3)) * stretch
            np.savetxt(runs / "scans" / kind / f"{number}.xyz", points)
    return runs / "scans"


def _train(folder, *words):
    assert main(["train", *words, "--out", str(folder), *SMALL, "--no-test"]) == 0
    return folder


def _train_on(scans, name, recipe, *words):
    clouds = ["--dataset", str(scans), "--batch-size", "8", "--num-points", "16"]
    return _train(scans.parent / name, recipe, *clouds, *words)


@pytest.fixture(scope="module")
def exact(scans):
    """Trained until its logits differ: the violation is relative to them, and theirs at first are next to nothing."""
    return _train_on(scans, "exact", "shapes", "--epochs", "15", "--learning-rate", "0.01", "--ema", "0.9")


@pytest.fixture(scope="module")
def biased(scans):
    return _train_on(scans, "biased", "shapes", "--epochs", "1", "--model.bias-epsilon", "1e-6")


@pytest.fixture(scope="module")
def plain(scans):
    return _train_on(scans, "plain", "shapes_transformer", "--epochs", "1")


@pytest.fixture(scope="module")
def forecaster(runs):
    words = ["motion", "--epochs", "1", "--batch-size", "512", "--attributes", "speed", "heading"]
    return _train(runs / "tracks", *words, "--model.num-attributes", "1", "--model.fusion", "late")


def test_an_exact_model_in_words(exact, vnt):
    code, out, err = vnt("audit", exact, *QUICK)
    assert code == 0
    assert "2 clouds of" in out
    assert re.search(r"float64 .* exact\n", out)
    assert re.search(r"float32 .* rounding\n", out)
    assert "input 2×32×3 2×32" in out  # points and their mask
    assert "Traceback" not in err


def test_json_has_numbers_and_a_verdict(biased, vnt):
    code, out, _ = vnt("audit", biased, *QUICK, "--json")
    assert code == 0
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert found["violations"]["float64"]["verdict"] == "ε-bias"
    assert 1e-8 < found["violations"]["float64"]["worst"] < 1e-2
    assert found["certified"][0] >= found["violations"]["float64"]["worst"]
    assert found["broken"] is False
    assert found["inputs"].startswith("2 clouds of")
    assert found["checkpoint"] == str(biased)
    again = json.loads(vnt("audit", biased, *QUICK, "--json")[1])
    assert again["violations"] == found["violations"]  # the same seed, the same clouds
    other = json.loads(vnt("audit", biased, *QUICK, "--json", "--seed", 1, "--certified", 0)[1])
    assert other["violations"] != found["violations"]
    assert other["certified"] is None


def test_files_are_written_whole_and_need_no_network(biased, vnt, tmp_path):
    words = ["--count", 2, "--num-points", 32, "--samples", 4]
    code, out, err = vnt("audit", biased, *words, "--output", "deep/report")
    assert code == 0
    assert "what other ε would cost" in out
    assert "deep/report/report.html" in err
    folder = tmp_path / "deep" / "report"
    names = {"report.html", "audit.json", "rotations.png", "depth.png", "sweep.png"}
    assert {path.name for path in folder.iterdir()} == names
    for name in ("rotations", "depth", "sweep"):
        assert (folder / f"{name}.png").read_bytes().startswith(PNG)
    assert len(json.loads((folder / "audit.json").read_text())["sweep"]) == 8
    page = (folder / "report.html").read_text()
    for word in ("ε-bias", "First-order law", "Certificate", "2ε√C′", "2 clouds of", "What the verdicts mean"):
        assert word in page
    assert "http" not in page
    assert "<script" not in page
    assert page.count("data:image/png;base64,") == 3
    assert vnt("audit", biased, *QUICK, "-o", "deep/report", "--certified", 0)[0] == 0
    assert {path.name for path in folder.iterdir()} == names - {"sweep.png"}  # no picture of an earlier audit


def test_forecasts_with_attributes(forecaster, vnt):
    found = json.loads(vnt("audit", forecaster, *QUICK, "--json")[1])
    assert found["shapes"] == [[2, 11, 3], [2, 11, 1], [2, 11, 1, 3]]
    assert found["violations"]["float64"]["verdict"] == "exact"
    assert found["inputs"] == "2 tracks of motion, val split, seed 0"
    found = json.loads(vnt("audit", forecaster, *QUICK, "--json", "--random")[1])
    assert found["shapes"] == [[2, 11, 3], [2, 11, 1], [2, 11, 1, 3]]
    assert "random-walk" in found["inputs"]


def test_random_clouds(exact, vnt):
    code, out, err = vnt("audit", exact, *QUICK, "--random")
    assert code == 0
    assert "2 Gaussian clouds, seed 0" in out
    assert "note" not in err  # it was asked for


def test_a_model_without_its_data_is_audited_on_random_clouds_and_says_so(exact, vnt, tmp_path):
    about = json.loads((exact / "config.json").read_text())
    del about["training"]
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text(json.dumps(about))
    (tmp_path / "bare" / "model.safetensors").write_bytes((exact / "model.safetensors").read_bytes())
    code, out, err = vnt("audit", tmp_path / "bare" / "model.safetensors", *QUICK)
    assert code == 0
    assert "says nothing of its training data: auditing on random inputs" in " ".join(err.split())
    assert "Gaussian clouds" in out


def test_a_plain_transformer_is_broken_and_strict_says_so(plain, exact, capsys, vnt):
    with pytest.raises(SystemExit) as end:
        main(["audit", str(plain), *QUICK, "--sweep", "--strict"])
    assert end.value.code == 1
    out, err = capsys.readouterr()
    assert re.search(r"float64 .* broken\n", out)
    assert "encoder.embed (Linear)" in out
    assert "no sweep over ε" in err
    assert vnt("audit", plain, *QUICK)[0] == 0
    assert vnt("audit", exact, *QUICK, "--strict")[0] == 0


@pytest.mark.parametrize(("group", "name"), [("SO2", "SO(2)"), ("O3", "O(3)"), ("permutations", "permutations")])
def test_other_groups(exact, vnt, group, name, tmp_path):
    code, out, _ = vnt("audit", exact, *QUICK, "--group", group, "-o", tmp_path / "out")
    assert code == 0
    assert f"relative violation under {name}" in out
    assert (tmp_path / "out" / "rotations.png").exists() == (group != "permutations")


def test_a_missing_folder_is_one_line_and_code_2(vnt):
    code, out, err = vnt("audit", "nowhere")
    assert code == 2
    assert not out
    assert err.startswith("vnt: nowhere/config.json: no such file")
    assert len(err.strip().splitlines()) == 1


def test_what_can_be_done_about_it_is_said(exact, vnt, tmp_path):
    about = json.loads((exact / "config.json").read_text())
    about["training"]["dataset"] = "modelnet40"
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "config.json").write_text(json.dumps(about))
    (tmp_path / "far" / "model.safetensors").write_bytes((exact / "model.safetensors").read_bytes())
    code, _, err = vnt("audit", tmp_path / "far", "--data", tmp_path)
    assert code == 2
    assert "--random" in err
    (tmp_path / "file").write_text("")
    code, _, err = vnt("audit", exact, *QUICK, "-o", tmp_path / "file")
    assert code == 2
    assert err.startswith("vnt: ")


def test_a_count_of_nothing_is_refused(exact, capsys):
    with pytest.raises(SystemExit) as end:
        main(["audit", str(exact), "--count", "0"])
    assert end.value.code == 2
    assert "count must be at least 1, got 0" in capsys.readouterr().err
