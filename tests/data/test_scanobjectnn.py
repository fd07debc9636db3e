import h5py
import numpy as np
import pytest
import torch

from data.fuzzing import assert_survives
from data.sets_on_disk import clouds
from vnt.data.scanobjectnn import FILES, load_scanobjectnn


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))
    for number, pattern in enumerate(FILES.values()):
        for side in ("training", "test"):
            path = tmp_path / "h5_files" / pattern.format(side=side)
            path.parent.mkdir(parents=True, exist_ok=True)
            with h5py.File(path, "w") as file:
                file["data"] = clouds(30, 16, seed=number)
                file["label"] = np.arange(30) % 15
    return tmp_path


@pytest.mark.parametrize(("number", "variant"), list(enumerate(FILES)))
def test_variants(folder, number, variant):
    test = load_scanobjectnn("test", variant=variant, folder=folder)
    assert torch.equal(test.points, torch.from_numpy(clouds(30, 16, seed=number)))
    assert test.name == f"scanobjectnn_{variant}"
    assert len(test.class_names) == 15
    assert len(load_scanobjectnn("train", variant=variant, folder=folder)) == 15


def test_messages(folder, tmp_path_factory):
    with pytest.raises(ValueError, match="variant must be one of obj_only, obj_bg, pb_t50_rs, got 'hard'"):
        load_scanobjectnn("test", variant="hard", folder=folder)
    with pytest.raises(FileNotFoundError, match=r"ScanObjectNN is not in .*on request"):
        load_scanobjectnn("test", folder=tmp_path_factory.mktemp("empty"))
    path = folder / "h5_files" / FILES["obj_bg"].format(side="test")
    with h5py.File(path, "w") as file:
        file["data"], file["label"] = np.full((3, 4, 3), np.nan), np.zeros(3)
    with pytest.raises(ValueError, match=r"test_objectdataset.h5: coordinates must be finite"):
        load_scanobjectnn("test", variant="obj_bg", folder=folder)


def test_damaged_files(folder):
    sample = folder / "small.h5"
    with h5py.File(sample, "w") as file:
        file["data"], file["label"] = clouds(3, 4), np.arange(3)
    assert_survives("sets_on_disk:read_scanobjectnn", [sample])


def test_the_set_s_own_folder_may_be_named(folder):
    expected = load_scanobjectnn("test", folder=folder).points
    assert torch.equal(load_scanobjectnn("test", folder=folder / "h5_files").points, expected)
    renamed = (folder / "h5_files").rename(folder / "scans")
    assert torch.equal(load_scanobjectnn("test", folder=renamed).points, expected)
    (folder / "ScanObjectNN").mkdir()
    renamed.rename(folder / "ScanObjectNN" / "h5_files")
    for place in (folder, folder / "ScanObjectNN", folder / "ScanObjectNN" / "h5_files"):
        assert torch.equal(load_scanobjectnn("test", folder=place).points, expected)


def test_a_missing_variant_says_where_to_get_it(folder):
    (folder / "h5_files" / FILES["pb_t50_rs"].format(side="test")).unlink()
    with pytest.raises(
        FileNotFoundError, match=r"scale75\.h5: no such file, which the variant 'pb_t50_rs'.*on request"
    ):
        load_scanobjectnn("test", folder=folder)
    assert len(load_scanobjectnn("test", variant="obj_bg", folder=folder)) == 30
