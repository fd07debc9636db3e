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
