import numpy as np
import pytest

from vnt.data.kitti import read_poses


def write(path, places):
    """Poses with the identity as rotation, and camera coordinates as given."""
    lines = [f"1 0 0 {x!r} 0 1 0 {y!r} 0 0 1 {z!r}" for x, y, z in places]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_camera_axes_become_forward_left_up(tmp_path):
    """The car drives 2 m forward, then 1 m right of it, then 0.5 m down, in steps of half a second."""
    recording = read_poses(write(tmp_path / "07.txt", [(0, 0, 0), (0, 0, 2), (1, 0, 2), (1, 0.5, 2)]), rate=2)
    np.testing.assert_array_equal(recording.positions[0], [[0, 0, 0], [2, 0, 0], [2, -1, 0], [2, -1, -0.5]])
    assert recording.attribute_names == ("speed",)
    np.testing.assert_array_equal(recording.attributes[0, :, 0], [4, 4, 2, 1])
    assert (recording.name, recording.dt, recording.track_ids, recording.types) == ("07", 0.5, ("ego",), ("vehicle",))
    assert recording.own.all()
    assert recording.valid.all()


def test_axes_are_turned_and_not_mirrored(tmp_path):
    path = write(tmp_path / "axes.txt", [(0, 0, 0), *np.eye(3).tolist()])
    assert np.linalg.det(read_poses(path).positions[0, 1:]) == 1


def test_speed_never_looks_ahead(tmp_path):
    before = read_poses(write(tmp_path / "a.txt", [(0, 0, t) for t in range(5)]))
    after = read_poses(write(tmp_path / "b.txt", [*[(0, 0, t) for t in range(5)], (0, 0, 900)]))
    np.testing.assert_array_equal(after.attributes[0, :5], before.attributes[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0 0 0 0 1 0 0 0 0 1 0\n\n1 2 3\n", "line 3 has 3 numbers, a pose has 12"),
        ("1 0 0 0 0 1 0 0 0 0 1 0\n1 0 0 zero 0 1 0 0 0 0 1 0\n", "line 2: could not convert string to float: 'zero'"),
        ("1 0 0 0 0 1 0 0 0 0 1 0\n1 0 0 nan 0 1 0 0 0 0 1 0\n", "not finite"),
        ("1 0 0 0 0 1 0 0 0 0 1 0\n", "at least two poses, got 1"),
    ],
)
def test_what_is_no_path_is_refused(tmp_path, text, message):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_poses(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_rate_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="rate must be positive, got 0"):
        read_poses(write(tmp_path / "a.txt", [(0, 0, 0)] * 2), rate=0)
