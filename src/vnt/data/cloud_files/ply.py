"""PLY by hand, ascii and binary: the header must be checked before anything is believed, and then little is left to do.

A list (the corners of a face) has its own length in every row, so rows differ in size. Nearly always they do not, and
one view of the bytes reads them all; otherwise they are walked. An ascii body becomes float64 bytes first and is then
read as a binary one.
"""

import re
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnt.data.cloud import Cloud
from vnt.data.cloud_files.columns import cloud_from_columns, parse_numbers, require_distinct
from vnt.data.cloud_files.surfaces import Mesh, triangulate

TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4"}
TYPES |= {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4"}
TYPES |= {"double": "f8", "float64": "f8", "int64": "i8", "uint64": "u8"}
ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": "="}
CORNERS = ("vertex_indices", "vertex_index")


@dataclass
class _Property:
    name: str
    type: str
    length_type: str | None = None  # of a list


@dataclass
class _Element:
    name: str
    count: int
    properties: list[_Property] = field(default_factory=list)


def read_ply(path: Path) -> Cloud | Mesh:
    """A mesh where there are faces, otherwise the vertices; vertex properties become attributes under their names."""
    data = path.read_bytes()
    end = re.search(rb"[\r\n]end_header[ \t]*(\r\n|\n|\r)", data[: 2**20])
    if not data.startswith(b"ply") or end is None:
        raise ValueError("not a PLY file: it must start with 'ply' and have an 'end_header'")
    order, elements = _parse_header(data[: end.start()].decode("latin-1"))
    body = memoryview(data)[end.end() :]
    if order == "=":
        body = memoryview(parse_numbers(bytes(body).decode("latin-1")).tobytes())
    columns, faces = {}, None
    for element in elements:
        scalars, lists, used = _read_element(body, element, order)
        body = body[used:]
        if element.name == "vertex":
            columns = scalars
        elif element.name == "face":
            faces = next((lists[name] for name in CORNERS if name in lists), None)
            if faces is None and element.count:
                raise ValueError(f"the faces have no list {' or '.join(CORNERS)}")
    cloud = cloud_from_columns(columns)
    if faces is None or len(faces[1]) == 0:
        return cloud
    return Mesh(cloud.points, triangulate(*faces), cloud.attributes)


def _parse_header(text: str) -> tuple[str, list[_Element]]:
    order, elements = None, []
    for line in re.split(r"[\r\n]+", text)[1:]:
        match line.split():
            case ["format", encoding, _] if encoding in ORDERS:
                order = ORDERS[encoding]
            case ["element", name, count] if count.isdecimal():
                elements.append(_Element(name, int(count)))
            case ["property", type_, name] if elements and type_ in TYPES:
                elements[-1].properties.append(_Property(name, TYPES[type_]))
            case ["property", "list", length, type_, name] if elements and {length, type_} <= TYPES.keys():
                elements[-1].properties.append(_Property(name, TYPES[type_], TYPES[length]))
            case [] | ["comment" | "obj_info", *_]:
                pass
            case _:
                raise ValueError(f"cannot understand the header line {line[:80]!r}")
    if order is None:
        raise ValueError("the header has no line 'format'")
    for element in elements:
        require_distinct([each.name for each in element.properties])
        if order == "=":  # the numbers of a text, which are float64 by now
            for each in element.properties:
                each.type, each.length_type = "f8", each.length_type and "f8"
    return order, elements


def _read_element(
    body: memoryview, element: _Element, order: str
) -> tuple[dict[str, NDArray], dict[str, tuple[NDArray, NDArray]], int]:
    """Scalars by name, lists by name as (all values, length per row), and the number of bytes they took."""
    if element.count == 0 or not element.properties:
        return {}, {}, 0
    _, lengths, _ = _walk(body, element, order, rows=1)
    fields: list[Any] = []
    for i, each in enumerate(element.properties):
        if each.length_type is None:
            fields.append((f"value {i}", order + each.type))
        else:
            fields.append((f"length {i}", order + each.length_type))
            fields.append((f"value {i}", order + each.type, (int(lengths[i][0]),)))
    dtype = np.dtype(fields)
    # As many rows as the file has room for, should they all be like the first.
    rows = np.frombuffer(body, dtype, min(element.count, len(body) // dtype.itemsize))
    alike = all((rows[f"length {i}"] == length[0]).all() for i, length in lengths.items())
    if alike and len(rows) == element.count:
        values = {i: rows[f"value {i}"].reshape(-1) for i in range(len(element.properties))}
        lengths = {i: np.repeat(length, element.count) for i, length in lengths.items()}
        used = element.count * dtype.itemsize
    elif lengths:
        values, lengths, used = _walk(body, element, order, rows=element.count)
    else:
        raise _too_short(element)
    scalars = {each.name: values[i] for i, each in enumerate(element.properties) if i not in lengths}
    lists = {each.name: (values[i], lengths[i]) for i, each in enumerate(element.properties) if i in lengths}
    return scalars, lists, used


def _walk(
    body: memoryview, element: _Element, order: str, rows: int
) -> tuple[dict[int, NDArray], dict[int, NDArray], int]:
    """Row by row, as lists of different lengths need: values and list lengths by the place of the property."""
    plan = [
        (i, np.dtype(order + each.type), np.dtype(order + each.length_type) if each.length_type else None)
        for i, each in enumerate(element.properties)
    ]
    values = {i: bytearray() for i, _, _ in plan}
    lengths = {i: array("q") for i, _, length_dtype in plan if length_dtype is not None}
    at = 0
    for _ in range(rows):
        for i, dtype, length_dtype in plan:
            length = 1
            if length_dtype is not None:
                if at + length_dtype.itemsize > len(body):
                    raise _too_short(element)
                said = np.frombuffer(body, length_dtype, 1, at)[0]
                at += length_dtype.itemsize
                if not (0 <= said <= len(body) and said == int(said)):
                    raise ValueError(f"a list of {said} numbers in element {element.name!r}")
                length = int(said)
                lengths[i].append(length)
            if at + length * dtype.itemsize > len(body):
                raise _too_short(element)
            values[i] += body[at : at + length * dtype.itemsize]
            at += length * dtype.itemsize
    return (
        {i: np.frombuffer(values[i], dtype) for i, dtype, _ in plan},
        {i: np.array(row_lengths, np.int64) for i, row_lengths in lengths.items()},
        at,
    )


def _too_short(element: _Element) -> ValueError:
    return ValueError(f"the file ends before the {element.count:,} rows of element {element.name!r} that it promises")
