"""Run a model over a set, as it lies or turned by a rotation protocol."""

from collections.abc import Callable
from itertools import chain

import torch
from torch import Generator, Tensor, nn

from vnt.data.batches import Batch, Batches, CloudBatch, MotionBatch
from vnt.data.cloud_set import Axis
from vnt.data.transforms import Protocol, RandomRotation, RandomSample
from vnt.evaluation.metrics import Classification, Forecast, add, classification, forecast
from vnt.processes import place

ROTATION_SEED = 1234
"""Test rotations are the same for every model that is compared."""


class EmptySetError(ValueError):
    """There is nothing to evaluate on."""


def forward(model: nn.Module, batch: Batch) -> Tensor:
    """Call a model with what a batch has: (points or past, attributes, mask) and, where there are any, vectors."""
    match batch:
        case CloudBatch():
            first = batch.points
        case MotionBatch():
            first = batch.past
        case _:
            raise ValueError(f"expected a CloudBatch or a MotionBatch, got {type(batch).__name__}")
    rest = () if batch.vectors is None else (batch.vectors,)
    return model(first, batch.attributes, batch.mask, *rest)


def device_of(model: nn.Module) -> torch.device:
    """Where a model lies; one without any numbers, such as constant velocity, on the CPU."""
    held = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if held is None else held.device


@torch.no_grad()
def evaluate_batches(
    model: nn.Module,
    whole: Batch,
    *,
    rotation: Protocol = "I",
    up: Axis = "z",
    num_points: int = 0,
    batch_size: int = 64,
    seed: int = ROTATION_SEED,
    progress: Callable[[int], None] | None = None,
) -> Classification | Forecast:
    """A model on a set that lies on its device as one batch, in evaluation mode.

    Args:
        model: with the forward signature of ours.
        whole: the set.
        rotation: of each item, drawn from ``seed``.
        up: the axis of rotation "z".
        num_points: a fixed random subset of so many points of each cloud; 0 takes all.
        batch_size: affects speed and memory, not the result.
        seed: of rotations and subsets.
        progress: called with the number of items of each batch that is done.
    """
    if num_points < 0:
        raise ValueError(f"num_points must not be negative, got {num_points}")
    was_training = model.training
    model.eval()
    transforms: list[Callable] = [RandomSample(num_points)] if num_points and isinstance(whole, CloudBatch) else []
    transforms.append(RandomRotation(rotation, up))
    # Turned as a whole first: what an item is turned by must not depend on the size of the batches.
    generator = Generator(next(iter(whole.tensors().values())).device).manual_seed(seed)
    for transform in transforms:
        whole = transform(whole, generator)
    rank, count = place()
    if len(whole) == 0:
        raise EmptySetError("the set to evaluate on is empty")
    if len(whole) < count:
        raise ValueError(f"a set of {len(whole)} cannot be spread over {count} processes")
    mine = torch.arange(rank, len(whole), count, device=generator.device)
    parts: list = []
    for batch in Batches(whole.rows(mine), batch_size, shuffle=False).epoch(0):
        output = forward(model, batch)
        match batch:
            case CloudBatch() if batch.labels is not None:
                parts.append(classification(output, batch.labels))
            case MotionBatch():
                parts.append(forecast(output, batch.future, batch.known))
            case _:
                raise ValueError("clouds without labels cannot be evaluated")
        if progress is not None:
            progress(len(batch))
    model.train(was_training)
    return add(parts)
