"""Every format by files written here, number for number; then what is drawn from surfaces."""

import io
import zipfile

import laspy
import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose, assert_array_equal

from data.cloud_samples import (
    COLOURS,
    CORNERS,
    INTENSITY,
    MIXED,
    NORMALS,
    NUM_POINTS,
    POINTS,
    QUADS,
    RICH,
    RICH_ROWS,
    TRIANGLES,
    XYZ,
    lines,
    lzf,
    obj,
    off,
    pcd,
    ply,
    stl_ascii,
    stl_binary,
)
from vnt.data.cloud import Cloud
from vnt.data.cloud_files import FORMATS, NUM_MESH_POINTS, read_cloud
from vnt.data.cloud_files.arrays import write_npz_cloud
from vnt.data.cloud_files.lzf import decompress


@pytest.fixture
def read(tmp_path):
    """Write bytes or text under a name and read them back."""

    def read(name, content, **options):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_cloud(path, **options)

    return read


def assert_on_cube(cloud):
    """On the surface of the unit cube, each with the outward or inward normal of its side."""
    distance = np.minimum(np.abs(cloud.points), np.abs(cloud.points - 1))
    assert cloud.points.min() > -1e-6
    assert cloud.points.max() < 1 + 1e-6
    assert distance.min(1).max() < 1e-6
    axis = np.abs(cloud.normals).argmax(1)
    assert_allclose(np.linalg.norm(cloud.normals, axis=1), 1)
    assert distance[np.arange(len(axis)), axis].max() < 1e-6


MESHES = {
    "modelnet.off": off(),
    "glued.off": off(start="OFF"),
    "quads.off": off(faces=QUADS),
    "mixed.OFF": off(faces=MIXED, start="# made by hand\n\nOFF # here\n"),
    "triangles.obj": obj(),
    "quads.obj": obj(faces=QUADS),
    "mixed.obj": b"mtllib no/such.mtl\r\n" + obj(faces=MIXED).replace(b"\n", b"\r\n"),
    "ascii.stl": stl_ascii(),
    "two_solids.stl": stl_ascii(triangles=TRIANGLES[:3]) + stl_ascii(triangles=TRIANGLES[3:]),
    "binary.stl": stl_binary(),
    "trailing.stl": stl_binary() + b"made by hand" * 9,
    **{f"triangles{o}.ply": ply(o, XYZ, CORNERS, TRIANGLES) for o in ("", "<", ">")},
    **{f"quads{o}.ply": ply(o, XYZ, CORNERS, QUADS) for o in ("", "<", ">")},
    **{f"mixed{o}.ply": ply(o, XYZ, CORNERS, MIXED) for o in ("", "<", ">")},
}


@pytest.mark.parametrize("name", MESHES)
def test_meshes_are_sampled_on_their_surface(read, name):
    cloud = read(name.replace("<", "le").replace(">", "be"), MESHES[name])
    assert len(cloud) == NUM_MESH_POINTS == 1024
    assert_on_cube(cloud)
    # Every side has a sixth of the area: 1024 draws stay within five standard deviations.
    sides = np.abs(cloud.normals).argmax(1) * 2 + (cloud.points[range(1024), np.abs(cloud.normals).argmax(1)] > 0.5)
    assert np.abs(np.bincount(sides, minlength=6) - 1024 / 6).max() < 60


@pytest.mark.parametrize("suffix", ["off", "obj", "stl", "ply"])
def test_what_trimesh_writes(tmp_path, suffix):
    """A writer that is not ours."""
    path = tmp_path / f"ball.{suffix}"
    trimesh.creation.icosphere(subdivisions=3).export(path)
    cloud = read_cloud(path, num_points=500)
    assert_allclose(np.linalg.norm(cloud.points, axis=1), 1, atol=0.02)
    assert_allclose((cloud.points * cloud.normals).sum(1), 1, atol=0.02)


