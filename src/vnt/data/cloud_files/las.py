"""LAS and LAZ through laspy, once the counts in the header are known to be true."""

import struct
from pathlib import Path

import numpy as np

from vnt.data.cloud import Cloud
from vnt.data.cloud_files.laz import check_chunks
from vnt.files import require_library, require_sane_size

SMALLEST_VLR = 54
COMPRESSED = 0xC0  # bits of the point format that mark LAZ


def read_las(path: Path) -> Cloud:
    """Scaled coordinates, and every other dimension as an attribute under laspy's name.

    Attributes are float32: GPS times keep about seven digits.
    """
    laspy = require_library("laspy", "reading LAS and LAZ files")
    start, count, compressed = _check_header(path)
    if compressed:
        require_library("lazrs", "reading LAZ files")
    # One thread: the parallel decoder believes the sizes in the file's table of chunks and allocates them.
    with laspy.open(path, laz_backend=laspy.LazBackend.Lazrs, read_evlrs=False) as reader:
        point_format = reader.header.point_format
        if compressed:
            laszip = reader.header.vlrs.get("LasZipVlr")[0].record_data
            check_chunks(path, start, count, point_format.size, laszip)
        record = reader.read_points(-1)
    if len(record) != count:
        raise ValueError(f"{count:,} points promised, {len(record):,} found")
    attributes = {}
    for name in point_format.dimension_names:
        if name in ("X", "Y", "Z"):  # integers, before they are scaled
            continue
        values = np.asarray(record[name])
        if values.ndim == 1:
            attributes[name] = values
        else:
            attributes |= {f"{name}_{i}": part for i, part in enumerate(values.T)}
    return Cloud(np.stack([np.asarray(record[axis]) for axis in "xyz"], 1), attributes=attributes)


def _check_header(path: Path) -> tuple[int, int, bool]:
    """Where the points start, how many there are, whether compressed; refuse what the file is too short for."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(375)
    if head[:4] != b"LASF" or len(head) < 227:
        raise ValueError("not a LAS file: it must start with 'LASF' and a header of 227 bytes or more")
    header_size, start, num_vlrs, point_format, point_size, count = struct.unpack_from("<HIIBHI", head, 94)
    if head[25] >= 4:  # version 1.4 counts in 64 bits
        (count,) = struct.unpack_from("<Q", head, 247)
    if not header_size + SMALLEST_VLR * num_vlrs <= start <= size:
        raise ValueError(f"{num_vlrs:,} records before the points at byte {start:,} do not fit {size:,} bytes")
    compressed = bool(point_format & COMPRESSED)
    if compressed:
        require_sane_size(path, 8 * count * point_size, f"{count:,} points")
    elif start + count * point_size > size:
        raise ValueError(f"{count:,} points of {point_size} bytes promised, the file has {size:,} bytes")
    return start, count, compressed
