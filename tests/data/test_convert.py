import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from data.records import driving, write_records
from vnt.data.conversion import convert, find_files, kind_of, recordings_in
from vnt.data.motion_set import load, split_of

CSV = "track_id,t,x,y,speed\n" + "".join(f"a,{t / 10},{t},0,10\n" for t in range(100))


def shards(folder, count: int = 3):
    folder.mkdir(exist_ok=True)
    for k in range(count):
        path = folder / f"training.tfrecord-{k:05d}-of-{count:05d}"
        write_records(path, [driving(f"scene {k}{m}", tracks=4, lost=[(3, 50)]) for m in "ab"])
    return folder


def test_shards_become_one_set(tmp_path):
    calls = []
    windows = convert(shards(tmp_path / "raw"), tmp_path / "set.safetensors", progress=lambda *call: calls.append(call))
    total = sum(file.stat().st_size for file in (tmp_path / "raw").iterdir())
    assert len(windows) == 3 * 2 * 3  # the fourth track is lost at one step
    assert [count for _, _, count in calls] == [3, 6, 9, 12, 15, 18]
    assert {size for _, size, _ in calls} == {total}
    assert [done for done, _, _ in calls] == [total * k // 6 for k in range(1, 7)]
    assert windows.name == "set"
    assert windows.dt == pytest.approx(0.1)
    assert windows.past.shape == (18, 11, 3)
    assert windows.future.shape == (18, 80, 3)
    np.testing.assert_allclose(windows.future[2, -1], [80, 0, 0])
    np.testing.assert_array_equal(windows.is_test, [split_of(name, 0.2) == "test" for name in windows.scenario])
    np.testing.assert_array_equal(load(tmp_path / "set.safetensors").past, windows.past)
    assert sorted(os.listdir(tmp_path)) == ["raw", "set.safetensors"]


def test_windows_are_chosen(tmp_path):
    raw, target = shards(tmp_path / "raw"), tmp_path / "set"
    assert len(convert(raw, target, types=["vehicle"])) == 6
    assert len(convert(raw, target, moving=True)) == 12
    assert len(convert(raw, target, to_predict=True, own=False)) == 6
    assert convert(raw, target, test_fraction=1.0).is_test.all()
    with pytest.raises(ValueError, match=r"no window of 50 \+ 80 steps fits what was asked, in 3 files"):
        convert(raw, target, past=50)


def test_files_of_every_kind_are_found(tmp_path):
    shards(tmp_path / "a", 2)
    texts = {
        "b/times.txt": "0.0\n0.1\n",
        "b/calib.txt": "P0: 1 0 0 0 0 1 0 0 0 0 1 0\n",
        "b/07.txt": "1 0 0 0 0 1 0 0 0 0 1 0\n",
        "b/tracks.csv": CSV,
        "b/lidar.csv": "x,y,z,intensity,timestamp\n1,2,3,4,5\n",
        "b/empty.csv": "",
        "b/x/scenario_1.parquet": ".",
        "b/x/map.json": ".",
        "a/.set.tfrecord.q1.partial": ".",
        "a/notes.md": ".",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    names = lambda sources: [file.name for file in find_files(sources)]  # noqa: E731
    sharded = ["training.tfrecord-00000-of-00002", "training.tfrecord-00001-of-00002"]
    assert names(tmp_path / "a") == sharded
    assert names(str(tmp_path / "a" / "*-of-*")) == sharded
    assert names([tmp_path / "a", str(tmp_path / "*" / "*.tfrecord*-of-*")]) == sharded
    assert names([tmp_path / "b"]) == ["07.txt", "tracks.csv", "scenario_1.parquet"]
    assert names([str(tmp_path / "**" / "tr*.csv"), tmp_path / "b" / "times.txt"]) == ["tracks.csv", "times.txt"]
    for source in ("gone", "gone*.tfrecord", tmp_path / "b" / "x" / "map.json" / "deeper"):
        with pytest.raises(FileNotFoundError, match=r"gone|deeper"):
            find_files(source)


def test_recordings_of_other_kinds(tmp_path):
    (tmp_path / "tracks.csv").write_text(CSV)
    (tmp_path / "00.txt").write_text("".join(f"1 0 0 0 0 1 0 0 0 0 1 {t}\n" for t in range(101)))
    (tmp_path / "what.bin").write_text("?")
    assert [recording.name for recording in recordings_in(tmp_path / "tracks.csv")] == ["tracks"]
    assert len(convert(tmp_path / "00.txt", tmp_path / "kitti", own=True)) == 2
    assert set(convert([tmp_path / "00.txt", tmp_path / "tracks.csv"], tmp_path / "both").scenario) == {"00", "tracks"}
    with pytest.raises(ValueError, match=r"what\.bin: unknown kind of recording"):
        list(recordings_in(tmp_path / "what.bin"))
    (tmp_path / "points.csv").write_text("x,y,z\n1,2,3\n")
    with pytest.raises(ValueError, match=r"points\.csv: unknown kind of recording; .* names track_id, t, x, y"):
        list(recordings_in(tmp_path / "points.csv"))


def test_only_tables_are_brought_to_another_rate(tmp_path):
    (tmp_path / "00.txt").write_text("1 0 0 0 0 1 0 0 0 0 1 0\n" * 40)
    convert([tmp_path / "00.txt"], tmp_path / "ten.safetensors", past=5, future=5, rate=10)
    with pytest.raises(ValueError, match=r"00\.txt: its steps are 0\.1 s apart; tables of tracks alone are resampled"):
        convert([tmp_path / "00.txt"], tmp_path / "five.safetensors", past=5, future=5, rate=5)


def test_sets_with_other_attributes_are_not_mixed(tmp_path):
    (tmp_path / "tracks.csv").write_text(CSV)
    with pytest.raises(ValueError, match="has the attributes"):
        convert([shards(tmp_path / "raw"), tmp_path / "tracks.csv"], tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_target_that_would_destroy_is_refused(tmp_path):
    (tmp_path / "tracks.csv").write_text(CSV)
    for target in (tmp_path, tmp_path / "tracks.csv"):
        with pytest.raises(ValueError, match="the target is a directory or one of the sources"):
            convert(tmp_path / "tracks.csv", target)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_conversion_leaves_nothing(tmp_path, kind):
    def stop(done, total, windows):
        if windows > 6:
            raise kind

    raw = shards(tmp_path / "raw")
    with pytest.raises(kind):
        convert(raw, tmp_path / "out" / "set", progress=stop)
    assert not (tmp_path / "out").exists()
    convert(raw, tmp_path / "out" / "set", types=["vehicle"])
    before = (tmp_path / "out" / "set").read_bytes()
    with pytest.raises(kind):
        convert(raw, tmp_path / "out" / "set", progress=stop)
    assert os.listdir(tmp_path / "out") == ["set"]
    assert (tmp_path / "out" / "set").read_bytes() == before


def test_a_damaged_shard_stops_the_conversion(tmp_path):
    raw = shards(tmp_path / "raw")
    bad = raw / "training.tfrecord-00001-of-00003"
    bad.write_bytes(bad.read_bytes()[:-5])
    with pytest.raises(ValueError, match="00001-of-00003: record 1 at byte"):
        convert(raw, tmp_path / "set")
    assert os.listdir(tmp_path) == ["raw"]


def test_a_conversion_killed_while_it_writes_leaves_no_set(tmp_path):
    """The child stops when all bytes are written but the file has not got its name, and is killed there."""
    shards(tmp_path / "raw")
    program = """
        import os, sys, time
        from vnt.data.conversion import convert
        def wait(handle):
            print("written", flush=True)
            time.sleep(60)
        os.fsync = wait
        convert("raw", "out/set.tfrecord")
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"written\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    (left,) = (tmp_path / "out").iterdir()
    assert left.suffix == ".partial"
    with pytest.raises(FileNotFoundError):
        find_files(tmp_path / "out")  # nor does a later run take the rest for a recording
    assert len(convert(tmp_path / "raw", tmp_path / "out" / "set.tfrecord")) == 18


def test_reading_and_converting_do_without_torch():
    program = "import sys, vnt.data.conversion; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_real_record(real_data, tmp_path):
    raw = real_data("raw/motion_data_one_scenario.tfrecord") / "raw"
    windows = convert(raw, tmp_path / "set", types=["vehicle"])
    assert (len(windows), windows.moving.sum(), windows.own.sum(), windows.to_predict.sum()) == (21, 6, 1, 1)


POSES = "".join(f"1 0 0 0 0 1 0 0 0 0 1 {t}\n" for t in range(101))
TWELVE = "1 2 3 4 5 6 7 8 9 10 11 12\n"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.csv", CSV, "table of tracks"),
        ("a.CSV", CSV, "table of tracks"),
        ("a.txt", CSV, "table of tracks"),
        ("a.csv", "id,time,x,y,z\n1,2,3,4,5\n", "table of tracks"),
        ("a.tsv", "track;t;x;y;z\n1;2;3;4;5\n", "table of tracks"),
        ("a.csv", "x,y,z,intensity,timestamp\n1,2,3,4,5\n", None),
        ("00.txt", POSES, "KITTI poses"),
        ("poses.TXT", POSES, "KITTI poses"),
        ("00.txt", TWELVE, None),
        ("00.txt", "-1" + POSES[1:], None),  # a mirror image
        ("00.txt", "nan" + POSES[1:], None),
        ("00.txt", "1e200" + POSES[1:], None),
        ("00.csv", POSES, None),
        ("a.TFRECORD", "", "Waymo scenarios"),
        ("a.tfrecord-00000-of-00002", "", "Waymo scenarios"),
        ("a.tfrecord.bak", "", None),
        ("a.PARQUET", "", "Argoverse 2 scenario"),
        ("a.ply", "", None),
    ],
)
def test_what_kind_a_file_is(tmp_path, name, text, kind):
    (tmp_path / name).write_text(text)
    assert kind_of(tmp_path / name) == kind


def test_suffixes_in_capitals_are_read(tmp_path):
    (tmp_path / "A.CSV").write_text(CSV)
    (tmp_path / "B.TXT").write_text(CSV)
    write_records(tmp_path / "C.TFRECORD", [driving("scene")])
    assert [
        recording.name for name in ("A.CSV", "B.TXT", "C.TFRECORD") for recording in recordings_in(tmp_path / name)
    ] == [
        "A",
        "B",
        "scene",
    ]


def test_nothing_fits_says_what_was_seen(tmp_path):
    raw = shards(tmp_path / "raw")
    expected = (
        r"no window of 11 \+ 80 steps fits what was asked, in 3 files: 6 recordings of 91 steps, now is step 10; "
        r"tracks of type vehicle \(6\), pedestrian \(6\), cyclist \(6\), other \(6\); 18 windows before selection"
    )
    with pytest.raises(ValueError, match=expected):
        convert(raw, tmp_path / "set", types=["bus"])
    (tmp_path / "tracks.csv").write_text(CSV)
    (tmp_path / "more.csv").write_text(CSV[: len(CSV) // 2].rpartition("\n")[0])
    with pytest.raises(ValueError, match=r"2 recordings of \d+ to 100 steps; tracks of type unknown \(2\); 0 windows"):
        convert([tmp_path / "tracks.csv", tmp_path / "more.csv"], tmp_path / "set", past=200)


def test_files_of_one_name_are_different_scenarios(tmp_path):
    for name in ("day1/tracks.csv", "day2/tracks.csv", "day2/other.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CSV)
    windows = convert(tmp_path, tmp_path / "set", future=30)
    assert set(windows.scenario) == {"day1/tracks", "day2/tracks", "other"}
    for name in ("a/x/00.txt", "b/x/00.txt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(POSES)
    windows = convert([tmp_path / "a", tmp_path / "b"], tmp_path / "set", future=30)
    assert set(windows.scenario) == {"a/x/00.txt", "b/x/00.txt"}