def test_sampling_is_by_area_and_follows_its_seed(read):
    """Triangles of area 1/2 and 9/2, told apart by a vertex attribute that also shows the interpolation."""
    vertices = [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 5, 1], [3, 0, 5, 4], [0, 3, 5, 7]]
    content = ply("", [*XYZ, ("float", "f", "heat")], vertices, [[0, 1, 2], [3, 4, 5]])
    cloud = read("two.ply", content, num_points=20_000)
    high = cloud.points[:, 2] > 2
    assert abs(high.mean() - 0.9) < 0.01
    assert_allclose(cloud.points[high].mean(0), [1, 1, 5], atol=0.03)
    assert_allclose(cloud.attributes["heat"][high], (1 + cloud.points[:, 0] + 2 * cloud.points[:, 1])[high], rtol=1e-5)
    assert_array_equal(cloud.attributes["heat"][~high], 0)
    assert_array_equal(cloud.normals, np.tile([0.0, 0, 1], (20_000, 1)))
    first, again, other = (read("two.ply", content, num_points=50, seed=seed).points for seed in (3, 3, 4))
    assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_sampling_at_any_size(read, scale):
    cloud = read("cube.off", off(vertices=CORNERS * scale), num_points=10)
    assert_allclose(np.linalg.norm(cloud.normals, axis=1), 1)
    assert 0 < cloud.points.max() <= scale


def test_a_mesh_without_area_is_refused(read):
    with pytest.raises(ValueError, match="total area of zero"):
        read("line.off", off(vertices=np.eye(3)[[0, 0, 1]], faces=[[0, 1, 2]]))


@pytest.mark.parametrize("order", ["", "<", ">"])
def test_ply_clouds(read, order):
    cloud = read("rich.ply", ply(order, RICH, RICH_ROWS))
    assert_array_equal(cloud.points, POINTS)
    assert_array_equal(cloud.normals, NORMALS)
    assert list(cloud.attributes) == ["intensity", "red", "green", "blue"]
    assert_array_equal(cloud.attributes["intensity"], INTENSITY)
    assert_array_equal(np.stack([cloud.attributes[c] for c in ("red", "green", "blue")], 1), COLOURS)


def test_ply_elements_in_any_order_and_lists_in_any_place(read):
    content = """ply
format ascii 1.0
element camera 1
property float fov
element vertex 2
property list uchar float weights
property float x
property float z
property float y
end_header
70
2 9 9 1 3 2
0 4 6 5
"""
    for newline in ("\n", "\r\n", "\r"):
        assert_array_equal(read("odd.ply", content.replace("\n", newline)).points, [[1, 2, 3], [4, 5, 6]])


def test_obj_clouds(read):
    assert_array_equal(read("points.obj", obj(POINTS, [])).points, POINTS)
    cloud = read("coloured.obj", obj(np.hstack([POINTS, COLOURS]), []))
    assert_array_equal(cloud.attributes["green"], COLOURS[:, 1])
    cloud = read("normals.obj", obj(POINTS, []).decode() + lines(["vn", *row] for row in NORMALS))
    assert_array_equal(cloud.normals, NORMALS)


def test_obj_faces_count_back_from_their_own_line(read):
    """Both faces mean the three vertices before them; texture and normal indices are not looked at."""
    first = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3/1/1 -2//4 -1/2\n"
    second = "v 7 0 0\nv 7 1 0\nv 7 0 1\nf -3 \\\n-2 -1\n"
    cloud = read("relative.obj", first + second, num_points=100)
    at_seven = cloud.points[:, 0] == 7
    assert_array_equal(cloud.normals[at_seven], np.tile([1.0, 0, 0], (at_seven.sum(), 1)))
    assert_array_equal(cloud.normals[~at_seven], np.tile([0.0, 0, 1], ((~at_seven).sum(), 1)))
    assert 25 < at_seven.sum() < 75


PCD_FIELDS = [(name, "<f8") for name in ("x", "y", "z", "normal_x", "normal_y", "normal_z")]
PCD_FIELDS += [("rgb", "<f4"), ("_", "<u1"), ("histogram", "<f4"), ("ring", "<u2")]
HISTOGRAM = np.arange(NUM_POINTS * 3.0).reshape(-1, 3)
PACKED = (COLOURS[:, 0] << 16 | COLOURS[:, 1] << 8 | COLOURS[:, 2]).astype("<u4").view("<f4")
PCD_COLUMNS = [*POINTS.T, *NORMALS.T, PACKED, np.zeros((NUM_POINTS, 4)), HISTOGRAM, INTENSITY]


