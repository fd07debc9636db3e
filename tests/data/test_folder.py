"""Folders of clouds: what is taken of each file."""

import numpy as np
import pytest

from vnt.data.folder import load_folder


@pytest.fixture
def scans(tmp_path, monkeypatch):
    """Balls and sticks with two attributes, of which the first is the number of the file."""
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for kind in ("ball", "stick"):
        (tmp_path / "scans" / kind).mkdir(parents=True)
        for number in range(20):
            columns = np.c_[random.normal(size=(30, 3)), np.full(30, number), random.normal(size=30)]
            np.savetxt(tmp_path / "scans" / kind / f"{number}.xyz", columns, header="x y z number heat")
    return tmp_path / "scans"


def test_attributes_are_those_that_are_named_in_that_order(scans):
    none = load_folder(scans)
    assert none.attributes is None
    one, both = load_folder(scans, attributes=["number"]), load_folder(scans, attributes=["heat", "number"])
    assert one.attribute_names == ("number",)
    assert one.attributes.shape == (len(none), 30, 1)
    assert both.attribute_names == ("heat", "number")
    assert both.attributes[..., 1:].equal(one.attributes)
    assert (one.attributes[:, 0] == one.attributes[:, -1]).all()
    assert load_folder(scans, attributes=["number"]).attributes.equal(one.attributes)  # as it was kept


def test_a_file_that_lacks_one_is_named(scans):
    np.savetxt(scans / "stick" / "7.xyz", np.random.default_rng(0).normal(size=(30, 4)), header="x y z heat")
    load_folder(scans, attributes=["heat"])
    with pytest.raises(ValueError, match=r"stick/7\.xyz has attributes \['heat'\], and not number"):
        load_folder(scans, attributes=["heat", "number"])


def write(root, *names):
    """A cloud of its own in each file."""
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(root / name, np.random.default_rng(number).normal(size=(5, 3)))
    return root


def classes(clouds):
    return sorted(clouds.class_names[label] for label in clouds.labels.tolist())


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "own"


@pytest.mark.parametrize("layout", ["{side}/{name}/{n}.xyz", "{name}/{side}/{n}.xyz"])
@pytest.mark.parametrize("val", ["val", "validation", None])
def test_folders_say_what_a_cloud_is_for(root, layout, val):
    counts = {"train": 12, "test": 3} | ({val: 2} if val else {})
    for side, count in counts.items():
        write(root, *(layout.format(side=side, name=name, n=n) for name in "ab" for n in range(count)))
    assert classes(load_folder(root, "test")) == ["a"] * 3 + ["b"] * 3
    assert classes(load_folder(root, "val")) == (["a"] * 2 + ["b"] * 2 if val else ["a", "b"])
    assert len(load_folder(root, "train")) == (24 if val else 22)
    assert len(load_folder(root, "train+val")) == (28 if val else 24)


@pytest.mark.parametrize("sides", [("Train", "Test"), ("training", "testing")])
@pytest.mark.parametrize("layout", ["{side}/{name}/{n}.xyz", "{name}/{side}/{n}.xyz"])
def test_folders_may_be_called_otherwise(root, layout, sides):
    write(root, *(layout.format(side=side, name=name, n=n) for side in sides for name in "ab" for n in range(12)))
    assert load_folder(root).class_names == ("a", "b")
    assert len(load_folder(root, "test")) == 24


def test_what_programs_leave_behind_is_no_class(root):
    write(root, *(f"{name}/{n}.xyz" for name in ("a", "b", ".ipynb_checkpoints", "__MACOSX") for n in range(12)))
    write(root, *(f"a/.thumbnails/{n}.xyz" for n in range(12)))
    assert load_folder(root).class_names == ("a", "b")
    assert len(load_folder(root, "train+val")) + len(load_folder(root, "test")) == 24


def test_a_class_may_be_called_train(root):
    write(root, *(f"{name}/{n}.xyz" for name in ("bus", "train") for n in range(12)))
    (root / "bus" / ".DS_Store").write_text("?")
    (root / "later").mkdir()
    (root / "later" / ".gitkeep").write_text("")
    write(root, "bus/__odd.xyz")
    assert load_folder(root).class_names == ("bus", "train")
    assert len(load_folder(root, "train+val")) + len(load_folder(root, "test")) == 25


def test_classes_may_be_called_training_and_testing(root):
    write(root, *(f"{name}/{n}.xyz" for name in ("Training", "Testing", "chair") for n in range(12)))
    assert load_folder(root).class_names == ("Testing", "Training", "chair")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["train/a/1.xyz", "train/b/1.xyz", "test/a/1.xyz", "val/1.xyz"], "1.xyz: it is in no folder of a class"),
        (["train/a/1.xyz", "train/b/1.xyz", "val/a/1.xyz"], "clouds for train and val, and none for test"),
        (["train/a/1.xyz", "train/b/1.xyz", "test/a/1.xyz", "c/1.xyz"], "clouds in c are neither in train nor in test"),
        (["a/train/1.xyz", "a/test/1.xyz", "b/1.xyz"], "1.xyz: other clouds are in folders train and test"),
        (["a/1.xyz", "b/1.xyz", "c/1.e57"], "1.e57: no cloud in this class is of a known format"),
        (["a/1.xyz", "a/2.xyz"], "one for each of two classes at least, found only 'a'"),
    ],
)
def test_what_would_be_left_out_is_told(root, files, message):
    with pytest.raises(ValueError, match=message):
        load_folder(write(root, *files))


def test_tables_of_tracks_are_converted_first(root):
    root.mkdir()
    (root / "day0.csv").write_text("track_id,t,x,y\na,0,0,0\na,1,0,0\n")
    with pytest.raises(ValueError, match="found none; tables of tracks become a file to train on by vnt data convert"):
        load_folder(root)


def test_a_link_that_moves_to_another_class_takes_its_label_along(root):
    store = write(root.parent / "store", *(f"{n}.xyz" for n in range(20)))
    for n in range(20):
        (root / "ab"[n % 2]).mkdir(parents=True, exist_ok=True)
        (root / "ab"[n % 2] / f"{n}.xyz").symlink_to(store / f"{n}.xyz")
    before = classes(load_folder(root, "train+val")) + classes(load_folder(root, "test"))
    (root / "a" / "0.xyz").rename(root / "b" / "0.xyz")
    after = classes(load_folder(root, "train+val")) + classes(load_folder(root, "test"))
    assert (before.count("b"), after.count("b")) == (10, 11)
