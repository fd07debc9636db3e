"""Lidar sweeps as bare float32, with nothing else in the file: KITTI's, and nuScenes' (``.pcd.bin``)."""

from pathlib import Path

import numpy as np

from vnt.data.cloud import Cloud

KITTI, NUSCENES = ("intensity",), ("intensity", "ring")


def read_kitti(path: Path) -> Cloud:
    """x, y, z, intensity, and in nuScenes' files the ring; the size is all there is to check."""
    is_nuscenes = path.name.lower().endswith(".pcd.bin")
    whose, attributes = ("nuScenes", NUSCENES) if is_nuscenes else ("KITTI", KITTI)
    width, size = 3 + len(attributes), path.stat().st_size
    if size % (4 * width):
        raise ValueError(f"{size:,} bytes are no {whose} sweep: a point is {width} float32, {4 * width} bytes")
    rows = np.fromfile(path, "<f4").reshape(-1, width)
    return Cloud(rows[:, :3], attributes=dict(zip(attributes, rows[:, 3:].T, strict=True)))
