"""The input pipeline on a GPU: everything stays there, and nothing waits for it."""

import pytest
import torch

from vnt.data.batches import Batches, CloudBatch, MotionBatch
from vnt.data.transforms import (
    DropPoints,
    FarthestPoints,
    Jitter,
    RandomRotation,
    RandomSample,
    RandomScale,
    RandomShift,
)

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),
]

TRANSFORMS = [
    RandomRotation("SO3"),
    RandomRotation("z", up="y"),
    RandomSample(48),
    FarthestPoints(20),
    RandomScale(),
    RandomShift(),
    Jitter(),
    DropPoints(),
]


@pytest.fixture
def no_waiting():
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_transforms_stay_on_the_device_and_wait_for_nothing(transform, no_waiting):
    whole = CloudBatch(
        points=torch.randn(64, 64, 3, device="cuda"), labels=torch.zeros(64, dtype=torch.long, device="cuda")
    )
    for batch in Batches(whole, 16, transforms=[transform], shuffle=False).epoch(0):
        assert all(value.is_cuda for value in batch.tensors().values())


def test_motion_on_the_device():
    whole = MotionBatch(past=torch.randn(8, 11, 3, device="cuda"), future=torch.randn(8, 30, 3, device="cuda"))
    batch = next(Batches(whole, 8, transforms=[RandomRotation("SO3")], shuffle=False).epoch(0))
    lengths = batch.future.norm(dim=-1)
    assert torch.allclose(lengths, whole.future.norm(dim=-1), atol=1e-5)


def test_the_order_of_an_epoch_is_that_of_the_cpu():
    labels = torch.arange(100)
    points = torch.randn(100, 4, 3)
    on_cpu, on_gpu = (CloudBatch(points=points, labels=labels).to(device) for device in ("cpu", "cuda"))
    first, second = (next(Batches(whole, 100, seed=3).epoch(2)).labels.cpu() for whole in (on_cpu, on_gpu))
    assert torch.equal(first, second)
