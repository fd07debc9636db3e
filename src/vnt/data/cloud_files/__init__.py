"""Cloud files: OFF, PLY, OBJ, STL, PCD, XYZ/TXT/CSV, NPY/NPZ, LAS/LAZ, KITTI .bin."""
