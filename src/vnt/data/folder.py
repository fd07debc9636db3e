"""A user's own labelled clouds: a folder for each class, files of any format in it.

    scans/chair/a.ply            scans/train/chair/a.ply
    scans/table/b.las     or     scans/test/table/b.las

Without folders ``train`` and ``test``, a fifth of the files is test, chosen by a hash of their names.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from vnt.data.batches import collate
from vnt.data.cache import cached
from vnt.data.cloud_files import FORMATS, read_cloud
from vnt.data.cloud_set import CloudSet, Split, select_split

TEST_SHARE = 0.2


def load_folder(
    folder: Path | str,
    split: Split = "train",
    *,
    num_points: int = 1024,
    attributes: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> CloudSet:
    """One split of a folder of clouds, each of at most ``num_points`` points about its own centre.

    ``attributes`` names those to keep, which every file must have; normals are kept where every file has them.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder")
    files = _files(root)
    names = tuple(sorted({name for _, name, _ in files}))
    if len(names) < 2:
        raise ValueError(f"{root}: expected a folder for each class with clouds in it, found {list(names) or 'none'}")

    def build() -> dict[str, torch.Tensor]:
        clouds = []
        for number, (path, _, _) in enumerate(files):
            clouds.append(read_cloud(path, num_points=num_points))
            clouds[-1].require(attributes, str(path))
            if progress is not None:
                progress(number + 1, len(files))
        batch = collate(clouds, [names.index(name) for _, name, _ in files], attributes=attributes)
        return batch.tensors() | {"is_test": torch.tensor([test for _, _, test in files])}

    settings = {"num_points": num_points, "attributes": list(attributes)}
    tensors = dict(cached("folder", settings, [path for path, _, _ in files], build))
    is_test = tensors.pop("is_test")
    if not is_test.any() or is_test.all():
        raise ValueError(f"{root}: {len(files)} clouds are too few to split into training and test")
    clouds = CloudSet(name=root.name, class_names=names, attribute_names=tuple(attributes), **tensors)  # type: ignore[bad-argument-type]
    return select_split(clouds, is_test, split)


def _files(root: Path) -> list[tuple[Path, str, bool]]:
    """Every cloud below the folder, its class, and whether it is for testing."""
    sides = [(root / "train", False), (root / "test", True)]
    if all(side.is_dir() for side, _ in sides):
        return [(path, name, test) for side, test in sides for path, name in _clouds(side)]
    return [(path, name, _is_test(path.relative_to(root))) for path, name in _clouds(root)]


def _clouds(root: Path) -> list[tuple[Path, str]]:
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
    return [(p, folder.name) for folder in folders for p in sorted(folder.rglob("*")) if p.suffix.lower() in FORMATS]


def _is_test(name: Path) -> bool:
    digest = hashlib.sha256(name.as_posix().encode()).digest()
    return int.from_bytes(digest[:8], "big") < TEST_SHARE * 2**64
