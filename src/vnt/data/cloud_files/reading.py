"""One function for all cloud files; the suffix says which reader, the reader says cloud or mesh."""

import warnings
from pathlib import Path

import numpy as np

from vnt.data.cloud import Cloud
from vnt.data.cloud_files.arrays import read_npy_cloud, read_npz_cloud
from vnt.data.cloud_files.kitti import read_kitti
from vnt.data.cloud_files.las import read_las
from vnt.data.cloud_files.obj import read_obj
from vnt.data.cloud_files.off import read_off
from vnt.data.cloud_files.pcd import read_pcd
from vnt.data.cloud_files.ply import read_ply
from vnt.data.cloud_files.stl import read_stl
from vnt.data.cloud_files.surfaces import NUM_MESH_POINTS, Mesh, sample
from vnt.data.cloud_files.tables import read_table
from vnt.files import blame, require_file

_READERS = {
    ".off": ("OFF mesh", read_off),
    ".ply": ("PLY mesh or cloud", read_ply),
    ".obj": ("Wavefront OBJ mesh or cloud", read_obj),
    ".stl": ("STL mesh", read_stl),
    ".pcd": ("PCL point cloud", read_pcd),
    ".xyz": ("table of points", read_table),
    ".txt": ("table of points", read_table),
    ".csv": ("table of points", read_table),
    ".pts": ("table of points", read_table),
    ".npy": ("NumPy array", read_npy_cloud),
    ".npz": ("NumPy archive", read_npz_cloud),
    ".las": ("LAS scan", read_las),
    ".laz": ("compressed LAS scan", read_las),
    ".bin": ("lidar sweep of KITTI or nuScenes", read_kitti),
}

FORMATS = {suffix: name for suffix, (name, _) in _READERS.items()}


def read_cloud(path: Path | str, *, num_points: int | None = None, seed: int = 0) -> Cloud:
    """The points of a file, with normals and named numbers where it has them.

    A file with faces is a mesh: ``num_points`` points (1024 unless said) are drawn uniformly from its surface, with
    the normals of the faces they lie on and the vertices' attributes interpolated. A file without faces is a cloud as
    it stands; ``num_points`` keeps a random subset of it, in the file's order, and all of it where it has no more.
    The same ``seed`` gives the same points.

    Raises:
        ValueError: the file cannot be read, with its name and the reason. Nothing in a file is ever executed, and no
            file can claim much more memory than it holds.
        FileNotFoundError: there is no such file.
        ModuleNotFoundError: the format needs a library of the ``data`` extra.
    """
    if num_points is not None and num_points < 1:
        raise ValueError(f"num_points must be at least 1, got {num_points}")
    with blame(path), warnings.catch_warnings():
        # A file is read or refused; what libraries murmur on the way is not for the caller.
        warnings.simplefilter("ignore")
        file = require_file(path)
        if file.suffix.lower() not in _READERS:
            raise ValueError(f"{path}: unknown suffix {file.suffix!r}, expected one of {', '.join(_READERS)}")
        _, read = _READERS[file.suffix.lower()]
        content = read(file)
        rng = np.random.default_rng(seed)
        if isinstance(content, Mesh):
            return sample(content, NUM_MESH_POINTS if num_points is None else num_points, rng)
        if num_points is None or len(content) <= num_points:
            return content
        return content.take(np.sort(rng.choice(len(content), num_points, replace=False)))
