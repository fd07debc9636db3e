"""KITTI odometry: where the recording car was, ten times a second, up hill and down."""

from pathlib import Path

import numpy as np

from vnt.data.recording import Recording
from vnt.files import blame, require_file

ROTATION = 1e-3
"""How far a matrix may be from a rotation: files round to six digits."""


def read_poses(path: Path | str, *, rate: float = 10.0) -> Recording:
    """The path of the car in a ``poses/NN.txt``: each line is a 3×4 matrix [R | t] from the left camera to its start.

    The camera's axes (x right, y down, z forward) become those of the other sets (x forward, y left, z up). The only
    attribute is the speed over the step that led here: a difference across the step would show a model the future.
    """
    path = require_file(path)
    if not (np.isfinite(rate) and rate > 0):
        raise ValueError(f"rate must be positive, got {rate}")
    # What overflows becomes infinite, and the recording refuses it.
    with blame(path), np.errstate(over="ignore", invalid="ignore"):
        rows = []
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    rows.append(_numbers(line, number))
        if len(rows) < 2:
            raise ValueError(f"a path needs at least two poses, got {len(rows)}")
        right, down, forward = np.array(rows)[:, [3, 7, 11]].T
        positions = np.stack([forward, -right, -down], axis=-1)
        speed = np.linalg.norm(np.diff(positions, axis=0), axis=-1) * rate
        speed = np.concatenate([speed[:1], speed]).astype(np.float32)
        return Recording(
            name=path.stem,
            dt=1 / rate,
            positions=positions[None],
            valid=np.ones((1, len(rows)), bool),
            track_ids=("ego",),
            types=("vehicle",),
            attributes=speed[None, :, None],
            attribute_names=("speed",),
            own=np.ones(1, bool),
        )


def is_pose_file(path: Path | str) -> bool:
    """Whether the first line of a file is a pose: twelve numbers, of which a 3×3 block is a rotation.

    Tables of points may have twelve columns too, but hardly such ones.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        words = file.readline(2**16).split()
    try:
        R = np.array([float(word) for word in words]).reshape(3, 4)[:, :3]
    except ValueError:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.abs(R @ R.T - np.eye(3)).max() < ROTATION and np.linalg.det(R) > 0)


def _numbers(line: str, number: int) -> list[float]:
    words = line.split()
    if len(words) != 12:
        raise ValueError(f"line {number} has {len(words)} numbers, a pose has 12")
    try:
        return [float(word) for word in words]
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
