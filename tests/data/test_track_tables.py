import numpy as np
import pytest

from vnt.data.track_tables import is_track_table, read_tracks


def write(tmp_path, text, name="mine.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_rows_and_columns_in_any_order(tmp_path):
    text = "y,type,X,speed,Time,id\n2,Car,1,7,0.1,a\n\n9,,8,0,0.1,b\n0,Car,0,5,0,a\n4,Car,2,9,0.2,a\n"
    recording = read_tracks(write(tmp_path, text))
    assert recording.name == "mine"
    assert recording.dt == pytest.approx(0.1)
    assert recording.track_ids == ("a", "b")
    assert recording.types == ("car", "unknown")
    assert recording.attribute_names == ("speed",)
    np.testing.assert_array_equal(recording.valid, [[1, 1, 1], [0, 1, 0]])
    np.testing.assert_allclose(recording.positions[0], [[0, 0, 0], [1, 2, 0], [2, 4, 0]], atol=1e-12)
    np.testing.assert_allclose(recording.positions[1, 1], [8, 9, 0])
    np.testing.assert_allclose(recording.attributes[0, :, 0], [5, 7, 9], atol=1e-6)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", "   "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_line_ends_and_byte_order_marks(tmp_path, delimiter, end):
    lines = ["track,timestamp,x,y,z", "7,0,1,2,3", "7,1,2,3,4"]
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + end.join(lines).replace(",", delimiter).encode())
    np.testing.assert_array_equal(read_tracks(path).positions, [[[1, 2, 3], [2, 3, 4]]])


def test_resampling_to_another_rate(tmp_path):
    recording = read_tracks(
        write(tmp_path, "track_id,t,x,y\na,10,0,0\na,11,10,1\nb,10.5,0,0\nb,11.5,1,1\n"), rate=4, max_gap=1
    )
    assert recording.dt == 0.25
    np.testing.assert_array_equal(recording.valid, [[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1]])
    np.testing.assert_allclose(recording.positions[0, :5, 0], [0, 2.5, 5, 7.5, 10])
    np.testing.assert_allclose(recording.positions[1, 2:, 1], [0, 0.25, 0.5, 0.75, 1])


def test_times_in_milliseconds_are_not_taken_for_seconds(tmp_path):
    path = write(tmp_path, "track_id,t,x,y\n" + "".join(f"a,{100 * n},{n},0\n" for n in range(9)))
    assert len(read_tracks(path, rate=10, max_gap=0.5).valid[0]) == 8001  # asked for, and so given
    with pytest.raises(ValueError, match=r"sightings are 100 s apart, and steps of 0.1 s are wanted.*in seconds"):
        read_tracks(path, rate=10)
    assert read_tracks(path).dt == 100  # of its own rate there is nothing to be said


def test_long_gaps_are_not_filled_but_their_ends_are_valid(tmp_path):
    times = [0, 0.1, 0.2, 0.4, 0.5, 1.0, 1.1]
    text = "track_id,t,x,y\n" + "".join(f"a,{t},{t},0\n" for t in times)
    seen = np.ones(12, bool)
    seen[6:10] = False
    np.testing.assert_array_equal(read_tracks(write(tmp_path, text)).valid[0], seen)
    assert read_tracks(write(tmp_path, text), max_gap=0.5).valid.all()
    seen[3] = False
    np.testing.assert_array_equal(read_tracks(write(tmp_path, text), max_gap=0.1).valid[0], seen)


@pytest.mark.parametrize("name", ["heading", "yaw"])
def test_angles_go_round_the_circle(tmp_path, name):
    text = f"track_id,t,x,y,{name},other\na,0,0,0,3.0,3.0\na,1,0,0,-3.0,-3.0\na,2,0,0,-2.0,0\n"
    angle, other = read_tracks(write(tmp_path, text), rate=2).attributes[0].T
    np.testing.assert_allclose(angle, [3, -np.pi, -3, -2.5, -2], atol=1e-6)
    np.testing.assert_allclose(other, [3, 0, -3, -1.5, 0], atol=1e-6)


def test_unix_times_rounded_to_milliseconds_stay_on_the_clock(tmp_path):
    text = "track_id,t,x,y\n" + "".join(f"a,{1_700_000_000 + 0.04 * i:.3f},{i},0\n" for i in range(500))
    recording = read_tracks(write(tmp_path, text), rate=25)
    assert recording.num_steps == 500
    assert recording.valid.all()
    np.testing.assert_allclose(recording.positions[0, :, 0], np.arange(500), atol=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("track_id,t,x\na,0,0\n", "no column y in the header"),
        ("1,0,0,0\n1,1,0,0\n", "there twice"),
        ("track_id,t,time,x,y\na,0,0,0,0\n", "column 3 of the header is 'time': empty, or there twice, as 't' too"),
        ("track_id,t,x,y,\na,0,0,0,\na,1,0,0,0\n", "line 3 has 5 columns, the header 4"),
        ("track_id,t,,x,y\na,0,0,0,0\n", "column 3 of the header is '': empty"),
        ("track_id,t,x,y\n", "no lines after its header"),
        ("track_id,t,x,y\na,0,0,0\na,1,0\n", "line 3 has 3 columns, the header 4"),
        ("track_id,t,x,y\na,0,0,0\n\na,1,zero,0\n", "line 4: column 'x' is not a finite number: 'zero'"),
        ("track_id,t,x,y\na,0,0,inf\n", "line 2: column 'y' is not a finite number: 'inf'"),
        (
            "track_id,t,x,y\nb,1,0,0\nthe car,1.5,0,0\nb,2,0,0\nthe car,1.5,1,0\n",
            "track 'the car' has two lines at time 1.5",
        ),
        (
            "track_id,t,x,y\na,0,0,0\na,0.1,0,0\na,0.2,0,0\na,1e12,0,0\n",
            "1 tracks of 1e\\+13 steps would take .*: split the file",
        ),
        ("track_id,t,x,y\na,-1e308,0,0\na,1e308,0,0\n", "steps would take"),
        ("track_id,t,x,y\na,0,0,0\nb,1,0,0\n", "no track was seen twice"),
        ("track_id,t,x,y,speed\na,0,0,0,1e300\na,1,0,0,0\n", "not finite"),
    ],
)
def test_what_is_no_table_of_tracks_is_refused(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=message) as caught:
        read_tracks(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["rate", "max_gap"])
