"""PCD, the Point Cloud Library's format: ascii, binary, and binary_compressed."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnt.data.cloud import Cloud
from vnt.data.cloud_files.columns import cloud_from_columns, parse_numbers, require_distinct
from vnt.data.cloud_files.lzf import decompress
from vnt.files import require_sane_size

TYPES = {"F": (4, 8), "I": (1, 2, 4, 8), "U": (1, 2, 4, 8)}
PACKED = ("rgb", "rgba")
PADDING = "_"
NORMALS = ("normal_x", "normal_y", "normal_z")
NO_COLOUR = 0x7FC00000  # the float "nan", which ascii files write for it


@dataclass
class _Field:
    name: str
    dtype: np.dtype
    count: int


def read_pcd(path: Path) -> Cloud:
    """Fields become attributes under their names (name_0, name_1, ... where COUNT is more than one).

    x, y, z are the points, normal_x, normal_y, normal_z the normals, and a packed rgb or rgba becomes red, green and
    blue, 0 to 255. The library writes NaN for pixels of a depth image that saw nothing: points with a NaN coordinate
    are dropped, and a normal with one is zero.
    """
    data = path.read_bytes()
    start = re.search(rb"^DATA[ \t]+(\w+)[ \t]*\r?\n", data[: 2**20], re.MULTILINE)
    if start is None:
        raise ValueError("not a PCD file: it has no line DATA")
    fields, num_points = _parse_header(data[: start.start()].decode("latin-1"))
    body, encoding = data[start.end() :], start[1].decode("latin-1").lower()
    match encoding:
        case "ascii":
            columns = _ascii(body, fields, num_points)
        case "binary":
            columns = _binary(body, fields, num_points)
        case "binary_compressed":
            columns = _compressed(path, body, fields, num_points)
        case _:
            raise ValueError(f"DATA must be ascii, binary or binary_compressed, got {encoding!r}")
    return _cloud(columns)


def _parse_header(text: str) -> tuple[list[_Field], int]:
    header = {line.split()[0].upper(): line.split()[1:] for line in text.splitlines() if line.strip()}
    missing = [key for key in ("FIELDS", "SIZE", "TYPE") if key not in header]
    if missing:
        raise ValueError(f"the header has no line {', '.join(missing)}")
    names = header["FIELDS"]
    require_distinct([name for name in names if name != PADDING])
    sizes, types, counts = header["SIZE"], header["TYPE"], header.get("COUNT", ["1"] * len(names))
    if not len(names) == len(sizes) == len(types) == len(counts):
        raise ValueError(f"{len(names)} FIELDS, {len(sizes)} SIZE, {len(types)} TYPE, {len(counts)} COUNT")
    fields = []
    for name, size, type_, count in zip(names, map(int, sizes), types, map(int, counts), strict=True):
        if size not in TYPES.get(type_, ()) or count < 1:
            raise ValueError(f"field {name!r}: TYPE {type_}, SIZE {size}, COUNT {count}")
        fields.append(_Field(name, np.dtype(f"<{type_.lower()}{size}"), count))
    said = {key: int(header[key][0]) for key in ("WIDTH", "HEIGHT", "POINTS") if header.get(key)}
    num_points = said.get("POINTS", said.get("WIDTH", 0) * said.get("HEIGHT", 1))
    if num_points < 1 or num_points != said.get("WIDTH", num_points) * said.get("HEIGHT", 1):
        raise ValueError(f"the header promises {said or 'no points'}")
    return fields, num_points


def _ascii(body: bytes, fields: list[_Field], num_points: int) -> list[tuple[_Field, NDArray]]:
    numbers = parse_numbers(body.decode("latin-1"))
    width = sum(field.count for field in fields)
    if numbers.size != num_points * width:
        raise ValueError(f"{num_points:,} points of {width} numbers promised, {numbers.size:,} numbers found")
    rows, columns, at = numbers.reshape(num_points, width), [], 0
    for field in fields:
        values = rows[:, at : at + field.count]
        if field.name in PACKED:  # its bits count, not its value
            if field.dtype.kind != "f" and not (np.abs(values) < 2**32).all():
                raise ValueError(f"field {field.name!r} holds no packed colour")
            values = values.astype(field.dtype)
        columns.append((field, values))
        at += field.count
    return columns


def _binary(body: bytes, fields: list[_Field], num_points: int) -> list[tuple[_Field, NDArray]]:
    row_size = sum(field.count * field.dtype.itemsize for field in fields)
    if num_points * row_size > len(body):
        raise ValueError(f"{num_points:,} points of {row_size} bytes promised, {len(body):,} bytes found")
    dtype = np.dtype([(str(i), field.dtype, (field.count,)) for i, field in enumerate(fields)])
    rows = np.frombuffer(body, dtype, num_points)
    return [(field, rows[str(i)]) for i, field in enumerate(fields)]


def _compressed(path: Path, body: bytes, fields: list[_Field], num_points: int) -> list[tuple[_Field, NDArray]]:
    """Field after field, not point after point, which compresses better."""
    compressed, size = int.from_bytes(body[:4], "little"), int.from_bytes(body[4:8], "little")
    needed = num_points * sum(field.count * field.dtype.itemsize for field in fields)
    if size != needed or len(body) < 8 + compressed:
        raise ValueError(f"{needed:,} bytes promised, {size:,} compressed to {compressed:,}, {len(body) - 8:,} found")
    require_sane_size(path, 8 * size, f"{num_points:,} points")
    raw, columns, at = decompress(body[8 : 8 + compressed], size), [], 0
    for field in fields:
        values = np.frombuffer(raw, field.dtype, num_points * field.count, at)
        columns.append((field, values.reshape(num_points, field.count)))
        at += values.nbytes
    return columns


def _cloud(columns: list[tuple[_Field, NDArray]]) -> Cloud:
    flat: dict[str, NDArray] = {}
    for field, values in columns:
        if field.name in PACKED and field.dtype.itemsize == 4 and field.count == 1:
            bits = np.ascontiguousarray(values[:, 0]).view("<u4")
            bits = np.where(bits == NO_COLOUR, 0, bits)
            flat |= {"red": bits >> 16 & 255, "green": bits >> 8 & 255, "blue": bits & 255}
        elif field.name != PADDING and field.count == 1:
            flat[field.name] = values[:, 0]
        elif field.name != PADDING:
            flat |= {f"{field.name}_{i}": part for i, part in enumerate(values.T)}
    missing = [name for name in "xyz" if name not in flat]
    if missing:
        raise ValueError(f"no field {', '.join(missing)} among {', '.join(flat)}")
    seen = ~np.isnan(np.stack([flat[name] for name in "xyz"])).any(0)
    if not seen.any():
        raise ValueError(f"all {seen.size:,} points are NaN")
    flat = {name: values[seen] for name, values in flat.items()}
    if all(name in flat for name in NORMALS):
        unknown = np.isnan(np.stack([flat[name] for name in NORMALS])).any(0)
        flat |= {name: np.where(unknown, 0, flat[name]) for name in NORMALS}
    return cloud_from_columns(flat)
