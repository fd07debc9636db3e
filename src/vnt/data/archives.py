"""NumPy's files and HDF5, read with their sizes checked before anything is allocated, and never unpickled."""

import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from vnt.files import blame, require_file, require_library, require_sane_size


def read_npz(path: Path | str, keys: Sequence[str] | None = None) -> dict[str, NDArray]:
    """The arrays of an ``.npz``, all of them or those named by ``keys``. They are read-only."""
    path = require_file(path)
    with blame(path), zipfile.ZipFile(path) as archive:
        found = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        members = {member.filename.removesuffix(".npy"): member for member in found}
        if missing := [key for key in keys or () if key not in members]:
            raise ValueError(f"no array {', '.join(missing)} among {', '.join(members) or 'none'}")
        wanted = {key: members[key] for key in (keys or members)}
        # Every byte may become a float64.
        require_sane_size(path, 8 * sum(member.file_size for member in wanted.values()), "the arrays")
        return {key: _array(_expand(archive, member)) for key, member in wanted.items()}


def write_npz(path: Path, arrays: Mapping[str, NDArray]) -> None:
    """Write a compressed ``.npz``. Unlike NumPy's own writer it takes any name: a column may well be called "file"."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                npy.write_array(stream, np.ascontiguousarray(values), allow_pickle=False)


def read_npy(path: Path | str) -> NDArray:
    """The array of an ``.npy``, read-only."""
    path = require_file(path)
    with blame(path):
        return _array(path.read_bytes())


def read_hdf5(path: Path | str, keys: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray]:
    """Numeric data sets of an HDF5 file by name; those in ``optional`` may be missing."""
    h5py = require_library("h5py", "reading HDF5")
    path = require_file(path)
    with blame(path), h5py.File(path, "r") as file:
        if missing := [key for key in keys if key not in file]:
            raise ValueError(f"no data set {', '.join(missing)} among {', '.join(file) or 'none'}")
        found = {key: file[key] for key in (*keys, *optional) if key in file}
        for key, values in found.items():
            if not isinstance(values, h5py.Dataset) or values.dtype.kind not in "iuf":
                raise ValueError(f"{key} must be a data set of numbers")
            require_sane_size(path, math.prod(values.shape) * values.dtype.itemsize, key)
        return {key: values[()] for key, values in found.items()}


def _expand(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, not one more than it claims.

    Asked for all, zipfile expands before it looks at the claim; of the methods that NumPy does not use it always does.
    """
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is compressed in a way that NumPy does not write")
    with archive.open(member) as stream:
        return stream.read(member.file_size)


def _array(data: bytes) -> NDArray:
    """The array in a .npy: a view of the bytes, so that a shape cannot ask for more than there are."""
    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"NPY format {version} is not supported, expected 1.0 or 2.0")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("the array holds pickled Python objects, which are never loaded")
    needed, there = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if min(shape, default=1) < 0 or needed != there:
        raise ValueError(f"an array of {shape} {dtype} is {needed:,} bytes, but there are {there:,}")
    if needed == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(data, dtype, math.prod(shape), stream.tell()).reshape(shape, order="F" if fortran else "C")
