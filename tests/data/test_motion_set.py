import json
from dataclasses import fields, replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from vnt.data.motion_set import MOVING_METRES, MotionSet, cut_windows, join, load, save, select, split_of
from vnt.data.recording import Recording


def recording(n: int = 3, T: int = 30, *, current: int | None = None, name: str = "scene") -> Recording:
    """Track i is at (1e6 + i t, 100 i, 0) at step t, with attributes t and i."""
    i, t = np.meshgrid(np.arange(n), np.arange(T), indexing="ij")
    return Recording(
        name=name,
        dt=0.1,
        positions=np.stack([1e6 + i * t, 100 * i, 0 * t], axis=-1).astype(np.float64),
        valid=np.ones((n, T), bool),
        track_ids=tuple(f"track {k}" for k in range(n)),
        types=tuple(["vehicle", "pedestrian", "vehicle", "cyclist"][k % 4] for k in range(n)),
        attributes=np.stack([t, i], axis=-1).astype(np.float32),
        attribute_names=("step", "number"),
        current=current,
        to_predict=np.arange(n) == 1,
        own=np.arange(n) == 0,
    )


def scenes(count: int) -> MotionSet:
    return join(
        [cut_windows(recording(T=31, name=f"scene {k}"), past=4, future=6) for k in range(count)], name="scenes"
    )


def assert_same(a: MotionSet, b: MotionSet) -> None:
    for each in fields(MotionSet):
        one, other = getattr(a, each.name), getattr(b, each.name)
        if isinstance(one, np.ndarray):
            assert one.dtype.kind == other.dtype.kind, each.name
            np.testing.assert_array_equal(one, other, err_msg=each.name)
        else:
            assert one == other, each.name


def test_windows_are_relative_to_the_last_observed_step():
    windows = cut_windows(recording(), past=4, future=6, stride=5)
    assert len(windows) == 3 * 5  # starts 0, 5, 10, 15, 20: the last ends on the last step
    last = windows.take(windows.track == "track 2").take(np.array([4]))
    np.testing.assert_array_equal(last.past[0], [[2 * k, 0, 0] for k in range(-3, 1)])
    np.testing.assert_array_equal(last.future[0], [[2 * k, 0, 0] for k in range(1, 7)])
    np.testing.assert_array_equal(last.origin, [[1e6 + 2 * 23, 200, 0]])
    np.testing.assert_array_equal(last.attributes[0], [[20, 2], [21, 2], [22, 2], [23, 2]])
    assert last.attribute_names == ("step", "number")
    assert (last.scenario[0], last.types[0]) == ("scene", "vehicle")
    assert not last.is_test.any()


@pytest.mark.parametrize(("T", "count"), [(9, 0), (10, 1), (11, 2), (12, 3)])
def test_windows_at_the_edges(T, count):
    assert len(cut_windows(recording(1, T), past=4, future=6, stride=1)) == count


def test_a_window_needs_every_step():
    scene = recording(1, 30)
    scene.valid[0, 12] = False
    windows = cut_windows(scene, past=4, future=6, stride=1)
    starts = windows.attributes[:, 0, 0]
    np.testing.assert_array_equal(starts, [0, 1, 2, *range(13, 21)])


@pytest.mark.parametrize(("current", "count"), [(2, 0), (3, 3), (23, 3), (24, 0)])
def test_now_is_the_last_observed_step(current, count):
    windows = cut_windows(recording(current=current), past=4, future=6)
    assert len(windows) == count
    np.testing.assert_array_equal(windows.attributes[:, -1, 0], [current] * count)
    assert len(cut_windows(recording(current=current), past=4, future=6, stride=5, at_current=False)) == 15


def test_positions_far_away_keep_their_millimetres():
    scene = recording(1, 10)
    scene.positions[0, :, 1] = 5e6 + 0.001 * np.arange(10)
    windows = cut_windows(scene, past=4, future=6)
    np.testing.assert_allclose(windows.future[0, :, 1], 0.001 * np.arange(1, 7), atol=2e-9)


