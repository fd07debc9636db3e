"""A user's own folders and files: what is taken of them, and what is told where they do not fit."""

from dataclasses import replace

import numpy as np

from vnt.data.motion_set import save_parts
from vnt.data.sets import load_set
from vnt.training.config import TrainConfig
from vnt.training.task import load_split

SMALL = ("--model.channels", 8, "--model.num-heads", 2, "--model.depth", 1, "--epochs", 1)


def write_scans(root, count, size, *, normals=False):
    """Two classes of noise."""
    random = np.random.default_rng(0)
    for kind in ("ball", "stick"):
        (root / kind).mkdir(parents=True)
        for number in range(count):
            columns = random.normal(size=(size, 6 if normals else 3))
            columns[:, 3:] /= np.linalg.norm(columns[:, 3:], axis=1, keepdims=True)
            np.save(root / kind / f"{number}.npy", columns)
    return root


def test_classes_that_are_no_longer_those_of_training_are_refused(vnt, tmp_path):
    scans = write_scans(tmp_path / "scans", 20, 30)
    code, _, err = vnt("train", "shapes", "--dataset", "scans", "--out", "run", "--num-points", 16, *SMALL)
    assert code == 0
    assert "ball 20, stick 20;" in err
    (scans / "ball").rename(scans / "zball")
    code, _, err = vnt("evaluate", "run")
    assert code == 2
    assert "trained to tell ball, stick; the classes" in " ".join(err.split())


def test_more_points_than_a_thousand_are_not_copies(tmp_path):
    config = TrainConfig(dataset=str(write_scans(tmp_path / "scans", 10, 1300)), num_points=1200)
    assert load_split(config, "train").points.shape[1] == 1200
    assert load_split(replace(config, num_points=100), "train").points.shape[1] == 1024


def test_normals_may_be_left_out(vnt, tmp_path):
    write_scans(tmp_path / "scans", 20, 30, normals=True)
    words = ("train", "shapes", "--dataset", "scans", "--start", "shapes", "--epochs", 1, "--num-points", 16)
    code, _, err = vnt(*words, "--out", "with")
    assert code == 2
    assert "num_vectors = 0, not 1. Without normals: --no-normals" in " ".join(err.split())
    assert vnt(*words, "--out", "without", "--no-normals")[0] == 0


def test_a_set_without_tests_is_trained_on_and_found_from_anywhere(vnt, tmp_path, monkeypatch):
    windows = load_set("motion", "test").take(np.arange(60))
    save_parts([replace(windows, is_test=np.zeros(60, bool))], tmp_path / "own.safetensors", name="own")
    code, _, err = vnt("train", "motion", "--dataset", "own.safetensors", "--out", "run", *SMALL)
    assert code == 0
    assert "not tested: the test split is empty" in err
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert vnt("evaluate", "../run", "--split", "val")[0] == 0
