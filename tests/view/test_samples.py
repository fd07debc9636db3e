"""What files the page opens, and what it says of others."""

import numpy as np
import pytest

from vnt.view.content import make_content
from vnt.view.samples import built_in_tracks, read_upload
from vnt.view.studio import Pair

OFF = b"OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"


def tracks_csv(steps: int) -> bytes:
    rows = [f"{t * 0.1:.1f},car,{t},{0.1 * t * t},0" for t in range(steps)]
    return ("time,track,x,y,z\n" + "\n".join(rows) + "\n").encode()


@pytest.fixture(scope="module")
def pairs():
    return [Pair.load("shapes"), Pair.load("motion")]


def test_a_mesh_becomes_a_cloud(pairs):
    found = read_upload("a.off", OFF, pairs)
    assert found.name == "a.off"
    assert len(found.cloud) == 1024


def test_a_table_becomes_tracks(pairs):
    found = read_upload("t.csv", tracks_csv(60), pairs)
    assert len(found) == 1
    assert found[0].past.shape == (11, 3)
    assert found[0].future.shape == (30, 3)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.off", b"not a mesh", "a.off"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 99999999999\nend_header\n", "a.ply"),
        ("a.exe", b"MZ", "neither a cloud"),
        ("a.off", b"", "empty"),
        ("..", b"x", "not the name"),
        ("a.xyz", b"0 0 0\n1 1 1\n", "too few"),
        ("a.npy", b"\x93NUMPY" + b"\x00" * 50, "a.npy"),
        ("t.csv", tracks_csv(12), "no track"),
    ],
)
def test_what_is_not_a_cloud_gets_a_message(pairs, name, content, words):
    with pytest.raises(ValueError, match=words) as caught:
        read_upload(name, content, pairs)
    assert "tmp" not in str(caught.value)  # where it lay for a moment is nobody's business


def test_a_name_cannot_leave_the_folder(pairs, tmp_path):
    found = read_upload(f"../../{tmp_path.name}/evil.off", OFF, pairs)
    assert found.name == "evil.off"
    assert not list(tmp_path.iterdir())


def test_tracks_without_a_forecaster():
    with pytest.raises(ValueError, match="no model that forecasts"):
        read_upload("t.csv", tracks_csv(60), [Pair.load("shapes")])


def test_built_in_tracks_move():
    for track in built_in_tracks().values():
        assert np.linalg.norm(np.diff(track.future, axis=0), axis=1).sum() > 10


def test_files_of_the_same_name_stay_apart(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.off").write_bytes(OFF)
        (tmp_path / name / "t.csv").write_bytes(tracks_csv(100))
    files = [tmp_path / name / file for name in ("a", "b") for file in ("mine.off", "t.csv")]
    content, given = make_content(files)
    assert given == ["mine.off", "t: car (0)", "t: car (1)", "mine.off (2)", "t: car (0) (2)", "t: car (1) (2)"]
    assert set(given) <= {*content.clouds, *content.tracks}


def test_built_in_tracks_are_for_models_of_such_tracks():
    assert built_in_tracks({"past": 11, "dt": 0.1})
    assert not built_in_tracks({"past": 20, "dt": 0.1})
    assert not built_in_tracks({"past": 11, "dt": 0.5})


def test_files_come_beside_what_is_built_in(tmp_path):
    path = tmp_path / "mine.off"
    path.write_bytes(OFF)
    content, given = make_content([path])
    assert given == ["mine.off"]
    assert "chair" in content.clouds
    content, _ = make_content(model="motion")
    assert not content.clouds
    assert content.tracks