def test_what_moves_is_ever_further_than_two_metres_from_its_start():
    scene = recording(3, 10)
    scene.positions[:] = 0
    scene.positions[0, 5, 0] = MOVING_METRES + 0.01  # away and back
    scene.positions[1, 5, 0] = MOVING_METRES
    scene.positions[2, 3:6, 0] = [-1.5, 0, 1.5]  # three metres apart, but never two from the start
    np.testing.assert_array_equal(cut_windows(scene, past=4, future=6).moving, [True, False, False])


def test_select():
    windows = cut_windows(recording(4, 10), past=4, future=6)
    tracks = lambda chosen: [int(track[-1]) for track in chosen.track]  # noqa: E731
    assert tracks(select(windows)) == [0, 1, 2, 3]
    assert tracks(select(windows, types=["vehicle", "cyclist"])) == [0, 2, 3]
    assert tracks(select(windows, types="pedestrian")) == [1]
    assert tracks(select(windows, own=False)) == [1, 2, 3]
    assert tracks(select(windows, to_predict=True)) == [1]
    assert tracks(select(windows, moving=False)) == [0]
    assert tracks(select(windows, moving=True, types=["vehicle"])) == [2]


def test_no_scenario_is_on_both_sides_of_a_split():
    windows = scenes(20)
    train, val = windows.split(0.25, seed=3)
    assert len(set(val.scenario)) == 5
    assert not set(train.scenario) & set(val.scenario)
    assert len(train) + len(val) == len(windows)
    again = windows.take(np.random.default_rng(0).permutation(len(windows))).split(0.25, seed=3)[1]
    assert set(again.scenario) == set(val.scenario)
    assert set(windows.split(0.25, seed=4)[1].scenario) != set(val.scenario)
    assert len(windows.split(0.0)[1]) == 0
    assert len(set(windows.split(0.001)[1].scenario)) == 1
    with pytest.raises(ValueError, match="too few"):
        scenes(1).split(0.5)
    with pytest.raises(ValueError, match="fraction_val must be"):
        windows.split(1.0)


def test_the_split_of_a_scenario_is_fixed_for_good():
    """Were one of these to change, sets converted before and after would not have the same test scenarios."""
    assert [split_of(name, 0.5) for name in ("a", "b", "c", "637f20cafde22ff8")] == ["train", "test", "test", "train"]
    names = [f"scene {k}" for k in range(4000)]
    small, large = ({name for name in names if split_of(name, part) == "test"} for part in (0.1, 0.2))
    assert small < large
    assert len(small) / 4000 == pytest.approx(0.1, abs=0.02)
    with pytest.raises(ValueError, match="test_fraction must be"):
        split_of("a", 1.5)


def test_a_saved_set_comes_back(tmp_path):
    windows = replace(scenes(3), is_test=np.arange(27) % 2 == 0)
    save(windows, tmp_path / "a.safetensors")
    assert_same(load(tmp_path / "a.safetensors"), windows)
    # Any program that reads safetensors can read it.
    arrays = load_file(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(arrays["future"], windows.future)
    assert json.loads(arrays["scenario_names"].tobytes()) == ["scene 0", "scene 1", "scene 2"]


@pytest.mark.parametrize("attributes", [("step", "number"), ()])
def test_an_empty_set_comes_back(tmp_path, attributes):
    scene = replace(
        recording(T=5), attributes=np.zeros((3, 5, len(attributes)), np.float32), attribute_names=attributes
    )
    windows = cut_windows(scene, past=4, future=6)
    save(windows, tmp_path / "none.safetensors")
    assert len(load(tmp_path / "none.safetensors")) == 0


def test_a_flipped_bit_anywhere_in_the_numbers_is_found(tmp_path):
    path = tmp_path / "a.safetensors"
    save(scenes(2), path)
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for at in np.random.default_rng(0).integers(start, len(whole), 50):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=r"a\.safetensors: the file is damaged: its checksum is wrong"):
            load(path)
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"a\.safetensors: "):
        load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"future": np.zeros((9, 6, 2), np.float32)}, r"future must be \(9, 6, 3\), got \(9, 6, 2\)"),
        ({"attribute_names": ("a",)}, r"attributes must be \(9, 4, 1\)"),
        ({"moving": np.zeros(8, bool)}, r"moving must be \(9,\)"),
        ({"past": np.zeros((9, 4, 3))}, "past has the type float64"),
        ({"types": np.zeros(9, np.int64)}, "types has the type int64"),
        ({"origin": np.full((9, 3), np.nan)}, "origin has numbers that are not finite"),
        ({"dt": 0.0}, "dt must be positive"),
    ],
)
def test_a_set_is_checked(change, message):
    with pytest.raises(ValueError, match=message):
        replace(scenes(1), **change)


