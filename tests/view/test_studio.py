"""What the page asks of the models, without a page."""

import shutil
import threading

import numpy as np
import pytest
import torch

from vnt.data.cloud import Cloud
from vnt.data.cloud_files import read_cloud
from vnt.evaluation.predict import predict_clouds
from vnt.models.saving import PRETRAINED
from vnt.view.samples import built_in_clouds, built_in_tracks
from vnt.view.studio import PAIRS, CloudStudio, Known, Pair, TrackStudio
from vnt.view.turning import from_angles, random_matrix

TURNED = from_angles(40, 70, 20)


@pytest.fixture(scope="module")
def chair():
    return CloudStudio(Pair.load(*PAIRS["built-in shapes"]), built_in_clouds()["chair"][0])


@pytest.fixture(scope="module")
def track():
    found = next(iter(built_in_tracks().values()))
    return TrackStudio(Pair.load(*PAIRS["built-in tracks"]), found.past, found.future)


def test_both_know_the_chair_and_one_loses_it(chair):
    at_rest, turned = chair.look(np.eye(3)).classes, chair.look(TURNED).classes
    ours, plain = chair.pair.both
    assert chair.name_of(at_rest[ours.name].probabilities.argmax()) == "chair"
    assert chair.name_of(at_rest[plain.name].probabilities.argmax()) == "chair"
    assert chair.name_of(turned[ours.name].probabilities.argmax()) == "chair"
    assert turned[ours.name].change < 1e-5
    assert turned[ours.name].violation < 1e-5
    assert turned[plain.name].change > 0.1


def test_arrows_turn_with_the_cloud(chair):
    at_rest, turned = (chair.look(R, channel=3).arrows for R in (np.eye(3), TURNED))
    assert at_rest.shape == (48, 2, 3)
    np.testing.assert_allclose(turned, at_rest @ TURNED.T, atol=1e-4)
    assert np.linalg.norm(at_rest[:, 1] - at_rest[:, 0], axis=1).max() == pytest.approx(0.25, rel=1e-4)


def test_another_channel_has_other_arrows(chair):
    assert not np.allclose(chair.look(TURNED, channel=0).arrows, chair.look(TURNED, channel=1).arrows, atol=1e-2)


@pytest.mark.parametrize("block", [0, 1])
def test_attention_is_that_of_the_model_and_does_not_turn(chair, block):
    at_rest, turned = (chair.look(R, point=5, block=block).attention for R in (np.eye(3), TURNED))
    assert at_rest.shape == (1024,)
    assert at_rest.sum() == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(turned, at_rest, rtol=1e-2, atol=1e-7)
    # What that block's attention makes of values that are one at a single point is the weight of that point.
    layer = [m for m in chair.pair.ours.model.modules() if type(m).__name__ == "VNMultiheadAttention"][block]
    seen = {}
    hook = layer.register_forward_hook(lambda m, inputs, out: seen.update(inputs=inputs))
    chair.look(np.eye(3))
    hook.remove()
    q, k = layer.query(seen["inputs"][0])[0, 5], layer.key(seen["inputs"][1])[0]
    heads = [
        torch.softmax((k[:, h] * q[h]).sum((1, 2)) / np.sqrt(3 * q[h].shape[0]), 0)
        for h in torch.arange(q.shape[0]).chunk(layer.num_heads)
    ]
    np.testing.assert_allclose(at_rest, torch.stack(heads).mean(0).detach(), rtol=1e-3, atol=1e-7)


def test_nearest_point_to_a_ray(chair):
    place = chair.points[chair.seen[17]] @ TURNED.T
    towards = place - np.array([3.0, 3.0, 3.0])
    found = chair.nearest(TURNED, np.array([3.0, 3.0, 3.0]), towards)
    away = chair.points[chair.seen[found]] @ TURNED.T - place
    assert np.linalg.norm(away - (away @ towards) * towards / (towards @ towards)) < 0.04  # it, or one in front of it
    assert chair.nearest(TURNED, np.array([3.0, 3.0, 3.0]), np.array([1.0, 1.0, 1.0])) is None


def test_the_page_says_what_predict_says(chair, tmp_path):
    """Also in other units, which both bring to those that the model knows."""
    for factor in (1.0, 1000.0):
        path = tmp_path / f"{factor}.xyz"
        np.savetxt(path, chair.cloud.points * factor + 5)
        studio = CloudStudio(chair.pair, read_cloud(path))
        for known in chair.pair.both:
            (said,) = predict_clouds(known.model, known.about, [path], top=1)
            best = studio.look(np.eye(3)).classes[known.name].probabilities.max()
            assert said.classes[0][1] == pytest.approx(best, abs=1e-4)


def test_threads_do_not_see_each_other_s_points(chair):
    """A scene is drawn while the next one is made."""
    stop = threading.Event()

    def make_others():
        while not stop.is_set():
            CloudStudio(chair.pair, chair.cloud, num_points=40)

    other = threading.Thread(target=make_others)
    other.start()
    try:
        for _ in range(10):
            found = chair.look(TURNED, channel=0, point=1000)
            assert found.arrows.shape == (48, 2, 3)
            assert found.attention.shape == (1024,)
    finally:
        stop.set()
        other.join()


def test_models_of_the_same_name_stay_apart(tmp_path):
    for name in ("a", "b"):
        shutil.copytree(PRETRAINED / "shapes", tmp_path / name / "best")
    pair = Pair.load(tmp_path / "a" / "best", tmp_path / "b" / "best")
    assert [known.name for known in pair.both] == ["a/best", "b/best"]


def test_a_million_points_are_drawn_and_a_thousand_looked_at():
    points = np.random.default_rng(0).standard_normal((1_000_000, 3))
    studio = CloudStudio(Pair.load("shapes"), Cloud(points))
    assert len(studio.points) == 1_000_000
    assert len(studio.seen) == 1024
    assert np.linalg.norm(studio.points, axis=1).max() == pytest.approx(1)


def test_a_single_place_is_no_disaster():
    studio = CloudStudio(Pair.load("shapes"), Cloud(np.ones((10, 3))))
    assert np.isfinite(studio.look(TURNED, channel=0, point=0).arrows).all()


def test_forecast_turns_with_the_road(track):
    for seed in range(3):
        R = random_matrix(np.random.default_rng(seed))
        found = track.answer(R)
        ours, plain = (found[known.name] for known in track.pair.both)
        assert ours.gap < 1e-3
        assert plain.gap > 0.1
        assert ours.error == pytest.approx(track.answer(np.eye(3))["motion"].error, abs=1e-3)


def test_a_track_without_a_future_has_no_error(track):
    studio = TrackStudio(track.pair, track.past + 100)
    assert studio.answer(TURNED)["motion"].error is None
    with pytest.raises(ValueError, match="too short"):
        TrackStudio(track.pair, track.past[:3])


def test_pairs_that_do_not_belong_together():
    with pytest.raises(ValueError, match="do not answer the same question"):
        Pair.load("shapes", "motion")
    with pytest.raises(ValueError, match="different classes"):
        Pair.load("shapes", "modelnet40-small")
    with pytest.raises(ValueError, match="does not classify"):
        CloudStudio(Pair.load("motion"), Cloud(np.eye(3)))
    with pytest.raises(ValueError, match="does not forecast"):
        TrackStudio(Pair.load("shapes"), np.zeros((11, 3)))


def test_models_that_want_more_than_coordinates_are_refused():
    known = Known.load("shapes")
    about = {**known.about, "attribute_names": ["dots"]}
    with pytest.raises(ValueError, match="coordinates alone"):
        Pair(Known("dotted", known.model, about))
