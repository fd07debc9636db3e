"""ScanObjectNN (Uy et al. 2019): scans of real objects, 15 classes, 2,048 points; y is up.

It is handed out as a folder `h5_files` with `main_split` (objects with background) and `main_split_nobg` (without).
"""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vnt.data.archives import read_hdf5
from vnt.data.cache import cached
from vnt.data.cloud_set import CloudSet, Split, select_split
from vnt.data.locations import find_set
from vnt.files import blame

Variant = Literal["obj_only", "obj_bg", "pb_t50_rs"]
CLASSES = (
    "bag", "bin", "box", "cabinet", "chair", "desk", "display", "door", "shelf", "table", "bed", "pillow", "sink",
    "sofa", "toilet",
)  # fmt: skip
FILES = {
    "obj_only": "main_split_nobg/{side}_objectdataset.h5",
    "obj_bg": "main_split/{side}_objectdataset.h5",
    "pb_t50_rs": "main_split/{side}_objectdataset_augmentedrot_scale75.h5",
}
VARIANTS: dict[Variant, str] = {
    "obj_only": "the object alone",
    "obj_bg": "with background",
    "pb_t50_rs": "in moved and turned boxes",
}
CANDIDATES = ("h5_files", "ScanObjectNN/h5_files", "ScanObjectNN")
HINT = "Its authors hand it out on request (https://hkust-vgd.github.io/scanobjectnn)."


def load_scanobjectnn(
    split: Split = "train", *, variant: Variant = "pb_t50_rs", folder: Path | str | None = None
) -> CloudSet:
    """One split of a variant, from the cache after the first time.

    Args:
        split: "train" and "val" are carved out of the official training split, "train+val" is all of it.
        variant: "obj_only" (the object alone), "obj_bg" (with background), "pb_t50_rs" (moved, turned and scaled boxes
            around it: the hardest, and the one that papers report).
        folder: where to look, see `vnt.data.locations`.
    """
    if variant not in FILES:
        raise ValueError(f"variant must be one of {', '.join(FILES)}, got {variant!r}")
    root = find_set("ScanObjectNN", CANDIDATES, HINT, folder, is_scanobjectnn)
    sources = [root / FILES[variant].format(side=side) for side in ("training", "test")]
    if missing := [path for path in sources if not path.exists()]:
        raise FileNotFoundError(f"{missing[0]}: no such file, which the variant {variant!r} needs. {HINT}")
    tensors = cached("scanobjectnn", {"variant": variant}, sources, lambda: _read(sources))
    clouds = CloudSet(
        name=f"scanobjectnn_{variant}", points=tensors["points"], labels=tensors["labels"], class_names=CLASSES, up="y"
    )
    return select_split(clouds, tensors["is_test"], split)


def is_scanobjectnn(folder: Path) -> bool:
    """Whether a folder is the set's own, whatever it is called."""
    return any((folder / pattern).parent.is_dir() for pattern in FILES.values())


def _read(sources: list[Path]) -> dict[str, Tensor]:
    points, labels = [], []
    for path in sources:
        part = read_hdf5(path, ["data", "label"])
        with blame(path):
            with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused
                data, label = part["data"].astype(np.float32), part["label"].ravel()
            if data.ndim != 3 or data.shape[2] != 3 or len(label) != len(data) or not len(data):
                raise ValueError(f"expected clouds (M, N, 3) and M labels, got {data.shape} and {label.shape}")
            if not np.isfinite(data).all() or not 0 <= label.min() <= label.max() < len(CLASSES):
                raise ValueError(f"coordinates must be finite, and labels below {len(CLASSES)}")
        points.append(torch.from_numpy(data))
        labels.append(torch.from_numpy(label.astype(np.int64)))
    is_test = torch.arange(sum(map(len, points))) >= len(points[0])
    return {"points": torch.cat(points), "labels": torch.cat(labels), "is_test": is_test}
