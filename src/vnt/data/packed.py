"""Packed clouds: many clouds of N points in one ``.npz``, about four bytes a point.

A cloud is a set, so its points may be stored in any order. They are snapped to a grid of 4,096³ cells on the cube
[−1, 1]³ (half a step is 2.4e-4), each cell gets its number along the Morton curve, which interleaves the bits of x, y
and z, and the sorted numbers are stored as gaps, split into five planes of bytes that compress well.

Keys: ``{train,test}_points`` (5, M, N) uint8, ``{train,test}_labels`` (M,), ``class_names``, ``{train,test}_ids``.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnt.data.archives import read_npz
from vnt.files import blame, require_file

BITS = 12
TOP = 2**BITS - 1
PLANES = 5
# Every third bit is brought to its neighbour in groups of 1, 2, 4 and 8: (shift, mask of what is then in place).
GATHER = ((0, 0x249249249), (2, 0x0C30C30C3), (4, 0x00F00F00F), (8, 0x00F0000FF), (16, 0x000000FFF))


def read_packed(path: Path | str, split: str) -> tuple[NDArray[np.float32], NDArray[np.int64], list[str], list[str]]:
    """Points (M, N, 3), labels (M,), ids and class names of "train" or "test"."""
    path = require_file(path)
    with blame(path):
        arrays = read_npz(path, [f"{split}_points", f"{split}_labels", "class_names", f"{split}_ids"])
        planes, labels = arrays[f"{split}_points"], arrays[f"{split}_labels"]
        if planes.dtype != np.uint8 or planes.ndim != 3 or planes.shape[0] != PLANES or 0 in planes.shape:
            raise ValueError(f"expected {PLANES} planes of bytes, got {planes.dtype} {planes.shape}")
        names = [str(name) for name in arrays["class_names"]]
        ids = [str(name) for name in arrays[f"{split}_ids"]]
        if labels.shape != planes.shape[1:2] or len(ids) != len(labels) or labels.dtype.kind not in "iu":
            raise ValueError(f"expected {planes.shape[1]} labels and ids, got {labels.shape} and {len(ids)}")
        if labels.min() < 0 or labels.max() >= len(names):
            raise ValueError(f"expected labels below {len(names)}, got {labels.max()}")
        return decode(planes), labels.astype(np.int64), ids, names


def decode(planes: NDArray[np.uint8], *, jitter_seed: int | None = 0) -> NDArray[np.float32]:
    """(5, M, N) planes of bytes -> (M, N, 3) coordinates in [−1, 1].

    On the grid most clouds have neighbours at exactly equal distances; a seeded jitter of half a step breaks these
    ties (None: no jitter).
    """
    gaps = np.zeros(planes.shape[1:], np.uint64)
    for byte in range(PLANES):
        gaps |= planes[byte].astype(np.uint64) << np.uint64(8 * byte)
    code = np.cumsum(gaps, axis=1, dtype=np.uint64)
    points = np.stack([_every_third_bit(code >> np.uint64(axis)) for axis in range(3)], axis=-1)
    points = points.astype(np.float32) * np.float32(2 / TOP) - np.float32(1)
    if jitter_seed is not None:
        rng = np.random.default_rng(jitter_seed)
        points += rng.uniform(-1 / TOP, 1 / TOP, points.shape).astype(np.float32)
    return points


def _every_third_bit(code: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits 0, 3, 6, ... 33 of the code, as a number of twelve bits."""
    for shift, mask in GATHER:
        code = (code | code >> np.uint64(shift)) & np.uint64(mask)
    return code