@pytest.mark.parametrize("encoding", ["ascii", "binary", "binary_compressed"])
def test_pcd(read, encoding):
    cloud = read("rich.pcd", pcd(encoding, PCD_FIELDS, PCD_COLUMNS))
    assert_array_equal(cloud.points, POINTS)
    assert_array_equal(cloud.normals, NORMALS)
    assert list(cloud.attributes) == ["red", "green", "blue", "histogram_0", "histogram_1", "histogram_2", "ring"]
    assert_array_equal(np.stack([cloud.attributes[c] for c in ("red", "green", "blue")], 1), COLOURS)
    assert_array_equal(cloud.attributes["histogram_2"], HISTOGRAM[:, 2])
    assert_array_equal(cloud.attributes["ring"], INTENSITY)


@pytest.mark.parametrize("encoding", ["ascii", "binary", "binary_compressed"])
def test_pcd_drops_pixels_that_saw_nothing(read, encoding):
    points, normals = POINTS.copy(), NORMALS.copy()
    points[[2, 7]] = np.nan
    normals[0] = np.nan
    columns = [*points.T, *normals.T, PACKED.view("<u4")]
    fields = [*PCD_FIELDS[:6], ("rgba", "<u4")]
    cloud = read("depth.pcd", pcd(encoding, fields, columns, height=4))
    kept = np.delete(np.arange(NUM_POINTS), [2, 7])
    assert_array_equal(cloud.points, POINTS[kept])
    assert_array_equal(cloud.normals[0], [0, 0, 0])
    assert_array_equal(cloud.attributes["blue"], COLOURS[kept, 2])
    with pytest.raises(ValueError, match="all 24 points are NaN"):
        read("blind.pcd", pcd(encoding, PCD_FIELDS[:3], np.full((3, NUM_POINTS), np.nan)))


def test_lzf_expands_what_was_compressed():
    rng = np.random.default_rng(0)
    for alphabet in (1, 2, 256):
        data = rng.integers(0, alphabet, 20_000, dtype=np.uint8).tobytes()
        assert decompress(lzf(data), len(data)) == data


TABLE = np.hstack([POINTS, INTENSITY[:, None], COLOURS])


@pytest.mark.parametrize("suffix", ["xyz", "txt", "csv", "pts"])
@pytest.mark.parametrize("separator", [" ", "\t", ",", ", ", ";"])
def test_tables_without_names(read, suffix, separator):
    assert_array_equal(read(f"a.{suffix}", lines(POINTS, separator)).points, POINTS)
    cloud = read(f"b.{suffix}", "# a comment\n\n" + lines(TABLE, separator) + "// another\n")
    assert_array_equal(cloud.points, POINTS)
    assert list(cloud.attributes) == ["column_3", "column_4", "column_5", "column_6"]
    assert_array_equal(cloud.attributes["column_6"], COLOURS[:, 2])
    cloud = read(f"c.{suffix}", f"{NUM_POINTS}\r\n" + lines(np.hstack([POINTS, NORMALS]), separator))
    assert_array_equal(cloud.normals, NORMALS)
    cloud = read(f"d.{suffix}", lines(np.hstack([POINTS, COLOURS]), separator))
    assert cloud.normals is None
    assert list(cloud.attributes) == ["column_3", "column_4", "column_5"]


@pytest.mark.parametrize("start", ["", "# ", "//", "\ufeff"])
@pytest.mark.parametrize("separator", [" ", ",", ";"])
def test_tables_with_names(read, start, separator):
    names = separator.join(["Intensity", "Z", "Y", '"X"', "nx", "ny", "nz"])
    rows = np.hstack([INTENSITY[:, None], POINTS[:, ::-1], NORMALS])
    cloud = read("named.csv", f"{start}{names}\n" + lines(rows, separator))
    assert_array_equal(cloud.points, POINTS)
    assert_array_equal(cloud.normals, NORMALS)
    assert_array_equal(cloud.attributes["Intensity"], INTENSITY)