def test_sets_that_differ_are_not_joined():
    a = scenes(1)
    for b, message in [
        (replace(a, dt=0.2), "a step of 0.2 s"),
        (replace(a, attribute_names=("u", "v")), "has the attributes"),
        (replace(a, past=a.past[:, 1:], attributes=a.attributes[:, 1:]), "differ in length"),
    ]:
        with pytest.raises(ValueError, match=message):
            join([a, b], name="both")


def test_windows_and_strides_must_be_positive():
    for name in ("past", "future", "stride"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            cut_windows(recording(), **{name: 0})


def test_ready_waymo(real_data):
    path = real_data("womd_vehicles.npz") / "womd_vehicles.npz"
    windows = load(path)
    assert (len(windows), windows.is_test.sum(), windows.to_predict.sum(), windows.dt) == (20_353, 4_730, 2_263, 0.1)
    assert windows.attribute_names == ("speed", "heading")
    assert not set(windows.scenario[windows.is_test]) & set(windows.scenario[~windows.is_test])
    assert not windows.past[:, -1].any()
    paper = load(path, subset="paper")
    assert (len(paper), paper.is_test.sum(), paper.moving.all()) == (4_894, 979, True)
    assert not set(paper.scenario[paper.is_test]) & set(paper.scenario[~paper.is_test])


@pytest.mark.parametrize("name", ["womd_vehicles", "kitti_ego", "av2_sensor_vehicles"])
def test_our_rule_of_what_moves_is_that_of_the_ready_sets(real_data, name):
    windows = load(real_data(f"{name}.npz") / f"{name}.npz")
    positions = np.concatenate([windows.past, windows.future], axis=1)
    scene = Recording(
        name="all",
        dt=windows.dt,
        positions=positions.astype(np.float64),
        valid=np.ones(positions.shape[:2], bool),
        track_ids=tuple(map(str, range(len(windows)))),
        types=tuple(windows.types),
        attributes=np.zeros((*positions.shape[:2], 0), np.float32),
    )
    np.testing.assert_array_equal(cut_windows(scene).moving, windows.moving)


def test_ready_kitti_and_argoverse(real_data):
    kitti = load(real_data("kitti_ego.npz") / "kitti_ego.npz")
    assert (len(kitti), kitti.own.all(), set(kitti.scenario[kitti.is_test])) == (2_231, True, {"08", "09", "10"})
    argoverse = load(real_data("av2_sensor_vehicles.npz") / "av2_sensor_vehicles.npz")
    assert (len(argoverse), argoverse.own.sum(), len(set(argoverse.scenario))) == (494, 12, 4)
    with pytest.raises(ValueError, match=r"kitti_ego\.npz: the file has no subset 'paper'"):
        load(real_data("kitti_ego.npz") / "kitti_ego.npz", subset="paper")


def test_an_npz_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", past=np.zeros((2, 3, 3)))
    with pytest.raises(ValueError, match=r"other\.npz: not a ready motion set: it has no future, past_speed"):
        load(tmp_path / "other.npz")


def test_strides_count_from_where_a_track_is_seen():
    """Seen from step 3 to 12 and from 17 to 29: ten steps are enough for one window of ten, thirteen for two."""
    scene = recording(1, 30)
    scene.valid[0, [0, 1, 2, 13, 14, 15, 16]] = False
    starts = cut_windows(scene, past=4, future=6, stride=3).attributes[:, 0, 0]
    np.testing.assert_array_equal(starts, [3, 17, 20])


def test_what_is_seen_just_long_enough_does_not_vanish():
    for first in range(20):
        scene = recording(1, 30)
        scene.valid[0] = False
        scene.valid[0, first : first + 10] = True
        assert len(cut_windows(scene, past=4, future=6, stride=10)) == 1


def test_types_are_chosen_whatever_their_case():
    windows = cut_windows(recording(4, 10), past=4, future=6)
    assert len(select(windows, types=["Vehicle", "CYCLIST"])) == 3
    assert len(select(windows, types="Pedestrian")) == 1
