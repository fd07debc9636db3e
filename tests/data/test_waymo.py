import time

import google_crc32c
import numpy as np
import pytest

from data.records import crc32c, driving, field, framed, masked, scenario, state, track, write_records
from vnt.data.waymo import parse_scenario, read_records, read_scenarios


def test_records_come_back(tmp_path):
    payloads = [b"first", b"", bytes(range(256)) * 10]
    assert list(read_records(write_records(tmp_path / "a.tfrecord", payloads))) == payloads


def test_our_checksum_of_records_is_the_library_s():
    assert crc32c(b"123456789") == google_crc32c.value(b"123456789") == 0xE3069283


@pytest.mark.parametrize("cut", [1, 8, 11, 12, 14, 19, 20, 22, 33])
def test_a_cut_off_file_is_refused_with_record_and_offset(tmp_path, cut):
    path = tmp_path / "cut.tfrecord"
    whole = framed(b"0123456789")
    path.write_bytes((whole + framed(b"second"))[:cut] if cut < len(whole) else whole + framed(b"second")[: cut - 26])
    number, offset = (0, 0) if cut < 26 else (1, 26)
    with pytest.raises(ValueError, match=rf"cut\.tfrecord: record {number} at byte {offset} is cut off"):
        list(read_records(path))


def test_any_flipped_bit_is_found(tmp_path):
    path = tmp_path / "flipped.tfrecord"
    whole = framed(b"first") + framed(b"second")
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        number, offset = (0, 0) if bit // 8 < 21 else (1, 21)
        with pytest.raises(ValueError, match=rf"flipped\.tfrecord: record {number} at byte {offset} "):
            list(read_records(path))


def test_a_length_beyond_the_file_is_refused_before_it_is_read(tmp_path):
    length = (2**62).to_bytes(8, "little")
    (tmp_path / "long.tfrecord").write_bytes(length + masked(length) + b"x" * 50)
    with pytest.raises(ValueError, match=r"4,611,686,018,427,387,904 bytes announced, 62 left"):
        list(read_records(tmp_path / "long.tfrecord"))


def test_a_scenario_is_read_exactly(tmp_path):
    gone = state(-1, -1, -1, heading=-1, vx=-1, vy=-1, size=(-1, -1, -1), valid=False)
    seen = [state(8000.1 + t, -0.25, 3e-7, heading=-1.5, vx=3, vy=-4, size=(4.5, 2.25, 1.5)) for t in range(2)]
    payload = scenario(
        [track(7, 2, [gone, *seen]), track(9, 4, [seen[0], gone, seen[1]]), track(11, 0, [seen[0]] * 3)],
        steps=3, id="ab12", current=1, own=1, predict=[2, 0], dt=0.25,
    )  # fmt: skip
    (recording,) = read_scenarios(write_records(tmp_path / "a.tfrecord", [payload]))
    assert recording.name == "ab12"
    assert recording.dt == 0.25
    assert recording.current == 1
    assert recording.track_ids == ("7", "9", "11")
    assert recording.types == ("pedestrian", "other", "unknown")
    np.testing.assert_array_equal(recording.valid, [[0, 1, 1], [1, 0, 1], [1, 1, 1]])
    np.testing.assert_array_equal(recording.positions[0], [[0, 0, 0], [8000.1, -0.25, 3e-7], [8001.1, -0.25, 3e-7]])
    assert recording.attribute_names == ("speed", "heading", "velocity_x", "velocity_y", "length", "width", "height")
    np.testing.assert_array_equal(recording.attributes[0, 0], np.zeros(7))
    np.testing.assert_array_equal(recording.attributes[1, 2], np.float32([5, -1.5, 3, -4, 4.5, 2.25, 1.5]))
    np.testing.assert_array_equal(recording.own, [False, True, False])
    np.testing.assert_array_equal(recording.to_predict, [True, False, True])


def test_packed_timestamps_and_missing_fields_are_fine():
    packed = field(1, 2, np.array([0, 0.1, 0.2]).tobytes())
    recording = parse_scenario(packed + field(2, 2, track(1, 1, [state(0, 0, 0)] * 3)), default_name="shard:4")
    assert (recording.name, recording.current, recording.own.sum(), recording.to_predict.sum()) == (
        "shard:4",
        None,
        0,
        0,
    )


GOOD = track(1, 1, [state(0, 0, 0)] * 3)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (scenario([track(1, 1, [state(0, 0, 0)] * 2)], steps=3), "track 1 has 2 states, the scenario 3 timestamps"),
        (scenario([GOOD], steps=3, current=3), "current_time_index is 3, there are 3 steps"),
        (scenario([GOOD], steps=3, current=-1), "current_time_index is -1"),
        (scenario([GOOD], steps=3, current=0, own=1), "sdc_track_index names track 1, there are 1"),
        (scenario([GOOD], steps=3, current=0, predict=[5]), "tracks_to_predict names track 5"),
        (scenario([GOOD], steps=3, current=0, dt=0.0), "timestamps do not increase"),
        (scenario([GOOD, GOOD], steps=3, current=0), "2 tracks but only 1 different ids"),
        (scenario([], steps=3, current=0), "no tracks"),
        (scenario([track(1, 1, [state(float("nan"), 0, 0)] * 3)], steps=3, current=0), "not finite"),
        (b"\xff\xff\xff", "record 1: Error parsing message"),
    ],
)
def test_what_is_no_scenario_is_refused_with_its_number(tmp_path, payload, message):
    path = write_records(tmp_path / "bad.tfrecord", [driving(), payload])
    with pytest.raises(ValueError, match=message) as caught:
        list(read_scenarios(path))
    assert str(caught.value).startswith(f"{path}: record 1: ")


def test_a_directory_and_an_empty_file_are_refused(tmp_path):
    (tmp_path / "empty.tfrecord").touch()
    for path in (tmp_path, tmp_path / "empty.tfrecord"):
        with pytest.raises(ValueError, match=str(path)):
            list(read_scenarios(path))
    with pytest.raises(FileNotFoundError, match="gone"):
        list(read_scenarios(tmp_path / "gone.tfrecord"))


def test_the_real_record(real_data):
    path = real_data("raw/motion_data_one_scenario.tfrecord") / "raw/motion_data_one_scenario.tfrecord"
    (recording,) = read_scenarios(path)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        list(read_scenarios(path))
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.05
    assert recording.name == "637f20cafde22ff8"
    assert (recording.num_tracks, recording.num_steps, recording.current) == (83, 91, 10)
    assert recording.dt == pytest.approx(0.1, rel=1e-3)
    assert recording.types.count("vehicle") == 70
    assert recording.own.sum() == 1
    assert recording.to_predict.sum() == 3
    # Positions and velocities come from different fields; they agree only if all are where they belong.
    fast = recording.valid & (recording.attributes[..., 0] > 3)
    both = fast[:, 1:] & fast[:, :-1]
    moved = np.diff(recording.positions[..., :2], axis=1)[both] / recording.dt
    velocity = recording.attributes[..., 2:4][:, 1:][both]
    assert np.median(np.linalg.norm(moved - velocity, axis=-1)) < 0.5
    heading = recording.attributes[..., 1][:, 1:][both]
    assert np.median(np.abs(np.angle(np.exp(1j * (heading - np.arctan2(moved[:, 1], moved[:, 0])))))) < 0.05
