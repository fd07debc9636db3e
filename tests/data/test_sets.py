"""Sets by name: where they are found, how they are split, and how they become batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from data.sets_on_disk import write_hdf5, write_meshes, write_packed, write_text
from data.test_motion_set import scenes
from vnt.data.modelnet import load_modelnet
from vnt.data.motion_inputs import ARROW_LENGTH, ENOUGH, later_inputs
from vnt.data.motion_set import save
from vnt.data.sets import SETS, as_batch, load_set


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))


def test_dots_are_drawn_once_for_each_cloud(tmp_path):
    write_packed(tmp_path / "modelnet40_1024.npz", per_class=10, num_points=64)
    whole = load_set("modelnet40_polka_dot", "train+val", tmp_path)
    row_of = {tuple(points.flatten().tolist()): row for row, points in enumerate(whole.points)}
    found = []
    for split in ("train", "val"):
        part = load_set("modelnet40_polka_dot", split, tmp_path)
        rows = [row_of[tuple(points.flatten().tolist())] for points in part.points]
        assert torch.equal(part.attributes, whole.attributes[rows])
        assert torch.equal(part.points, load_modelnet(split, folder=tmp_path).points)
        found += rows
    assert sorted(found) == list(range(40))
    assert len(load_set("modelnet40_polka_dot", "test", tmp_path)) == 40


@pytest.mark.parametrize("write", [write_hdf5, write_text, write_meshes])
def test_modelnet_s_own_folder_may_be_named(tmp_path, write):
    write(tmp_path / "my shapes")
    assert SETS["modelnet40"].path(tmp_path) is None
    assert SETS["modelnet40"].path(tmp_path / "my shapes") == tmp_path / "my shapes"
    assert len(load_modelnet("test", folder=tmp_path / "my shapes", num_points=20)) > 0


def test_modelnet_is_coordinates_alone_whatever_its_form(tmp_path):
    """The text form brings normals and more points; recipes and tables are of neither."""
    write_text(tmp_path / "modelnet40_normal_resampled", num_points=1100)
    for name in ("modelnet40", "modelnet40_polka_dot"):
        clouds = load_set(name, "test", tmp_path)
        assert clouds.points.shape[1:] == (1024, 3)
        assert clouds.vectors is None
    assert load_modelnet("test", folder=tmp_path, num_points=1100).vectors.shape[1:] == (1100, 1, 3)


def test_a_file_may_be_named(tmp_path):
    save(replace(scenes(9), is_test=np.arange(81) < 9), tmp_path / "womd.safetensors")
    for place in (tmp_path, tmp_path / "womd.safetensors"):
        assert SETS["womd"].path(place) == tmp_path / "womd.safetensors"
        assert len(load_set("womd", "test", place)) == 9


def test_the_hint_is_true_of_the_paper_s_subset(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"ready-made womd_vehicles\.npz, which `vnt data convert` does not write"
    ):
        load_set("womd_paper", "train", tmp_path)


def motion(*names):
    windows = scenes(1)
    values = np.random.default_rng(0).normal(size=(*windows.past.shape[:2], len(names))).astype(np.float32)
    return replace(windows, attributes=values, attribute_names=names), torch.from_numpy(values)


def test_velocities_are_vectors():
    windows, values = motion("speed", "velocity_x", "velocity_y", "length")
    batch = as_batch(windows, ("length", "velocity_y", "velocity_x", "speed"))
    assert batch.vectors.shape == (9, 4, 1, 3)
    assert torch.equal(batch.vectors[..., 0, :2], values[..., 1:3])
    assert not batch.vectors[..., 0, 2].any()
    assert torch.equal(batch.attributes, values[..., [3, 0]])
    windows, values = motion("velocity_x", "velocity_y", "velocity_z")
    batch = as_batch(windows, ("velocity_x", "velocity_y", "velocity_z"))
    assert torch.equal(batch.vectors[..., 0, :], values)
    assert batch.attributes is None
    assert as_batch(windows).vectors is None


def test_velocities_turn_with_the_track():
    windows, _ = motion("velocity_x", "velocity_y")
    R = torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]).expand(9, 3, 3)
    batch = as_batch(windows, ("velocity_x", "velocity_y"))
    turned = batch.rotated(R)
    assert torch.equal(turned.vectors[..., 0], -batch.vectors[..., 1])


@pytest.mark.parametrize("name", ["heading", "yaw"])
def test_an_angle_is_an_arrow(name):
    windows, values = motion("speed", name, "velocity_x", "velocity_y")
    batch = as_batch(windows, ("speed", name))
    angle = values[..., 1]
    assert torch.equal(batch.vectors, arrows_along(angle)[..., None, :])
    assert torch.equal(batch.attributes, values[..., :1])
    both = as_batch(windows, (name, "velocity_x", "velocity_y"))
    assert torch.equal(both.vectors[..., 0, :2], values[..., 2:])  # velocity first, whatever the order
    assert torch.equal(both.vectors[..., 1:, :], batch.vectors)


def arrows_along(angle):
    return ARROW_LENGTH * torch.stack([angle.cos(), angle.sin(), 0 * angle], -1)


def around_a_circle(count=ENOUGH, *, steps=61, radius=20.0, dt=0.1, speed=5.0, climb=0.0):
    """Tracks that go round at constant speed: where they are, how fast they go where to, and their headings."""
    angle = speed / radius * dt * torch.arange(float(steps)) + torch.linspace(0, 6, count)[:, None]
    positions = torch.stack(
        [radius * angle.cos(), radius * angle.sin(), climb * dt * torch.arange(float(steps)) + 0 * angle], -1
    )
    arrows = arrows_along(angle + torch.pi / 2)
    velocity = speed / ARROW_LENGTH * arrows + torch.tensor([0.0, 0.0, climb])
    return positions, velocity, arrows


def told(positions, wanted, velocity, arrows, past=11, dt=0.1):
    vectors = ([velocity] if "velocity_x" in wanted else []) + ([arrows] if "heading" in wanted else [])
    vectors = torch.stack(vectors, 2)[:, :past] if vectors else None
    speed = velocity.norm(dim=-1, keepdim=True)[:, :past] if "speed" in wanted else None
    return later_inputs(positions[:, :past], positions[:, past:], wanted, speed, vectors, dt)


@pytest.mark.parametrize("dt", [0.1, 600.0])
@pytest.mark.parametrize("past", [2, 3, 11])
def test_a_track_tells_where_it_will_be_heading(past, dt):
    positions, velocity, arrows = around_a_circle(speed=0.5 / dt, dt=dt) if dt > 1 else around_a_circle(dt=dt)
    wanted = ("speed", "heading", "velocity_x", "velocity_y")
    speed, later = told(positions, wanted, velocity, arrows, past, dt)
    size = velocity.norm(dim=-1).max()
    assert torch.allclose(later[:, :, 0] / size, velocity[:, past:] / size, atol=0.02 if past > 5 else 0.1)
    assert torch.allclose(speed / size, torch.tensor(1.0), atol=0.02 if past > 5 else 0.1)
    if dt < 1:  # what is slower than a pedestrian keeps its heading
        assert torch.allclose(later[:, :, 1], arrows[:, past:], atol=1e-3 if past > 5 else 0.02)


@pytest.mark.parametrize("wanted", [("velocity_x", "velocity_y"), ("velocity_x", "velocity_y", "velocity_z")])
def test_on_a_slope_a_track_tells_what_was_asked(wanted):
    positions, velocity, arrows = around_a_circle(climb=1.0)
    if len(wanted) == 2:
        velocity[..., 2] = 0
    _, later = told(positions, wanted, velocity, arrows)
    assert torch.allclose(later[:, :, 0], velocity[:, 11:], atol=0.05)


def test_what_a_track_tells_of_a_step_does_not_look_ahead():
    positions, velocity, arrows = around_a_circle()
    elsewhere = positions.clone()
    elsewhere[:, 31:] += 100
    before, after = (told(x, ("speed", "heading"), velocity, arrows) for x in (positions, elsewhere))
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one[:, :20], other[:, :20])
        assert not torch.allclose(one[:, 20:], other[:, 20:], atol=0.1)


@pytest.mark.parametrize("pace", [0.0, -3.0], ids=["standing", "reversing"])
def test_a_car_that_does_not_go_ahead_keeps_its_heading(pace):
    x = torch.zeros(1, 40, 3)
    x[..., 0] = pace * 0.1 * torch.arange(40.0)
    arrows = torch.tensor([ARROW_LENGTH, 0.0, 0.0]).expand(1, 10, 1, 3)
    _, later = later_inputs(x[:, :10], x[:, 10:], ("heading",), None, arrows, 0.1)
    assert torch.equal(later, arrows[:, :1].expand(1, 30, 1, 3))


def test_columns_that_do_not_say_what_tracks_do_cannot_slide():
    positions, velocity, arrows = around_a_circle()
    with pytest.raises(
        ValueError, match="speed is not what the tracks tell of it, off by 259%; is it in units of length"
    ):
        told(positions, ("speed",), 3.6 * velocity, arrows)
    with pytest.raises(ValueError, match="velocity is not what the tracks tell"):
        told(positions, ("velocity_x", "velocity_y"), 3.6 * velocity, arrows)
    from_north = arrows[..., [1, 0, 2]]
    with pytest.raises(
        ValueError, match=r"heading is not what the tracks tell of it.* is it in radians from x towards y"
    ):
        told(positions, ("heading",), velocity, from_north)
    told(positions[1:], ("heading",), velocity[1:], from_north[1:])  # too few to judge by


def test_a_track_does_not_tell_how_long_a_car_is():
    windows, _ = motion("speed", "length", "heading")
    with pytest.raises(ValueError, match="windows with length cannot slide: it is known of the past alone"):
        as_batch(windows, ("speed", "length", "heading"), slides=True)
    assert as_batch(windows, ("speed", "length", "heading")).future_vectors is None
    assert as_batch(windows, slides=True).future_vectors is None


def test_what_is_told_goes_on_from_what_was_measured():
    batch = as_batch(load_set("motion", "val"), ("speed", "heading"), slides=True)
    speeds = torch.cat([batch.attributes[:, -1], batch.future_attributes[:, 0]], 1)
    assert (speeds[:, 0] - speeds[:, 1]).abs().median() < 0.3
    cosine = (batch.vectors[:, -1, 0] * batch.future_vectors[:, 0, 0]).sum(-1) / ARROW_LENGTH**2
    assert cosine.median() > 0.99
    turned = batch.rotated(torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]).expand(len(batch), 3, 3))
    assert torch.equal(turned.future_vectors[..., 0], -batch.future_vectors[..., 1])


def test_half_a_velocity_is_refused():
    windows, _ = motion("velocity_x", "velocity_y")
    with pytest.raises(ValueError, match="needs velocity_x and velocity_y"):
        as_batch(windows, ("velocity_x",))
    with pytest.raises(ValueError, match="and not speed"):
        as_batch(windows, ("speed",))
