"""Cloud files: OFF, PLY, OBJ, STL, PCD, XYZ/TXT/CSV/PTS, NPY/NPZ, LAS/LAZ, KITTI .bin."""

from vnt.data.cloud_files.reading import FORMATS, read_cloud
from vnt.data.cloud_files.surfaces import NUM_MESH_POINTS

__all__ = ["FORMATS", "NUM_MESH_POINTS", "read_cloud"]
