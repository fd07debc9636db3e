"""ModelNet40 and ModelNet10 (Wu et al. 2015) in any of their public forms; y is up.

| form | what it looks like |
|---|---|
| packed | `modelnet40_1024.npz`, see `vnt.data.packed` |
| HDF5 | `modelnet40_ply_hdf5_2048/` with `ply_data_train0.h5` ... and `shape_names.txt` |
| text | `modelnet40_normal_resampled/` with `airplane/airplane_0001.txt` ... and `modelnet40_train.txt` |
| meshes | `ModelNet40/airplane/train/airplane_0001.off` ... |

The HDF5 release lacks three of the 9,843 training shapes. ModelNet10 is ten of the classes, with the same split.
Meshes have their own units and places; each is sampled with its own seed (its number in the list), centred and scaled
to the unit sphere, as the text form is when it is handed out.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vnt.data.archives import read_hdf5
from vnt.data.cache import cached
from vnt.data.cloud import Cloud
from vnt.data.cloud_files import read_cloud
from vnt.data.cloud_set import CloudSet, Split, select_split
from vnt.data.locations import find_set
from vnt.data.packed import read_packed
from vnt.files import blame, require_file

Progress = Callable[[int, int], None]
CANDIDATES = ("modelnet40_1024.npz", "modelnet40_ply_hdf5_2048", "modelnet40_normal_resampled", "ModelNet40")
HINT = (
    "Its first host is gone; mirrors of modelnet40_normal_resampled, of modelnet40_ply_hdf5_2048 and of the meshes are "
    "on Kaggle and on Hugging Face (Msun/modelnet40)."
)
MODELNET10 = ("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet")


def load_modelnet(
    split: Split = "train",
    *,
    num_classes: Literal[10, 40] = 40,
    num_points: int = 2048,
    folder: Path | str | None = None,
    progress: Progress | None = None,
) -> CloudSet:
    """One split of ModelNet, from the cache after the first time.

    Args:
        split: "train" and "val" are carved out of the official training split, "train+val" is all of it.
        num_classes: 40, or 10 for ModelNet10.
        num_points: of each cloud. A text or HDF5 file gives its first ones, which are a sample of it, and must have so
            many; a mesh is sampled at so many places; the packed form has 1,024 and gives at most those.
        folder: where to look, see `vnt.data.locations`.
        progress: called with (clouds read, clouds in all) while the set is read for the first time.
    """
    if num_classes not in (10, 40):
        raise ValueError(f"num_classes must be 10 or 40, got {num_classes}")
    root = find_set("ModelNet40", CANDIDATES, HINT, folder, is_modelnet)
    sources = _sources(root)
    settings = {"form": 2, "num_points": num_points}
    tensors = cached("modelnet40", settings, sources, lambda: _read(root, num_points, progress or _silent))
    names = tuple(bytes(tensors["class_names"].tolist()).decode().split("\n"))
    normals = tensors.get("normals")
    clouds = CloudSet(
        name=f"modelnet{num_classes}",
        points=tensors["points"],
        labels=tensors["labels"],
        class_names=names,
        up="y",
        vectors=None if normals is None else normals.unsqueeze(-2),
    )
    is_test = tensors["is_test"]
    if num_classes == 10:
        clouds, kept = _only(clouds, MODELNET10)
        is_test = is_test[kept]
    return select_split(clouds, is_test, split)


def is_modelnet(folder: Path) -> bool:
    """Whether a folder is the set's own, whatever it is called."""
    marks = ("shape_names.txt", "modelnet40_train.txt")
    return folder.is_dir() and (any((folder / mark).exists() for mark in marks) or any(folder.glob("*/train/*.off")))


def _only(clouds: CloudSet, names: tuple[str, ...]) -> tuple[CloudSet, Tensor]:
    """The clouds of some classes, with labels counted anew, and where they were."""
    number = torch.tensor([names.index(name) if name in names else -1 for name in clouds.class_names])
    kept = (number[clouds.labels] >= 0).nonzero().squeeze(1)
    return replace(clouds.take(kept), class_names=names, labels=number[clouds.labels[kept]]), kept


def _sources(root: Path) -> list[Path]:
    """The files that the set is made of: when one changes, the cache is stale."""
    if root.is_file():
        return [root]
    files = sorted(path for path in root.rglob("*") if path.suffix in (".h5", ".txt", ".off"))
    if not files:
        raise ValueError(f"{root}: expected .h5, .txt or .off files of ModelNet40 in this folder, found none")
    return files