def test_npy(read):
    def saved(values):
        file = io.BytesIO()
        np.save(file, values)
        return file.getvalue()

    assert_array_equal(read("a.npy", saved(POINTS)).points, POINTS)
    assert_array_equal(read("a.npy", saved(np.asfortranarray(POINTS.astype(">f4")))).points, POINTS.astype("f4"))
    assert_array_equal(read("b.npy", saved(np.hstack([POINTS, NORMALS]))).normals, NORMALS)
    assert list(read("c.npy", saved(TABLE)).attributes) == ["column_3", "column_4", "column_5", "column_6"]
    fields = np.zeros(NUM_POINTS, [("x", "f8"), ("y", "f8"), ("z", "f8"), ("ring", "u1"), ("colour", "u1", 3)])
    fields["x"], fields["y"], fields["z"], fields["ring"], fields["colour"] = *POINTS.T, INTENSITY, COLOURS
    cloud = read("d.npy", saved(fields))
    assert_array_equal(cloud.points, POINTS)
    assert_array_equal(cloud.attributes["ring"], INTENSITY)
    assert_array_equal(cloud.attributes["colour_1"], COLOURS[:, 1])


def test_npz_columns_have_names(tmp_path):
    arrays = {
        "heat": INTENSITY[:, None],
        "wave": COLOURS,
        "Colors": COLOURS,
        "flag": INTENSITY > 50,
        "label": np.zeros(3),
    }
    np.savez(tmp_path / "a.npz", points=POINTS, cube=np.zeros((NUM_POINTS, 2, 2)), **arrays)
    cloud = read_cloud(tmp_path / "a.npz")
    assert list(cloud.attributes) == ["heat", "wave_0", "wave_1", "wave_2", "red", "green", "blue", "flag"]
    assert_array_equal(cloud.attributes["heat"], INTENSITY)
    assert_array_equal(cloud.attributes["wave_1"], COLOURS[:, 1])
    assert_array_equal(cloud.attributes["blue"], COLOURS[:, 2])
    np.savez(tmp_path / "b.npz", points=POINTS, colors=COLOURS, red=INTENSITY)
    with pytest.raises(ValueError, match=r"b\.npz: 2 columns are called 'red'"):
        read_cloud(tmp_path / "b.npz")


def test_a_cloud_written_as_npz_comes_back(tmp_path):
    attributes = {name: INTENSITY + i for i, name in enumerate(["file", "points", "normals", "speed[m/s]", "points_"])}
    write_npz_cloud(Cloud(POINTS, NORMALS, attributes), tmp_path / "a.npz")
    cloud = read_cloud(tmp_path / "a.npz")
    assert_array_equal(cloud.points, POINTS)
    assert_array_equal(cloud.normals, NORMALS)
    assert list(cloud.attributes) == ["file", "points_", "normals_", "speed[m/s]", "points__"]
    for i, values in enumerate(cloud.attributes.values()):
        assert_array_equal(values, INTENSITY + i)
    assert_array_equal(np.load(tmp_path / "a.npz")["points"], POINTS)  # NumPy reads it as well


