"""Damaged and hostile files: each is read or refused by name, quickly and within a gibibyte."""

import io
import struct
import subprocess
import sys
import tracemalloc
import zlib

import laspy
import numpy as np
import pytest

from data.cloud_samples import (
    CORNERS,
    INTENSITY,
    MIXED,
    NORMALS,
    NUM_POINTS,
    POINTS,
    QUADS,
    RICH,
    RICH_ROWS,
    XYZ,
    lines,
    obj,
    off,
    pcd,
    ply,
    stl_ascii,
    stl_binary,
)
from data.fuzzing import assert_survives
from vnt.data.cloud_files import FORMATS, read_cloud

READER = "vnt.data.cloud_files:read_cloud"
PCD_FIELDS = [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<u2")]
PCD_COLUMNS = [*POINTS.T, INTENSITY]


def npy(values):
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def npz(save=np.savez):
    file = io.BytesIO()
    save(file, points=POINTS, normals=NORMALS, intensity=INTENSITY)
    return file.getvalue()


def las(*, compress, version="1.2", point_format=3):
    header = laspy.LasHeader(version=version, point_format=point_format)
    header.scales = np.full(3, 0.001)
    header.add_extra_dim(laspy.ExtraBytesParams("height", "f4"))
    data = laspy.LasData(header)
    data.xyz, data.intensity = POINTS, INTENSITY
    file = io.BytesIO()
    data.write(file, do_compress=compress)
    return file.getvalue()


FIELDS = np.zeros(NUM_POINTS, [("x", "f8"), ("y", "f8"), ("z", "f8"), ("ring", "u1")])
SAMPLES = {
    "off": [off(), off(start="OFF", faces=MIXED)],
    "ply": [ply(order, XYZ, CORNERS, faces) for order in ("", "<", ">") for faces in (QUADS, MIXED)],
    "rich.ply": [ply(order, RICH, RICH_ROWS) for order in ("", "<", ">")],
    "obj": [obj(), obj(faces=MIXED), obj(np.hstack([POINTS, NORMALS]), [])],
    "stl": [stl_ascii(), stl_binary()],
    "pcd": [pcd(encoding, PCD_FIELDS, PCD_COLUMNS) for encoding in ("ascii", "binary", "binary_compressed")],
    "xyz": [lines(POINTS).encode(), lines(np.hstack([POINTS, NORMALS])).encode()],
    "csv": [b"x,y,z,intensity\n" + lines(np.hstack([POINTS, INTENSITY[:, None]]), ",").encode()],
    "pts": [f"{NUM_POINTS}\n{lines(np.hstack([POINTS, INTENSITY[:, None]]))}".encode()],
    "npy": [npy(POINTS), npy(FIELDS)],
    "npz": [npz(), npz(np.savez_compressed)],
    "las": [las(compress=False), las(compress=False, version="1.4", point_format=7)],
    "laz": [las(compress=True), las(compress=True, version="1.4", point_format=7)],
    "bin": [np.hstack([POINTS, INTENSITY[:, None]]).astype("<f4").tobytes()],
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_damaged_files(tmp_path, kind):
    paths = []
    for i, sample in enumerate(SAMPLES[kind]):
        paths.append(tmp_path / f"{i}.{kind}")
        paths[-1].write_bytes(sample)
    assert_survives(READER, paths, count=2000)


def refusal(tmp_path, name, content):
    """The message of the refusal, which names the file; a warning would be an error here."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=name) as caught:
        read_cloud(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_is_no_file_of_its_format(tmp_path, suffix):
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(ValueError, match="expected a file, got a directory"):
        read_cloud(tmp_path / f"folder{suffix}")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_cloud(tmp_path / f"absent{suffix}")
    assert "is empty" in refusal(tmp_path, f"empty{suffix}", b"")
    refusal(tmp_path, f"zeros{suffix}", bytes(1001))
    refusal(tmp_path, f"blank{suffix}", b" \n" * 500 + b"\n")
    refusal(tmp_path, f"noise{suffix}", np.random.default_rng(0).bytes(1001))


NAN = np.where(np.arange(NUM_POINTS)[:, None] == 3, np.nan, POINTS)
NAN_CORNERS = np.where(np.arange(8)[:, None] == 3, np.nan, CORNERS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.off", off(vertices=NAN_CORNERS)),
        ("a.obj", obj(vertices=NAN_CORNERS)),
        ("a.stl", stl_ascii(vertices=NAN_CORNERS)),
        ("b.stl", stl_binary(vertices=NAN_CORNERS)),
        ("a.ply", ply("", XYZ, NAN_CORNERS, QUADS)),
        ("b.ply", ply("<", XYZ, NAN)),
        ("a.xyz", lines(NAN).encode()),
        ("a.npy", npy(NAN)),
        ("a.bin", np.hstack([NAN, NAN]).astype("<f4").tobytes()),
        ("a.pcd", pcd("ascii", PCD_FIELDS, [*np.where(np.isnan(NAN), np.inf, NAN).T, INTENSITY])),
    ],
)
def test_coordinates_that_are_not_finite(tmp_path, name, content):
    assert "not finite" in refusal(tmp_path, name, content)


ONE_TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
PLY_HEADER = "ply\nformat {} 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n"
HUGE = 4_000_000_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("short.off", off()[:-20], "12 faces promised"),
        ("many.off", f"OFF\n{HUGE} {HUGE} 0\n0 0 0\n".encode(), "promised, 1 lines found"),
        ("corners.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n4 0 1 2\n", "a face needs its number of corners"),
        ("outside.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "names vertex 3"),
        ("zero.obj", f"{ONE_TRIANGLE}f 0 1 2\n".encode(), "they count from 1"),
        ("outside.obj", f"{ONE_TRIANGLE}f 1 2 4\n".encode(), "names vertex 3 (counted from 0), there are 3"),
        ("back.obj", f"{ONE_TRIANGLE}f -1 -2 -4\n".encode(), "names vertex -4"),
        ("ragged.obj", b"v 1 2 3\nv 1 2 3 0 0 0\n", "different lengths"),
        ("many.stl", stl_binary()[:80] + struct.pack("<I", 2**32 - 1) + stl_binary()[84:], "4,294,967,295 triangles"),
        ("many_too.stl", b"x" * 80 + struct.pack("<I", 2**32 - 1), "4,294,967,295 triangles promised"),
        ("short.stl", stl_ascii()[:-30], "ends within a solid"),
        ("many.ply", (PLY_HEADER.format("ascii", HUGE) + "end_header\n1 2 3\n").encode(), "the file ends before"),
        (
            "many_binary.ply",
            (PLY_HEADER.format("binary_big_endian", HUGE) + "end_header\n1234").encode(),
            "ends before",
        ),
        ("long_list.ply", ply("<", XYZ, CORNERS, [[0, 1, 2]])[:-13] + b"\xff" * 13, "a list of 255 numbers"),
        ("outside.ply", ply(">", XYZ, CORNERS, [[0, 1, 8]]), "names vertex 8"),
        ("endless.ply", b"ply\nformat ascii 1.0\n", "end_header"),
        ("odd.ply", b"ply\nformat ascii 1.0\nelement vertex many\nend_header\n", "element vertex many"),
        ("flat.ply", b"ply\nformat ascii 1.0\nelement vertex 1\nproperty int x\nend_header\n1\n", "no column y, z"),
        ("ragged.xyz", b"1 2 3\n1 2\n", "number of columns changed from 3 to 2"),
        ("words.xyz", b"one two three\n1 2 3\n", "could not convert"),
        ("flat.csv", b"1,2\n3,4\n", "or more columns"),
        ("names.csv", b"x,y,z\n1,2,3,4\n", "3 names (x, y, z) for 4 columns"),
        ("nameless.csv", b"x,y,intensity\n1,2,3\n", "no column z among x, y, intensity"),
        ("twice.csv", b"x,y,z,z\n1,2,3,4\n", "2 columns are called 'z'"),
        ("count.pts", b"3\n1 2 3\n4 5 6\n", "promises 3 points, there are 2"),
        ("text.npy", npy(np.array([["a", "b", "c"]])), "expected real numbers"),
        ("objects.npy", npy(np.array([[1, 2, object]], dtype=object)), "never loaded"),
        ("short.npy", npy(POINTS)[:-8], "576 bytes, but there are 568"),
    ],
)
def test_what_the_message_says(tmp_path, name, content, message):
    assert message in refusal(tmp_path, name, content)


def test_absurd_headers(tmp_path):
    """Sizes that would be allocated if they were believed."""
    big = pcd("binary", PCD_FIELDS, PCD_COLUMNS).replace(b"WIDTH 24", b"WIDTH 4000000000")
    big = big.replace(b"POINTS 24", b"POINTS 4000000000")
    assert "4,000,000,000 points" in refusal(tmp_path, "a.pcd", big)
    packed = pcd("binary_compressed", PCD_FIELDS, PCD_COLUMNS).replace(b"WIDTH 24", b"WIDTH 200000000")
    packed = packed.replace(b"POINTS 24", b"POINTS 200000000")
    start = packed.index(b"compressed\n") + 11
    packed = packed[: start + 4] + struct.pack("<I", 200_000_000 * 14) + packed[start + 8 :]
    assert "would take" in refusal(tmp_path, "b.pcd", packed)
    for name, offset, letter, count in [("a.las", 107, "I", 2**32 - 1), ("a.laz", 107, "I", 2**32 - 1)]:
        scan = bytearray(SAMPLES[name[2:]][0])
        struct.pack_into(f"<{letter}", scan, offset, count)
        assert "4,294,967,295 points" in refusal(tmp_path, name, bytes(scan))
    for suffix in ("las", "laz"):
        scan = bytearray(SAMPLES[suffix][1])
        struct.pack_into("<Q", scan, 247, 2**63)
        assert "9,223,372,036,854,775,808 points" in refusal(tmp_path, f"b.{suffix}", bytes(scan))
        scan = bytearray(SAMPLES[suffix][0])
        struct.pack_into("<I", scan, 100, 2**32 - 1)
        assert "4,294,967,295 records before the points" in refusal(tmp_path, f"c.{suffix}", bytes(scan))
    shape = npy(POINTS).replace(b"(24, 3), }         ", b"(24000000000, 3), }")
    assert "24000000000" in refusal(tmp_path, "a.npy", shape)


def test_wrong_endianness(tmp_path):
    """Faces read backwards name vertices that are not there; a count read backwards is not in the file."""
    swapped = ply("<", XYZ, CORNERS, QUADS).replace(b"little", b"big")
    assert "names vertex" in refusal(tmp_path, "a.ply", swapped)
    scan = bytearray(SAMPLES["las"][0])
    scan[107:111] = scan[107:111][::-1]
    assert "points" in refusal(tmp_path, "a.las", bytes(scan))


@pytest.mark.parametrize("claimed", [None, 1_000_000])
def test_npz_bombs(tmp_path, claimed):
    """64 MiB of zeros that claim to be 4 GiB, or a megabyte: neither is expanded beyond what is granted."""
    data = zlib.compress(bytes(2**26), 9)[2:-4]
    name, size = b"points.npy", 2**32 - 2 if claimed is None else claimed
    entry = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(data), size, len(name), 0)
    local = b"PK\x03\x04" + entry + name + data
    directory = b"PK\x01\x02" + struct.pack("<H", 20) + entry + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(directory), len(local), 0)
    tracemalloc.start()
    refusal(tmp_path, "bomb.npz", local + directory + end)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_archives_on_the_command_line(tmp_path, save):
    """What `vnt data info` does with them: it must first tell a cloud from a file of windows."""
    (tmp_path / "a.npz").write_bytes(npz(save))
    assert_survives("vnt.cli.describe:describe", [tmp_path / "a.npz"], count=2000)


def test_no_reader_needs_torch():
    code = "import sys; import vnt.data.cloud_files; raise SystemExit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("shape", "message"), [((3, 500), "looks transposed"), ((120, 300), "an image is no cloud of points")]
)
def test_arrays_that_are_no_rows_of_points(tmp_path, shape, message):
    (tmp_path / "a.npy").write_bytes(npy(np.ones(shape)))
    with pytest.raises(ValueError, match=message):
        read_cloud(tmp_path / "a.npy")
