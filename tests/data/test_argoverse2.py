import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vnt.data.argoverse2 import read_scenario


def columns(steps: int = 6, observed: int = 4) -> dict[str, list]:
    """Three tracks: the car "AV", a scored bus that is lost at step 2, and the focal cyclist."""
    kinds = {"AV": ("vehicle", 1), "5": ("bus", 2), "77": ("cyclist", 1)}
    rows = [(i, name, t) for i, name in enumerate(kinds) for t in range(steps) if (name, t) != ("5", 2)]
    rows = rows[::-1]  # order must not matter
    return {
        "observed": [t < observed for _, _, t in rows],
        "track_id": [name for _, name, _ in rows],
        "object_type": [kinds[name][0] for _, name, _ in rows],
        "object_category": [kinds[name][1] for _, name, _ in rows],
        "timestep": [t for _, _, t in rows],
        "position_x": [1000.5 + 10 * i + t for i, _, t in rows],
        "position_y": [-3.0 * i for i, _, _ in rows],
        "heading": [0.25 * i for i, _, _ in rows],
        "velocity_x": [3.0 for _ in rows],
        "velocity_y": [-4.0 for _ in rows],
        "scenario_id": ["a-b" for _ in rows],
        "num_timestamps": [steps for _ in rows],
        "focal_track_id": ["77" for _ in rows],
        "city": ["austin" for _ in rows],
    }


def write(path, table):
    pq.write_table(pa.table(table), path)
    return path


def test_a_scenario_is_read_exactly(tmp_path):
    recording = read_scenario(write(tmp_path / "scenario_a-b.parquet", columns()))
    assert recording.name == "a-b"
    assert recording.dt == 0.1
    assert recording.current == 3
    assert recording.track_ids == ("5", "77", "AV")
    assert recording.types == ("bus", "cyclist", "vehicle")
    np.testing.assert_array_equal(recording.own, [False, False, True])
    np.testing.assert_array_equal(recording.to_predict, [True, True, False])
    np.testing.assert_array_equal(recording.valid, [[1, 1, 0, 1, 1, 1], [1] * 6, [1] * 6])
    np.testing.assert_array_equal(recording.positions[1], [[1020.5 + t, -6, 0] for t in range(6)])
    np.testing.assert_array_equal(recording.positions[0, 2], [0, 0, 0])
    assert recording.attribute_names == ("speed", "heading", "velocity_x", "velocity_y")
    np.testing.assert_array_equal(recording.attributes[1, 5], [5, 0.5, 3, -4])
    np.testing.assert_array_equal(recording.attributes[0, 2], [0, 0, 0, 0])


def test_steps_that_no_row_has_are_not_valid(tmp_path):
    table = columns(steps=4)
    table["num_timestamps"] = [11] * len(table["timestep"])
    recording = read_scenario(write(tmp_path / "test.parquet", table))
    assert recording.num_steps == 11
    assert not recording.valid[:, 4:].any()


def change(name, value, row=None):
    def apply(table):
        rows = range(len(table[name])) if row is None else [row]
        for each in rows:
            table[name][each] = value

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda table: [table.pop("heading"), table.pop("timestep")], "no column heading, timestep"),
        (change("num_timestamps", 10**12), "num_timestamps is 1000000000000"),
        (change("num_timestamps", 0), "num_timestamps is 0"),
        (change("num_timestamps", 9, row=3), "'num_timestamps' must be the same in every row"),
        (change("timestep", 10**15, row=0), "timesteps run from 0 to 1000000000000000, num_timestamps is 6"),
        (change("timestep", -1, row=0), "timesteps run from -1"),
        (change("timestep", 4, row=0), "1 rows repeat a track and a timestep"),
        (change("position_x", float("nan"), row=0), "not finite"),
        (change("position_x", None, row=0), "'position_x' has 1 empty cells"),
        (change("position_x", "here"), "column 'position_x' has the type"),
        (change("timestep", 0.5), "column 'timestep' has the type float64"),
        (lambda table: [column.clear() for column in table.values()], "has the type|no rows"),
    ],
)
def test_what_is_no_scenario_is_refused(tmp_path, damage, message):
    table = columns()
    damage(table)
    path = write(tmp_path / "bad.parquet", table)
    with pytest.raises(ValueError, match=message) as caught:
        read_scenario(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("rows", [329, 200])
@pytest.mark.parametrize("name", ["scenario_id", "track_id"])
def test_a_bomb_of_long_words_is_refused(tmp_path, name, rows):
    """One word of a megabyte in each row is a file of a few kilobytes."""
    table = columns(steps=rows // 3 + 1)
    table = {key: values[:rows] for key, values in table.items()}
    table[name] = ["w" * 2**20] * rows
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table(table), path, compression="zstd")
    assert path.stat().st_size < 50_000
    program = f"""
import sys
from data.fuzzing import _peak_memory
import pyarrow.parquet, pyarrow.compute
from vnt.data.argoverse2 import read_scenario
before = _peak_memory()
try:
    read_scenario({str(path)!r})
except ValueError as error:
    print(_peak_memory() - before, error)
"""
    child = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    memory, message = child.stdout.split(" ", 1)
    assert message.startswith(f"{path}: ")
    assert "would take" in message or "a word of 1,048,576 bytes" in message
    assert int(memory) < 2**29


def test_a_word_of_many_rows_is_once_in_memory(tmp_path):
    """A dictionary says it once, however many rows there are."""
    table = columns(steps=20_000)
    table["scenario_id"] = ["s" * 201] * len(table["timestep"])
    with pytest.raises(ValueError, match=r"column 'scenario_id' has the word 'sss.*longer than 200 characters"):
        read_scenario(write(tmp_path / "long.parquet", table))
    table["scenario_id"] = ["s" * 200] * len(table["timestep"])
    assert read_scenario(write(tmp_path / "long.parquet", table)).name == "s" * 200


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_row_groups_and_kinds_of_words_make_no_difference(tmp_path, kind):
    """Every row group has a dictionary of its own."""
    table = pa.table(columns())
    for name in ("track_id", "object_type", "scenario_id", "focal_track_id"):
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(kind))
    pq.write_table(table, tmp_path / "many.parquet", row_group_size=4)
    one, many = read_scenario(write(tmp_path / "one.parquet", columns())), read_scenario(tmp_path / "many.parquet")
    assert (many.name, many.track_ids, many.types) == (one.name, one.track_ids, one.types)
    np.testing.assert_array_equal(many.positions, one.positions)


def test_numbers_are_no_words(tmp_path):
    table = columns()
    table["track_id"] = list(range(len(table["track_id"])))
    with pytest.raises(ValueError, match=r"column 'track_id' has the type int64, expected words"):
        read_scenario(write(tmp_path / "bad.parquet", table))