@pytest.mark.parametrize("key", ["points", "xyz", "pos", "arr_0"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, key, save):
    save(tmp_path / "a.npz", **{key: POINTS, "normals": NORMALS, "heat": INTENSITY, "label": 3})
    cloud = read_cloud(tmp_path / "a.npz")
    assert_array_equal(cloud.points, POINTS)
    assert_array_equal(cloud.normals, NORMALS)
    assert list(cloud.attributes) == ["heat"]


@pytest.mark.parametrize("suffix", ["las", "laz"])
@pytest.mark.parametrize(("version", "point_format"), [("1.2", 3), ("1.4", 7)])
def test_las(tmp_path, suffix, version, point_format):
    header = laspy.LasHeader(version=version, point_format=point_format)
    header.add_extra_dim(laspy.ExtraBytesParams("height", "f4"))
    header.add_extra_dim(laspy.ExtraBytesParams("wave", "3u1"))
    origin = np.array([4e5, 5e6, 0])
    header.offsets, header.scales = origin, np.full(3, 0.001)
    las = laspy.LasData(header)
    las.xyz = POINTS + origin
    las.intensity, las.red, las.height, las.wave = INTENSITY, COLOURS[:, 0], POINTS[:, 0], COLOURS
    las.return_number = np.arange(NUM_POINTS) % 5
    las.write(tmp_path / f"scan.{suffix}")
    cloud = read_cloud(tmp_path / f"scan.{suffix}")
    assert_allclose(cloud.points - origin, POINTS, atol=1e-8)
    assert_array_equal(cloud.attributes["intensity"], INTENSITY)
    assert_array_equal(cloud.attributes["red"], COLOURS[:, 0])
    assert_array_equal(cloud.attributes["return_number"], np.arange(NUM_POINTS) % 5)
    assert_array_equal(cloud.attributes["height"], POINTS[:, 0].astype("f4"))
    assert_array_equal(cloud.attributes["wave_2"], COLOURS[:, 2])
    assert "classification" in cloud.attributes
    assert not {"X", "x"} & set(cloud.attributes)


def test_kitti(read):
    sweep = np.hstack([POINTS, INTENSITY[:, None]]).astype("<f4")
    cloud = read("000000.bin", sweep.tobytes())
    assert_array_equal(cloud.points, sweep[:, :3])
    assert_array_equal(cloud.attributes["intensity"], INTENSITY)
    with pytest.raises(ValueError, match="16 bytes"):
        read("000001.bin", sweep.tobytes()[:-1])


def test_nuscenes(read):
    sweep = np.hstack([POINTS, INTENSITY[:, None], np.arange(NUM_POINTS)[:, None]]).astype("<f4")
    cloud = read("n015__LIDAR_TOP.pcd.bin", sweep.tobytes())
    assert_array_equal(cloud.points, sweep[:, :3])
    assert_array_equal(cloud.attributes["intensity"], INTENSITY)
    assert_array_equal(cloud.attributes["ring"], np.arange(NUM_POINTS))
    with pytest.raises(ValueError, match="nuScenes sweep: a point is 5 float32, 20 bytes"):
        read("short.pcd.bin", sweep.tobytes()[:-4])


UNKNOWN = np.where(np.arange(NUM_POINTS) == 3, np.nan, INTENSITY)
KNOWN = np.where(np.arange(NUM_POINTS) == 3, 0, INTENSITY)


@pytest.mark.parametrize("name", ["a.pcd", "b.pcd", "a.ply", "b.ply", "a.csv", "a.npy", "a.npz", "a.bin", "mesh.ply"])
def test_what_is_not_known_of_a_point_is_zero(tmp_path, name):
    """PCL writes NaN for a curvature, CloudCompare for a scalar field; coordinates must be numbers all the same."""
    path, rows = tmp_path / name, np.hstack([POINTS, UNKNOWN[:, None]])
    fields, properties = [*PCD_FIELDS[:3], ("curvature", "<f4")], [*XYZ, ("float", "f", "scalar_field")]
    match name:
        case "a.pcd" | "b.pcd":
            path.write_bytes(pcd("ascii" if name == "a.pcd" else "binary", fields, rows.T))
        case "a.ply" | "b.ply":
            path.write_bytes(ply("" if name == "a.ply" else "<", properties, rows))
        case "a.csv":
            path.write_text("x,y,z,heat\n" + lines(rows, ","))
        case "a.npy":
            np.save(path, rows)
        case "a.npz":
            np.savez(path, points=POINTS, heat=UNKNOWN)
        case "a.bin":
            path.write_bytes(rows.astype("<f4").tobytes())
        case "mesh.ply":
            heat = np.full((8, 1), np.nan)
            path.write_bytes(ply("<", properties, np.hstack([CORNERS, heat]), QUADS))
            assert_array_equal(read_cloud(path).attributes["scalar_field"], np.zeros(1024))
            return
    (values,) = read_cloud(path).attributes.values()
    assert_array_equal(values, KNOWN)


def test_an_infinite_attribute_is_refused(read):
    with pytest.raises(ValueError, match="not finite, the first is value of attribute 'heat' 1"):
        read("a.csv", "x,y,z,heat\n1,2,3,4\n1,2,3,inf\n")


def test_marks_and_comments_in_meshes(read):
    """A byte order mark before the first line, and remarks after the numbers of any line."""
    content = "\ufeff" + obj().decode().replace("\n", " # a remark\n")
    assert_on_cube(read("remarks.obj", content))
    assert_on_cube(read("remarks.off", "\ufeff" + off().decode().replace("\n", " # a remark\n")))


def test_off_with_colours_or_normals(read):
    coloured = off(np.hstack([POINTS, COLOURS]), [], start="COFF\n")
    cloud = read("a.off", coloured)
    assert_array_equal(cloud.points, POINTS)
    assert_array_equal(np.stack([cloud.attributes[name] for name in ("red", "green", "blue")], 1), COLOURS)
    opaque = off(np.hstack([POINTS, COLOURS, COLOURS[:, :1]]), [], start="COFF\n")
    assert list(read("b.off", opaque).attributes) == ["red", "green", "blue", "alpha"]
    assert_array_equal(read("c.off", off(np.hstack([POINTS, NORMALS]), [], start="NOFF\n")).normals, NORMALS)
    mesh = read("d.off", off(np.hstack([CORNERS, CORNERS]), start="COFF\n"))
    assert_allclose(mesh.attributes["green"], mesh.points[:, 1], atol=1e-6)
    plain = read("e.off", off(np.hstack([POINTS, COLOURS, NORMALS]), [], start="CNOFF\n"))
    assert not plain.attributes
    assert plain.normals is None


def test_tables_as_spreadsheets_write_them(read):
    quoted = '"x","y","z","heat"\r\n' + "".join(f'"{x}","{y}","{z}","7"\r\n' for x, y, z in POINTS)
    cloud = read("quoted.csv", quoted)
    assert_array_equal(cloud.points, POINTS)
    assert_array_equal(cloud.attributes["heat"], np.full(NUM_POINTS, 7))
    for separator in (",", ";"):
        for header in ("", f"x{separator}y{separator}z{separator}\n", f"x{separator}y{separator}z\n"):
            rows = "".join(separator.join(map(str, row)) + f"{separator}\n" for row in POINTS)
            cloud = read("trailing.csv", header + rows)
            assert_array_equal(cloud.points, POINTS)
            assert not cloud.attributes
    with pytest.raises(ValueError, match="number of columns changed from 3 to 4"):
        read("partly.csv", "x,y,z,\n1,2,3,\n1,2,3,4\n")


def test_tabs_keep_names_with_blanks_together(read):
    content = "x\ty\tz\tmy heat\n" + lines(np.hstack([POINTS, INTENSITY[:, None]]), "\t")
    assert_array_equal(read("a.txt", content).attributes["my heat"], INTENSITY)
    assert_array_equal(read("b.txt", "# " + content).attributes["my heat"], INTENSITY)
    assert_array_equal(read("c.txt", "x y z\t\n" + lines(POINTS)).points, POINTS)
    assert_array_equal(read("d.txt", content.replace("my heat", "heat, J")).attributes["heat, J"], INTENSITY)
    assert_array_equal(read("e.txt", "x\ty\tz\n" + lines(POINTS)).points, POINTS)


def test_a_subset_of_a_cloud(read):
    content = lines(np.hstack([POINTS, np.arange(NUM_POINTS)[:, None]]))
    few = read("a.xyz", content, num_points=10, seed=1)
    index = few.attributes["column_3"].astype(int)
    assert len(set(index)) == 10
    assert (np.diff(index) > 0).all()
    assert_array_equal(few.points, POINTS[index])
    assert_array_equal(few.points, read("a.xyz", content, num_points=10, seed=1).points)
    assert (few.points != read("a.xyz", content, num_points=10, seed=2).points).any()
    assert_array_equal(read("a.xyz", content, num_points=100).points, POINTS)


def test_unknown_suffixes_and_numbers(read):
    with pytest.raises(ValueError, match=r"cloud\.docx: unknown suffix '\.docx', expected one of \.off, \.ply"):
        read("cloud.docx", "1 2 3")
    with pytest.raises(ValueError, match="num_points must be at least 1, got 0"):
        read("cloud.xyz", "1 2 3", num_points=0)
    assert {".off", ".pcd", ".laz", ".bin"} <= FORMATS.keys()


def test_npz_members_that_are_not_arrays_are_left_out(tmp_path):
    np.savez(tmp_path / "a.npz", points=POINTS)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("readme.txt", "hello")
    assert_array_equal(read_cloud(tmp_path / "a.npz").points, POINTS)


def test_a_point_without_a_normal_has_a_zero(tmp_path):
    points, normals = np.arange(12.0).reshape(4, 3), np.eye(3)[[0, 1, 2, 0]]
    normals[2] = 0
    np.savetxt(tmp_path / "a.xyz", np.hstack([points, normals]))
    assert_array_equal(read_cloud(tmp_path / "a.xyz").normals, normals)
    np.savetxt(tmp_path / "b.xyz", np.hstack([points, 0 * normals]))
    assert read_cloud(tmp_path / "b.xyz").normals is None
