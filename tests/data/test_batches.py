import numpy as np
import pytest
import torch

from vnt.data.batches import Batches, CloudBatch, MotionBatch, collate, turn
from vnt.data.cloud import Cloud
from vnt.data.transforms import Jitter
from vnt.geometry import random_rotation, rotate


def whole(M=10):
    points = torch.arange(float(M))[:, None, None].expand(M, 4, 3).contiguous()
    return CloudBatch(points=points, labels=torch.arange(M))


def test_an_epoch_has_every_item_once():
    batches = Batches(whole(), 3)
    assert len(batches) == 4
    epoch = list(batches.epoch(0))
    assert [len(batch) for batch in epoch] == [3, 3, 3, 1]
    assert sorted(torch.cat([batch.labels for batch in epoch]).tolist()) == list(range(10))
    assert all(torch.equal(batch.points[:, 0, 0], batch.labels.float()) for batch in epoch)


def test_drop_last():
    batches = Batches(whole(), 3, drop_last=True)
    assert len(batches) == len(list(batches.epoch(0))) == 3


def test_epochs_differ_and_repeat():
    batches = Batches(whole(100), 100, transforms=[Jitter()], seed=5)
    first, again, other = (next(batches.epoch(n)) for n in (0, 0, 1))
    assert torch.equal(first.points, again.points)
    assert not torch.equal(first.labels, other.labels)
    assert not torch.equal(first.labels, next(Batches(whole(100), 100, seed=6).epoch(0)).labels)


def test_an_interrupted_epoch_goes_on_as_it_would_have():
    batches = Batches(whole(), 2, transforms=[Jitter()])
    expected = list(batches.epoch(3))[2:]
    for actual, wanted in zip(batches.epoch(3, start=2), expected, strict=True):
        assert torch.equal(actual.points, wanted.points)


def test_batches_do_not_touch_the_set():
    data = whole()
    before = data.points.clone()
    for _ in Batches(data, 4, transforms=[Jitter()]).epoch(0):
        pass
    assert torch.equal(data.points, before)


def test_rotation_turns_all_that_turns():
    R = random_rotation(5)
    cloud = CloudBatch(points=torch.randn(5, 7, 3), vectors=torch.randn(5, 7, 2, 3), attributes=torch.randn(5, 7, 1))
    turned = cloud.rotated(R)
    assert torch.allclose(turned.points, rotate(cloud.points, R), atol=1e-6)
    assert torch.allclose(turned.vectors, rotate(cloud.vectors, R), atol=1e-6)
    assert torch.equal(turned.attributes, cloud.attributes)
    track = MotionBatch(past=torch.randn(5, 7, 3), future=torch.randn(5, 9, 3))
    assert torch.allclose(track.rotated(R).future, rotate(track.future, R), atol=1e-6)
    assert torch.allclose(track.rotated(R).past, turn(track.past, R))


def test_collate_pads_and_centres():
    far = np.array([[5e6, 5e6, 0.0], [5e6 + 0.5, 5e6, 0.0]])
    clouds = [
        Cloud(far, normals=np.eye(3)[:2], attributes={"a": np.array([1, 2]), "b": np.array([3, 4])}),
        Cloud(np.zeros((1, 3)), normals=np.ones((1, 3)), attributes={"a": np.array([5]), "b": np.array([6])}),
    ]
    batch = collate(clouds, [1, 0], attributes=["b"])
    assert batch.points[0].tolist() == [
        [-0.25, 0, 0],
        [0.25, 0, 0],
    ]  # half a metre at 5,000 km: centred before rounding
    assert batch.mask.tolist() == [[True, True], [True, False]]
    assert batch.attributes[..., 0].tolist() == [[3, 4], [6, 0]]
    assert batch.vectors.shape == (2, 2, 1, 3)
    assert batch.labels.tolist() == [1, 0]


def test_normals_of_some_clouds_only_are_left_out():
    batch = collate([Cloud(np.zeros((2, 3)), normals=np.ones((2, 3))), Cloud(np.zeros((2, 3)))])
    assert batch.vectors is None
    assert batch.attributes is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: collate([Cloud(np.zeros((2, 3)))], [0, 1]),
            r"labels of the shape \(2,\) do not fit: 2, and 1 in points",
        ),
        (lambda: collate([Cloud(np.zeros((2, 3)))], [0.5]), "labels must be whole numbers"),
        (lambda: CloudBatch(points=torch.zeros(4, 10, 2)), "do not fit: 2, and 3 of space"),
        (lambda: CloudBatch(points=torch.zeros(10, 3)), "points must have 3 axes"),
        (lambda: CloudBatch(points=torch.zeros(4, 10, 3), mask=torch.ones(4, 9) > 0), "mask .* 9, and 10 in points"),
        (lambda: MotionBatch(past=torch.zeros(9, 5, 3), future=torch.zeros(8, 2, 3)), "future .* 8, and 9 in past"),
    ],
)
def test_what_belongs_together_has_one_length(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_messages():
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        Batches(whole(), 0)
    with pytest.raises(ValueError, match="at least one cloud"):
        collate([])
    with pytest.raises(ValueError, match=r"cloud 0 has attributes \['a'\], and not intensity"):
        collate([Cloud(np.zeros((1, 3)), attributes={"a": np.zeros(1)})], attributes=["a", "intensity"])