def test_rate_and_gap_must_be_positive(tmp_path, name):
    path = write(tmp_path, "track_id,t,x,y\na,0,0,0\na,1,0,0\n")
    for value in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            read_tracks(path, **{name: value})


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("track_id,t,x,y", True),
        ("id,time,x,y,z", True),
        ("track;t;x;y;z", True),
        ("Track\tTimestamp\tX\tY", True),
        ("track_id t  x y z", True),
        ("x y z time id intensity", False),
        ('"track_id", "t", "x", "y", "my speed"', True),
        ("x,y,z,intensity,timestamp", False),
        ("id,x,y,z", False),
        ("x y z", False),
        ("1 0 0 0 0 1 0 0 0 0 1 0", False),
        ("", False),
        ('"' * 3 + "\x00", False),
    ],
)
def test_a_table_of_tracks_is_known_by_its_header(tmp_path, header, expected):
    assert is_track_table(write(tmp_path, header + "\n")) is expected
    assert is_track_table(write(tmp_path, header)) is expected


def test_quoted_names_with_blanks_after_the_delimiter(tmp_path):
    recording = read_tracks(
        write(tmp_path, '"track_id", "t", "x", "y", "my speed"\n"a", "0", "1", "2", "3"\na,1,1,2,3\n')
    )
    assert recording.attribute_names == ("my speed",)
    assert recording.valid.all()


def test_lines_may_end_with_a_delimiter(tmp_path):
    recording = read_tracks(write(tmp_path, "track_id,t,x,y,\na,0,1,2,\na,1,3,4,\n"))
    np.testing.assert_array_equal(recording.positions, [[[1, 2, 0], [3, 4, 0]]])
    assert recording.attribute_names == ()


def sparse_table(tmp_path, num_tracks, first_name="car"):
    """Tracks of twenty sightings, one after another at 10 Hz: honest, and nearly empty as a table of all steps."""
    rows = [f"{first_name} {i},{(i * 70 + k) / 10:.1f},{k}.123,{i}.456\n" for i in range(num_tracks) for k in range(20)]
    return write(tmp_path, "track_id,t,x,y\n" + "".join(rows))


def test_long_sparse_tables_are_read(tmp_path):
    path = sparse_table(tmp_path, 500)
    recording = read_tracks(path)
    assert (recording.num_tracks, recording.num_steps) == (500, 499 * 70 + 20)
    assert recording.valid.sum() == 500 * 20


def test_small_files_do_not_become_large_tables(tmp_path):
    text = "track_id,t,x,y\na,0,0,0\na,0.1,0,0\nb,0.2,0,0\nb,0.3,0,0\nb,1000000,0,0\n"
    with pytest.raises(ValueError, match=r"would take 500,00.* split the file by time, or ask for a lower rate"):
        read_tracks(write(tmp_path, text))
    assert read_tracks(write(tmp_path, text), rate=1).num_steps == 1_000_001


@pytest.mark.parametrize("name", ["heading", "yaw"])
def test_degrees_are_not_taken_for_radians(tmp_path, name):
    text = f"track_id,t,x,y,{name}\n" + "".join(f"a,{n / 10},{n},0,{40 * n}\n" for n in range(9))
    with pytest.raises(ValueError, match=f"column '{name}' has an angle of 320: radians are wanted; are these degrees"):
        read_tracks(write(tmp_path, text))


@pytest.mark.parametrize("name", ["vehicle_id", "agent_id", "trackId"])
def test_tracks_by_other_names(tmp_path, name):
    path = write(tmp_path, f"{name},t,x,y\na,0,0,0\na,1,1,1\n", "mine.txt")
    assert is_track_table(path)
    assert read_tracks(path).track_ids == ("a",)


def test_other_names_count_only_where_there_is_no_track_id(tmp_path):
    recording = read_tracks(write(tmp_path, "track_id,t,x,y,agent_id\na,0,0,0,7\na,1,1,1,7\n"))
    assert recording.track_ids == ("a",)
    assert recording.attribute_names == ("agent_id",)
    assert not is_track_table(write(tmp_path, "x,y,z,time,object_id\n0,0,0,0,7\n", "cloud.csv"))


def test_a_heading_may_count_whole_turns(tmp_path):
    text = "track_id,t,x,y,heading\n" + "".join(f"a,{n},{n},0,{0.9 * n}\n" for n in range(30))
    headings = read_tracks(write(tmp_path, text)).attributes[0, :, 0]
    np.testing.assert_allclose(np.cos(headings), np.cos(0.9 * np.arange(30)), atol=1e-5)
