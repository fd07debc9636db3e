import os
import time

import h5py
import numpy as np
import pytest
import torch

from data.fuzzing import assert_survives
from data.sets_on_disk import CLASSES, clouds, write_hdf5, write_meshes, write_packed, write_text
from vnt.data.archives import read_hdf5
from vnt.data.modelnet import load_modelnet
from vnt.data.packed import read_packed


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))


def test_packed_points_are_those_that_were_packed(tmp_path):
    write_packed(tmp_path / "modelnet40_1024.npz")
    points, labels, ids, names = read_packed(tmp_path / "modelnet40_1024.npz", "test")
    expected = clouds(16, 32, seed=1)
    # A packed cloud has lost its order: compare as sets, within the grid's half step and the jitter.
    distance = np.linalg.norm(points[:, :, None] - expected[:, None], axis=-1)
    assert distance.min(1).max() < 1e-3
    assert distance.min(2).max() < 1e-3
    assert names == CLASSES
    assert labels.tolist() == sorted(labels.tolist())
    assert ids[0] == "airplane_0000"


def test_packed_form(tmp_path):
    write_packed(tmp_path / "modelnet40_1024.npz", per_class=10)
    train, val, both, test = (load_modelnet(s, folder=tmp_path) for s in ("train", "val", "train+val", "test"))
    assert (len(train), len(val), len(both), len(test)) == (36, 4, 40, 40)
    assert both.points.shape == (40, 32, 3)
    assert both.class_names == tuple(CLASSES)
    assert both.up == "y"
    assert val.labels.tolist() == [0, 1, 2, 3]
    assert both.vectors is None
    together = torch.cat([train.points, val.points]).sum((1, 2)).sort().values
    assert torch.equal(together, both.points.sum((1, 2)).sort().values)


def test_beginnings_of_packed_clouds_are_samples(tmp_path):
    """Packed points are sorted along a curve: the first half of them would be half of the object."""
    write_packed(tmp_path / "modelnet40_1024.npz", num_points=256)
    half = load_modelnet("train+val", folder=tmp_path, num_points=128).points
    whole = load_modelnet("train+val", folder=tmp_path).points
    assert half.shape[1] == 128
    assert float((half.mean(1) - whole.mean(1)).norm(dim=-1).mean()) < 0.15 * float(whole.std())


def test_hdf5_form(tmp_path):
    write_hdf5(tmp_path / "modelnet40_ply_hdf5_2048")
    seen = []
    test = load_modelnet("test", folder=tmp_path, num_points=20, progress=lambda *step: seen.append(step))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert torch.equal(test.points, torch.from_numpy(clouds(16, 32, seed=2)[:, :20]))
    assert torch.equal(test.vectors[:, :, 0], torch.from_numpy(clouds(16, 32, seed=11)[:, :20]))
    assert len(load_modelnet("train+val", folder=tmp_path, num_points=20)) == 32


def test_text_form(tmp_path):
    write_text(tmp_path / "modelnet40_normal_resampled")
    test = load_modelnet("test", folder=tmp_path, num_points=30)
    assert test.points.shape == (8, 30, 3)
    assert np.abs(test.points[2].numpy() - clouds(1, 40, seed=102)[0, :30]).max() < 1e-6
    assert torch.allclose(test.vectors.norm(dim=-1), torch.ones(8, 30, 1), atol=1e-4)


def test_text_names_may_have_underscores(tmp_path):
    write_text(tmp_path / "modelnet40_normal_resampled")
    assert load_modelnet("test", folder=tmp_path, num_points=30).labels.bincount().tolist() == [2, 2, 2, 2]


def test_mesh_form(tmp_path):
    write_meshes(tmp_path / "ModelNet40")
    test = load_modelnet("test", folder=tmp_path, num_points=100)
    assert test.points.shape == (8, 100, 3)
    assert torch.allclose(test.vectors.norm(dim=-1), torch.ones(8, 100, 1))
    # The meshes have sizes from 1 to 4 and a corner at the origin; the clouds are in the unit sphere, as the text form.
    assert torch.allclose(test.points.norm(dim=-1).amax(1), torch.ones(8))
    assert test.points.mean(1).abs().max() < 1e-6


def test_every_mesh_is_sampled_with_its_own_seed(tmp_path):
    """All meshes are tetrahedra: drawn with one seed, their clouds would be the same points."""
    write_meshes(tmp_path / "ModelNet40")
    points = load_modelnet("train+val", folder=tmp_path, num_points=50).points
    assert torch.cdist(points.flatten(1), points.flatten(1)).fill_diagonal_(9).min() > 0.5


def test_folders_beside_those_of_the_classes_are_no_classes(tmp_path):
    write_text(tmp_path / "modelnet40_normal_resampled")
    write_meshes(tmp_path / "meshes" / "ModelNet40")
    for folder in (tmp_path / "modelnet40_normal_resampled", tmp_path / "meshes" / "ModelNet40"):
        (folder / "aaa_backup").mkdir()
    for folder in (tmp_path, tmp_path / "meshes"):
        test = load_modelnet("test", folder=folder, num_points=30)
        assert test.class_names == tuple(CLASSES)
        assert test.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    (tmp_path / "modelnet40_normal_resampled" / "modelnet40_shape_names.txt").unlink()
    assert load_modelnet("test", folder=tmp_path, num_points=30).class_names == tuple(CLASSES)


def test_normals_that_some_files_lack_are_left_out(tmp_path):
    write_hdf5(tmp_path / "modelnet40_ply_hdf5_2048")
    with h5py.File(tmp_path / "modelnet40_ply_hdf5_2048" / "ply_data_train1.h5", "a") as file:
        del file["normal"]
    clouds = load_modelnet("train+val", folder=tmp_path, num_points=20)
    assert len(clouds) == 32
    assert clouds.vectors is None


