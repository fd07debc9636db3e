"""KITTI's lidar sweeps: float32 x, y, z, intensity, and nothing else in the file."""

from pathlib import Path

import numpy as np

from vnt.data.cloud import Cloud


def read_kitti(path: Path) -> Cloud:
    """The size is all there is to check: sixteen bytes for each point."""
    size = path.stat().st_size
    if size % 16:
        raise ValueError(f"{size:,} bytes are no KITTI sweep: a point is four float32, 16 bytes")
    rows = np.fromfile(path, "<f4").reshape(-1, 4)
    return Cloud(rows[:, :3], attributes={"intensity": rows[:, 3]})
