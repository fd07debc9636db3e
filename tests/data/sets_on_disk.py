"""Writers of small data sets in the forms that the real ones have, and readers for the fuzzing child to call."""

from pathlib import Path

import numpy as np

CLASSES = ["airplane", "bathtub", "chair", "night_stand"]


def clouds(count: int, num_points: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(count, num_points, 3))
    return (x / np.abs(x).max((1, 2), keepdims=True)).astype(np.float32)


def pack(points: np.ndarray) -> np.ndarray:
    """The packed form, written bit by bit: it shares nothing with the reader."""
    grid = np.round((points.astype(np.float64) + 1) * 4095 / 2).astype(np.int64)
    codes = np.zeros(points.shape[:2], np.int64)
    for bit in range(12):
        for axis in range(3):
            codes |= ((grid[..., axis] >> bit) & 1) << (3 * bit + axis)
    codes.sort(axis=1)
    gaps = np.diff(codes, axis=1, prepend=0)
    return np.stack([(gaps // 256**byte) % 256 for byte in range(5)]).astype(np.uint8)


def write_packed(path: Path, per_class: int = 4, num_points: int = 32) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {"class_names": np.array(CLASSES)}
    for seed, side in enumerate(("train", "test")):
        labels = np.repeat(np.arange(len(CLASSES), dtype=np.uint8), per_class)
        arrays[f"{side}_points"] = pack(clouds(len(labels), num_points, seed))
        arrays[f"{side}_labels"] = labels
        arrays[f"{side}_ids"] = np.array([f"{CLASSES[label]}_{n:04d}" for n, label in enumerate(labels)])
    np.savez_compressed(path, **arrays)
    return arrays


def write_hdf5(folder: Path, per_class: int = 4, num_points: int = 32) -> None:
    import h5py

    folder.mkdir()
    (folder / "shape_names.txt").write_text("\n".join(CLASSES) + "\n")
    for seed, name in enumerate(("train0", "train1", "test0")):
        labels = np.repeat(np.arange(len(CLASSES)), per_class)
        with h5py.File(folder / f"ply_data_{name}.h5", "w") as file:
            file["data"] = clouds(len(labels), num_points, seed)
            file["label"] = labels[:, None].astype(np.uint8)
            file.create_dataset("normal", data=clouds(len(labels), num_points, seed + 9), compression="gzip")


def write_text(folder: Path, per_class: int = 2, num_points: int = 40) -> None:
    folder.mkdir()
    names: dict[str, list[str]] = {"train": [], "test": []}
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir()
        for n in range(2 * per_class):
            x = clouds(1, num_points, seed=100 * label + n)[0]
            rows = np.concatenate([x, x / np.linalg.norm(x, axis=1, keepdims=True)], axis=1)
            np.savetxt(folder / name / f"{name}_{n:04d}.txt", rows, delimiter=",", fmt="%.6f")
            names["train" if n < per_class else "test"].append(f"{name}_{n:04d}")
    for side, listed in names.items():
        (folder / f"modelnet40_{side}.txt").write_text("\n".join(listed) + "\n")
    (folder / "modelnet40_shape_names.txt").write_text("\n".join(CLASSES) + "\n")


def write_meshes(folder: Path) -> None:
    """A tetrahedron for each shape, in the way ModelNet writes OFF: counts glued to the first word."""
    for label, name in enumerate(CLASSES):
        for side in ("train", "test"):
            (folder / name / side).mkdir(parents=True)
            for n in range(2):
                size = 1 + label + 0.1 * n
                vertices = f"0 0 0\n{size} 0 0\n0 {size} 0\n0 0 {size}\n"
                faces = "3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"
                (folder / name / side / f"{name}_{n:04d}.off").write_text(f"OFF4 4 0\n{vertices}{faces}")


def read_packed_train(path: Path) -> None:
    from vnt.data.packed import read_packed

    read_packed(path, "train")


def read_modelnet_hdf5(path: Path) -> None:
    from vnt.data.archives import read_hdf5

    read_hdf5(path, ["data", "label"], optional=["normal"])


def read_modelnet_folder(path: Path) -> None:
    """The file as the one of a set in HDF5."""
    from vnt.data.modelnet import _read_hdf5

    folder = path.parent / "as a set"
    folder.mkdir(exist_ok=True)
    (folder / "shape_names.txt").write_text("\n".join(CLASSES))
    (folder / f"train {path.name}").write_bytes(path.read_bytes())
    if path.stat().st_size:  # else there is no cloud to have 4 points
        _read_hdf5(folder, 4, lambda done, total: None)
    else:
        raise ValueError(path.name)


def read_scanobjectnn(path: Path) -> None:
    from vnt.data.scanobjectnn import _read

    _read([path, path])