def test_hdf5_files_of_different_length_are_cut_alike(tmp_path):
    folder = tmp_path / "modelnet40_ply_hdf5_2048"
    write_hdf5(folder)
    with h5py.File(folder / "ply_data_train1.h5", "w") as file:
        file["data"], file["label"] = clouds(4, 50), np.arange(4)
    assert load_modelnet("train+val", folder=tmp_path, num_points=20).points.shape == (20, 20, 3)


def test_hdf5_files_must_say_which_side_they_are_on(tmp_path):
    folder = tmp_path / "modelnet40_ply_hdf5_2048"
    write_hdf5(folder)
    for number, path in enumerate(sorted(folder.glob("*.h5"))):
        path.rename(folder / f"part{number}.h5")
    with pytest.raises(ValueError, match=r"part0\.h5: expected a file name with either 'train' or 'test'"):
        load_modelnet("test", folder=tmp_path, num_points=20)


def test_a_folder_without_shapes_is_named(tmp_path):
    (tmp_path / "ModelNet40" / "chair" / "other").mkdir(parents=True)
    (tmp_path / "ModelNet40" / "chair" / "other" / "a.off").write_text("OFF")
    with pytest.raises(ValueError, match=r"ModelNet40: no shape of ModelNet40 in it"):
        load_modelnet("test", folder=tmp_path)


def test_ten_classes(tmp_path):
    write_packed(tmp_path / "modelnet40_1024.npz", per_class=10)
    test = load_modelnet("test", num_classes=10, folder=tmp_path)
    assert len(test.class_names) == 10
    assert {test.class_names[label] for label in test.labels} == {"bathtub", "chair", "night_stand"}
    assert len(test) == 30
    with pytest.raises(ValueError, match="num_classes must be 10 or 40, got 20"):
        load_modelnet("test", num_classes=20, folder=tmp_path)


def test_second_start_reads_the_cache(tmp_path):
    path = tmp_path / "modelnet40_1024.npz"
    write_packed(path)
    first = load_modelnet("test", folder=tmp_path)
    changed = os.stat(path).st_mtime_ns
    path.write_bytes(b"x" * path.stat().st_size)  # unreadable now, but of the same size and time
    os.utime(path, ns=(changed, changed))
    assert torch.equal(load_modelnet("test", folder=tmp_path).points, first.points)


def test_a_changed_source_is_read_again(tmp_path):
    path = tmp_path / "modelnet40_1024.npz"
    write_packed(path)
    load_modelnet("test", folder=tmp_path)
    time.sleep(0.01)
    write_packed(path, per_class=3)
    assert len(load_modelnet("test", folder=tmp_path)) == 12
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_missing_data_says_where_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ModelNet40 is not in .*Hugging Face.*VNT_DATA or --data"):
        load_modelnet("test", folder=tmp_path)


def test_an_empty_folder_is_named(tmp_path):
    (tmp_path / "ModelNet40").mkdir()
    with pytest.raises(ValueError, match=r"ModelNet40: expected \.h5, \.txt or \.off"):
        load_modelnet("test", folder=tmp_path)


def test_damaged_packed_files(tmp_path):
    write_packed(tmp_path / "a.npz", per_class=1, num_points=4)
    assert_survives("sets_on_disk:read_packed_train", [tmp_path / "a.npz"])


def test_damaged_hdf5_files(tmp_path):
    write_hdf5(tmp_path / "h", per_class=1, num_points=4)
    assert_survives("sets_on_disk:read_modelnet_hdf5", [tmp_path / "h" / "ply_data_train0.h5"])


def test_damaged_hdf5_sets(tmp_path):
    """Beyond the arrays: labels without a name, clouds of another shape, coordinates that are not finite."""
    write_hdf5(tmp_path / "h", per_class=1, num_points=4)
    assert_survives("sets_on_disk:read_modelnet_folder", [tmp_path / "h" / "ply_data_train0.h5"])


def test_an_hdf5_bomb_is_refused(tmp_path):
    """Four gibibytes of zeros in a file of a few kilobytes."""
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("data", shape=(2**20, 1024), dtype="f4", compression="gzip", chunks=(1024, 1024))
        file["label"] = np.zeros(3)
    with pytest.raises(ValueError, match=r"bomb\.h5: data would take 4,294,967,296 bytes"):
        read_hdf5(tmp_path / "bomb.h5", ["data", "label"])


def test_the_real_set(real_data):
    folder = real_data("modelnet40_1024.npz")
    whole, test = load_modelnet("train+val", folder=folder), load_modelnet("test", folder=folder)
    assert (len(whole), len(test)) == (9843, 2468)
    assert whole.points.shape[1:] == (1024, 3)
    counts = dict(zip(whole.class_names, whole.labels.bincount().tolist(), strict=True))
    assert (counts["airplane"], counts["chair"], counts["bowl"]) == (626, 889, 64)
    assert test.labels.bincount().max() == 100
    train, val = load_modelnet("train", folder=folder), load_modelnet("val", folder=folder)
    assert len(train) + len(val) == 9843
    assert abs(len(val) - 984) < 20
    ten = load_modelnet("train+val", num_classes=10, folder=folder)
    assert (len(ten), len(load_modelnet("test", num_classes=10, folder=folder))) == (3991, 908)
    start = time.perf_counter()
    load_modelnet("train+val", folder=folder)
    assert time.perf_counter() - start < 5  # about 0.1 s; `make bench` has the figure
