"""What a run trains on: three splits as batches, and what the model must know of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnt.data.batches import Batch, CloudBatch, MotionBatch
from vnt.data.cloud_set import Axis, CloudSet, Split
from vnt.data.folder import load_folder
from vnt.data.motion_set import MotionSet
from vnt.data.motion_set import load as load_windows
from vnt.data.sets import SETS, as_batch, load_set, split_windows
from vnt.data.transforms import (
    DropPoints,
    Jitter,
    MixClouds,
    RandomRotation,
    RandomSample,
    RandomScale,
    RandomShift,
    SlideWindow,
)
from vnt.geometry import masked_mean
from vnt.models.apart_config import ApartConfig
from vnt.models.kinds import ModelConfig
from vnt.models.saving import read_about
from vnt.spelling import suggest
from vnt.training.config import TrainConfig

MOST_POINTS = 1024
"""Of each file in a folder of clouds, unless a step takes more."""


@dataclass(frozen=True, eq=False)
class Data:
    """A training and a validation split, each as one batch. Bring your own by filling this in.

    Attributes:
        train, val: all clouds or tracks of the split.
        class_names: of a classification task.
        attribute_names: of the attributes, so that users' files can be matched to them.
        up: the axis that rotation protocol "z" turns about.
        dt: seconds between the steps of a track.
    """

    train: Batch
    val: Batch
    class_names: tuple[str, ...] = ()
    attribute_names: tuple[str, ...] = ()
    up: Axis = "z"
    dt: float = 0.1


def load_data(config: TrainConfig, folder: Path | None = None) -> Data:
    """The data set that a config names. The test split is not touched."""
    train = load_split(config, "train" if config.hold_out else "train+val", folder)
    val = load_split(config, "val", folder)
    whole, held_out = as_batch(train, config.attributes, slides=config.slide > 0), as_batch(val, config.attributes)
    if isinstance(train, CloudSet):
        return Data(whole, held_out, train.class_names, train.attribute_names, up=train.up)
    return Data(whole, held_out, attribute_names=config.attributes, dt=train.dt)


def load_split(
    config: TrainConfig,
    split: Split,
    folder: Path | None = None,
    *,
    may_have_moved: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> CloudSet | MotionSet:
    """One split of the data set that a config names: a known one, a folder of clouds, or a file of windows.

    One's own of a run that is over ``may_have_moved``, and is then what ``folder`` is. ``progress`` hears of (files
    read, files in all) while a folder of clouds is read for the first time.
    """
    if config.dataset in SETS:
        return load_set(config.dataset, split, folder)
    own = Path(config.dataset)
    if may_have_moved and folder is not None and not own.exists():
        own = Path(folder)
    if own.is_dir():
        num_points = max(MOST_POINTS, config.num_points)
        clouds = load_folder(own, split, num_points=num_points, attributes=config.attributes, progress=progress)
        return clouds if config.normals else replace(clouds, vectors=None)
    if own.is_file():
        return split_windows(load_windows(own), split)
    if may_have_moved:
        raise ValueError(f"{own}: no such folder of clouds or file of windows; --data says where it is if it has moved")
    known = suggest(config.dataset, SETS)
    raise ValueError(f"no data set {config.dataset!r}, and no such folder of clouds or file of windows; {known}")


def fit_model(config: ModelConfig, data: Data, known: Path | str = "") -> ModelConfig:
    """The model's config with what the data decide: classes, future steps, units of attributes, number of vectors.

    Where training goes on from a ``known`` model, as `vnt.load` takes it, attributes stay in that one's units.
    """
    if isinstance(config, ApartConfig):
        raise ValueError(
            "a model of an ApartConfig is not trained: its parts are trained, and put together by vnt.combine"
        )
    values: dict[str, Any] = {}
    match data.train:
        case CloudBatch():
            if not hasattr(config, "num_classes"):
                raise ValueError(f"clouds are classified, but a {type(config).__name__} is for tracks")
            values["num_classes"] = _number_of_classes(data)
        case MotionBatch():
            if not hasattr(config, "num_future"):
                raise ValueError(f"tracks are forecast, but a {type(config).__name__} is for clouds")
            values["num_future"] = data.train.future.shape[1]
            if hasattr(config, "num_past"):
                values["num_past"] = data.train.past.shape[1]
    attributes = data.train.tensors().get("attributes")
    given = 0 if attributes is None else attributes.shape[-1]
    if given != config.num_attributes:
        raise ValueError(f"the data have {given} attributes, the model is for {config.num_attributes}")
    if attributes is not None and not getattr(config, "attribute_scales", ()) and getattr(config, "scale", "") != "raw":
        mask = data.train.tensors().get("mask")
        values["attribute_scales"] = _scales_of(known, given) if known else _usual_sizes(attributes, mask)
    vectors = data.train.tensors().get("vectors")
    values["num_vectors"] = 0 if vectors is None else vectors.shape[-2]
    return replace(config, **values)


def _number_of_classes(data: Data) -> int:
    """As many as there are names for, and no label may be beyond them."""
    if not data.class_names:
        raise ValueError("Data of clouds need class_names: one name for each class")
    for part in (data.train, data.val):
        labels = part.tensors().get("labels")
        if labels is None:
            raise ValueError("clouds to train on, and to validate on, need labels")
        if labels.ndim == 1 and len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(data.class_names):
            raise ValueError(
                f"labels from {int(labels.min())} to {int(labels.max())} do not fit {len(data.class_names)} class_names"
            )
    return len(data.class_names)


def _usual_sizes(attributes: Tensor, mask: Tensor | None) -> tuple[float, ...]:
    """The root mean square of each attribute where there is one and it is not zero; 1 where it always is."""
    values = (attributes if mask is None else attributes[mask]).double().flatten(0, -2).nan_to_num(0, 0, 0)
    count = (values != 0).sum(0)
    return tuple(torch.where(count > 0, (values.square().sum(0) / count.clamp(min=1)).sqrt(), 1.0).tolist())


def _scales_of(known: Path | str, num_attributes: int) -> tuple[float, ...]:
    """What a model divides attributes by; nothing of one that takes others."""
    theirs = tuple(read_about(known)["model"].get("attribute_scales", ()))
    return theirs if len(theirs) == num_attributes else ()


def augmentations(config: TrainConfig, data: Data) -> list:
    """The transforms of a training step, in order."""
    chosen: list = []
    if isinstance(data.train, CloudBatch):
        if config.num_points:
            chosen.append(RandomSample(config.num_points))
        if config.scale > 1:
            chosen.append(RandomScale(1 / config.scale, config.scale))
        if config.mix:
            chosen.append(MixClouds(config.mix, len(data.class_names)))
        if config.jitter:
            chosen.append(Jitter(config.jitter, 5 * config.jitter))
        if config.shift:
            chosen.append(RandomShift(config.shift))
        if config.drop_points:
            chosen.append(DropPoints(config.drop_points))
    elif config.slide:
        chosen.append(SlideWindow(config.slide))
    return [*chosen, RandomRotation(config.rotation, data.up)]


class TaskLoss(nn.Module):
    """Cross-entropy for clouds, the mean distance to the truth for tracks; a mean over the items of a batch.

    ``shares`` of the classes are what was expected before: logits are then learned as what a cloud adds to that.
    """

    def __init__(self, label_smoothing: float = 0.0, shares: Float[Tensor, "classes"] | None = None):
        super().__init__()
        self.label_smoothing = label_smoothing
        self.expected = None if shares is None else shares.log()

    def forward(self, output: Tensor, batch: Batch) -> Tensor:
        match batch:
            case CloudBatch() if batch.labels is not None:
                logits = output.float() if self.expected is None else output.float() + self.expected
                return nn.functional.cross_entropy(logits, batch.labels, label_smoothing=self.label_smoothing)
            case MotionBatch():
                distance = (output[..., :3].float() - batch.future).norm(dim=-1)
                return masked_mean(distance, batch.known, -1).mean()
            case _:
                raise ValueError("clouds without labels cannot be learned from")
