"""Damaged recordings and motion sets end in a value or in a ValueError that names the file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.fuzzing import assert_survives
from data.records import driving, write_records
from data.test_argoverse2 import columns
from data.test_motion_set import scenes
from vnt.data.motion_set import save


def test_records(tmp_path):
    sample = write_records(tmp_path / "a.tfrecord", [driving(steps=12, tracks=2), driving(steps=11, tracks=1)])
    result = assert_survives("records:scenarios_in", [sample])
    assert result["read"] < 100  # the checksums let nothing through but files cut between records


def test_messages(tmp_path):
    """The samples are bare messages: what is damaged gets a right checksum before it is read."""
    for name, payload in (("a", driving(steps=12, tracks=2)), ("b", driving(steps=11, tracks=1))):
        (tmp_path / f"{name}.tfrecord").write_bytes(payload)
    result = assert_survives("records:scenarios_in_reframed", [tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"])
    assert result["read"] > 100


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_argoverse(tmp_path, compression):
    sample = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns(steps=20)), sample, compression=compression)
    assert_survives("vnt.data.argoverse2:read_scenario", [sample])


def test_kitti(tmp_path):
    sample = tmp_path / "00.txt"
    sample.write_text("".join(f"1 0 0 {t / 3} 0 1 0 -0.25 0 0 1 {t:e}\n" for t in range(40)))
    assert_survives("vnt.data.kitti:read_poses", [sample])


def test_tables(tmp_path):
    rows = [(track, t / 10, t, -t / 7, 0.1 * t) for track in ("a", "b b") for t in range(30)]
    for name, delimiter in (("a.csv", ","), ("b.tsv", "\t")):
        lines = [["track_id", "t", "x", "y", "heading"], *([str(cell) for cell in row] for row in rows)]
        (tmp_path / name).write_text("\n".join(delimiter.join(line) for line in lines))
    assert_survives("vnt.data.track_tables:read_tracks", [tmp_path / "a.csv", tmp_path / "b.tsv"])


def test_texts_on_the_command_line(tmp_path):
    """`vnt data info` must first tell tracks, poses and points apart."""
    (tmp_path / "a.csv").write_text("track_id,t,x,y\n" + "".join(f"a,{t / 10},{t},0\n" for t in range(30)))
    (tmp_path / "b.csv").write_text("x,y,z,timestamp\n" + "".join(f"{t},2,3,{t / 10}\n" for t in range(30)))
    (tmp_path / "c.txt").write_text("".join(f"1 0 0 {t / 3} 0 1 0 -0.25 0 0 1 {t:e}\n" for t in range(30)))
    assert_survives("vnt.cli.describe:describe", [tmp_path / name for name in ("a.csv", "b.csv", "c.txt")])


def test_motion_sets(tmp_path):
    save(scenes(2), tmp_path / "a.safetensors")
    assert_survives("vnt.data.motion_set:load", [tmp_path / "a.safetensors"])


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("reader", ["vnt.data.motion_set:load", "vnt.cli.describe:describe"])
def test_ready_sets(tmp_path, write, reader):
    M = 6
    write(
        tmp_path / "a.npz",
        past=np.zeros((M, 11, 3), np.float32),
        future=np.ones((M, 80, 3), np.float32),
        past_speed=np.ones((M, 11, 1), np.float32),
        past_vel=np.ones((M, 11, 3), np.float32),
        origin=np.zeros((M, 3)),
        scenario=np.arange(M, dtype=np.int32) % 2,
        scenario_id=np.array(["00", "01"]),
        valid=np.ones((M, 91), bool),
        moving=np.ones(M, bool),
        is_test=np.arange(M) % 2 == 0,
        dt=np.float32(0.1),
        window_start=np.arange(M),
    )
    assert_survives(reader, [tmp_path / "a.npz"])