def _read(root: Path, num_points: int, progress: Progress) -> dict[str, Tensor]:
    """The whole set, whichever form it has: points, labels, is_test, class_names and perhaps normals."""
    if root.is_file():
        return _read_packed(root, num_points)
    if any(root.glob("*.h5")):
        return _read_hdf5(root, num_points, progress)
    listed = _listed(root) if any(root.glob("modelnet40_*.txt")) else _meshes(root)
    if not listed:
        raise ValueError(f"{root}: no shape of ModelNet40 in it, expected CLASS/train/*.off or modelnet40_train.txt")
    # Not the folders: there may be others beside those of the classes.
    names = _names(root / "modelnet40_shape_names.txt") or sorted({name for _, name, _ in listed})
    points, normals, labels, is_test = [], [], [], []
    for done, (path, name, tests) in enumerate(listed):
        if name not in names:
            raise ValueError(f"{path}: class {name!r} is not in modelnet40_shape_names.txt")
        if path.suffix == ".off":
            cloud = _in_unit_sphere(read_cloud(path, num_points=num_points, seed=done))
        else:  # resampled evenly, in an order whose beginnings are samples themselves
            cloud = read_cloud(path)
            cloud = cloud.take(np.arange(min(num_points, len(cloud))))
        if cloud.normals is None or len(cloud) != num_points:
            raise ValueError(f"{path}: expected {num_points} points with normals, got {len(cloud)}")
        points.append(cloud.points.astype(np.float32))
        normals.append(cloud.normals.astype(np.float32))
        labels.append(names.index(name))
        is_test.append(tests)
        progress(done + 1, len(listed))
    return _tensors(np.stack(points), labels, is_test, names) | {"normals": torch.from_numpy(np.stack(normals))}


def _names(path: Path) -> list[str]:
    """The words of a list, or none where there is no such file."""
    if not path.exists():
        return []
    with blame(path):
        return path.read_text(encoding="utf-8").split()


def _listed(root: Path) -> list[tuple[Path, str, bool]]:
    """Text files, class and side of the split, from the lists that come with them."""
    listed = []
    for side in ("train", "test"):
        for line in _names(require_file(root / f"modelnet40_{side}.txt")):
            name = line.rpartition("_")[0]
            listed.append((root / name / f"{line}.txt", name, side == "test"))
    return listed


def _meshes(root: Path) -> list[tuple[Path, str, bool]]:
    found = sorted([*root.glob("*/train/*.off"), *root.glob("*/test/*.off")])
    return [(path, path.parts[-3], path.parts[-2] == "test") for path in found]


def _in_unit_sphere(cloud: Cloud) -> Cloud:
    points = cloud.points - cloud.points.mean(0)
    return replace(cloud, points=points / np.linalg.norm(points, axis=1).max())


def _read_hdf5(root: Path, num_points: int, progress: Progress) -> dict[str, Tensor]:
    names = _names(require_file(root / "shape_names.txt"))
    files = sorted(root.glob("*.h5"), key=lambda path: ("test" in path.name, path.name))
    for path in files:
        if ("train" in path.name) == ("test" in path.name):
            raise ValueError(f"{path}: expected a file name with either 'train' or 'test' in it")
    parts: list[dict[str, np.ndarray]] = []
    for done, path in enumerate(files):
        part = read_hdf5(path, ["data", "label"], optional=["normal"])
        with blame(path), np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused
            part |= {key: part[key].astype(np.float32) for key in ("data", "normal") if key in part}
            if part["data"].ndim != 3 or part["data"].shape[1] < num_points or part["data"].shape[2] != 3:
                raise ValueError(f"expected at least {num_points} points of 3 coordinates, got {part['data'].shape}")
            if part["label"].size != len(part["data"]):
                raise ValueError(f"expected {len(part['data'])} labels, got {part['label'].shape}")
            if not np.isfinite(part["data"]).all() or not 0 <= part["label"].min() <= part["label"].max() < len(names):
                raise ValueError("coordinates must be finite, and labels below the number of names in shape_names.txt")
            normal = part.get("normal", part["data"])
            if normal.shape != part["data"].shape or not np.isfinite(normal).all():
                raise ValueError(f"expected finite normals {part['data'].shape}, got {normal.shape}")
        cut = {key: part[key][:, :num_points] for key in ("data", "normal") if key in part}
        is_test = np.full(len(part["data"]), "test" in path.name)
        parts.append(cut | {"label": part["label"].ravel(), "is_test": is_test})
        progress(done + 1, len(files))
    # Normals are of use only if every cloud has them.
    keys = [key for key in parts[0] if all(key in part for part in parts)]
    whole = {key: np.concatenate([part[key] for part in parts]) for key in keys}
    tensors = _tensors(whole["data"], whole["label"], whole["is_test"], names)
    if "normal" in whole:
        tensors["normals"] = torch.from_numpy(whole["normal"])
    return tensors


def _read_packed(path: Path, num_points: int) -> dict[str, Tensor]:
    train, train_labels, _, names = read_packed(path, "train")
    test, test_labels, _, _ = read_packed(path, "test")
    is_test = np.arange(len(train) + len(test)) >= len(train)
    points = np.concatenate([train, test])
    # Packed points are sorted along a curve; in random order, as here, their beginnings are samples of the cloud.
    order = np.random.default_rng(0).random(points.shape[:2], dtype=np.float32).argsort(axis=1)[:, :num_points]
    points = np.take_along_axis(points, order[..., None], axis=1)
    return _tensors(points, np.concatenate([train_labels, test_labels]), is_test, names)


def _tensors(points: np.ndarray, labels: Iterable[int], is_test: Iterable[bool], names: list[str]) -> dict[str, Tensor]:
    return {
        "points": torch.from_numpy(np.ascontiguousarray(points, dtype=np.float32)),
        "labels": torch.from_numpy(np.asarray(labels, dtype=np.int64)),
        "is_test": torch.from_numpy(np.asarray(is_test, dtype=np.bool_)),
        "class_names": torch.frombuffer(bytearray("\n".join(names).encode()), dtype=torch.uint8),
    }


def _silent(done: int, total: int) -> None:
    """No progress wanted."""
