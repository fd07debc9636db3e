"""Writers of small cloud files, apart from the readers that they test."""

import struct

import numpy as np

NUM_POINTS = 24
RNG = np.random.default_rng(5)
POINTS = RNG.normal(size=(NUM_POINTS, 3)).round(3)
NORMALS = np.linalg.qr(RNG.normal(size=(NUM_POINTS, 3, 3)))[0][:, 0]
INTENSITY = RNG.integers(0, 100, NUM_POINTS)
COLOURS = RNG.integers(0, 256, (NUM_POINTS, 3))

# A unit cube: eight corners, six quads, and two of them already cut into triangles.
CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
QUADS = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
MIXED = [[0, 1, 3], [0, 3, 2], *QUADS[1:]]
TRIANGLES = [face for a, b, c, d in QUADS for face in ([a, b, c], [a, c, d])]


def lines(rows, separator=" "):
    return "".join(separator.join(str(number) for number in row) + "\n" for row in rows)


def off(vertices=CORNERS, faces=TRIANGLES, start="OFF\n"):
    return (f"{start}{len(vertices)} {len(faces)} 0\n" + lines(vertices) + lines([len(f), *f] for f in faces)).encode()


def obj(vertices=CORNERS, faces=TRIANGLES):
    return (lines(["v", *row] for row in vertices) + lines(["f", *(i + 1 for i in face)] for face in faces)).encode()


def stl_ascii(vertices=CORNERS, triangles=TRIANGLES):
    text = "solid cube\n"
    for face in triangles:
        corners = "".join(f"      vertex {x} {y} {z}\n" for x, y, z in vertices[face])
        text += f"  facet normal 0 0 0\n    outer loop\n{corners}    endloop\n  endfacet\n"
    return (text + "endsolid cube\n").encode()


def stl_binary(vertices=CORNERS, triangles=TRIANGLES):
    data = b"solid, but binary".ljust(80) + struct.pack("<I", len(triangles))
    return data + b"".join(struct.pack("<12fH", 0, 0, 0, *vertices[face].ravel(), 7) for face in triangles)


def ply(order, properties, rows, faces=()):
    """``order`` is "", "<" or ">"; ``properties`` is a list of (PLY type, struct letter, name)."""
    encoding = {"": "ascii", "<": "binary_little_endian", ">": "binary_big_endian"}[order]
    text = f"ply\nformat {encoding} 1.0\ncomment by hand\nelement vertex {len(rows)}\n"
    text += "".join(f"property {type_} {name}\n" for type_, _, name in properties)
    if len(faces):
        text += f"element face {len(faces)}\nproperty list uchar int vertex_indices\n"
    data = (text + "end_header\n").encode()
    if not order:
        return data + (lines(rows) + lines([len(face), *face] for face in faces)).encode()
    letters = [letter for _, letter, _ in properties]
    for row in rows:
        values = [value if letter in "fd" else int(value) for letter, value in zip(letters, row, strict=True)]
        data += struct.pack(order + "".join(letters), *values)
    for face in faces:
        data += struct.pack(f"{order}B{len(face)}i", len(face), *face)
    return data


XYZ = [("double", "d", "x"), ("double", "d", "y"), ("double", "d", "z")]
RICH = [*XYZ, ("double", "d", "nx"), ("double", "d", "ny"), ("double", "d", "nz"), ("float", "f", "intensity")]
RICH += [("uchar", "B", "red"), ("uchar", "B", "green"), ("uchar", "B", "blue")]
RICH_ROWS = [[*p, *n, i, *c] for p, n, i, c in zip(POINTS, NORMALS, INTENSITY, COLOURS.tolist(), strict=True)]


def pcd(encoding, fields, columns, *, height=1):
    """``fields`` is a list of (name, NumPy type); ``columns`` has an (N,) or (N, count) array for each."""
    columns = [np.asarray(column).astype(dtype) for (_, dtype), column in zip(fields, columns, strict=True)]
    columns = [column.reshape(len(column), -1) for column in columns]
    count = len(columns[0])
    kinds = {"f": "F", "i": "I", "u": "U"}
    header = {
        "VERSION": [0.7],
        "FIELDS": [name for name, _ in fields],
        "SIZE": [column.itemsize for column in columns],
        "TYPE": [kinds[column.dtype.kind] for column in columns],
        "COUNT": [column.shape[1] for column in columns],
        "WIDTH": [count // height],
        "HEIGHT": [height],
        "VIEWPOINT": [0, 0, 0, 1, 0, 0, 0],
        "POINTS": [count],
        "DATA": [encoding],
    }
    data = ("# .PCD v0.7\n" + lines([key, *values] for key, values in header.items())).encode()
    if encoding == "ascii":
        rows = [[value for column in columns for value in column[i].tolist()] for i in range(count)]
        return data + lines(rows).encode()
    if encoding == "binary":
        return data + b"".join(column[i].tobytes() for i in range(count) for column in columns)
    raw = b"".join(column.tobytes() for column in columns)
    packed = lzf(raw)
    return data + struct.pack("<II", len(packed), len(raw)) + packed


def lzf(data):
    """A plain LZF compressor: the last place of each three bytes is all it remembers."""
    seen, out, literals, at = {}, bytearray(), bytearray(), 0

    def flush():
        for start in range(0, len(literals), 32):
            piece = literals[start : start + 32]
            out.extend([len(piece) - 1, *piece])
        literals.clear()

    while at < len(data):
        key = data[at : at + 3]
        place = seen.get(key, -1)
        seen[key] = at
        if len(key) < 3 or place < 0 or at - place > 8192:
            literals.append(data[at])
            at += 1
            continue
        length = 3
        while length < 264 and at + length < len(data) and data[place + length] == data[at + length]:
            length += 1
        flush()
        distance = at - place - 1
        head = [min(length - 2, 7) << 5 | distance >> 8]
        out.extend([*head, *([length - 9] if length >= 9 else []), distance & 255])
        at += length
    flush()
    return bytes(out)
