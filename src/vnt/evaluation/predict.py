"""What a trained model says of a user's own files: classes of clouds, futures of tracks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vnt.data.batches import MotionBatch, collate
from vnt.data.cloud import Cloud
from vnt.data.cloud_files import FORMATS, read_cloud
from vnt.data.folder import clouds_below
from vnt.data.motion_inputs import motion_inputs
from vnt.data.recording import Recording
from vnt.data.track_tables import TEXTS, names_tracks
from vnt.evaluation.evaluate import device_of, forward
from vnt.files import require_file

BATCH = 16


@dataclass(frozen=True)
class CloudPrediction:
    """The classes of one file, most probable first, or why it could not be read.

    ``scaled`` is the factor by which it was brought to the sizes that the model knows, where it was far outside them.
    """

    path: Path
    classes: tuple[tuple[str, float], ...] = ()
    scaled: float | None = None
    error: str | None = None


def find_clouds(sources: Sequence[Path | str]) -> list[Path]:
    """The files that are meant: files as they are, there or not, and of folders all clouds below them."""
    found: list[Path] = []
    for source in map(Path, sources):
        if source.is_dir():
            below = clouds_below(source)
            if not below:
                raise ValueError(f"{source}: no cloud files in this folder; known are {', '.join(FORMATS)}")
            found += below
        else:
            found.append(source)
    return found


@torch.no_grad()
def predict_clouds(
    model: nn.Module,
    about: Mapping[str, Any],
    paths: Sequence[Path],
    *,
    num_points: int = 1024,
    top: int = 3,
    seed: int = 0,
) -> Iterator[CloudPrediction]:
    """Classify files, in their order; a file that cannot be read is said so and does not stop the rest.

    A cloud far larger or smaller than any in training is in other units, millimetres for metres say: it is scaled to
    the middle of the sizes that the model knows, and the answer says by how much.

    Args:
        model: a classifier.
        about: what its ``config.json`` says: names of classes and attributes.
        paths: cloud files of any format.
        num_points: of each cloud at most, and so many of a mesh.
        top: how many classes to name.
        seed: of the points that are drawn.
    """
    names, wanted = list(about.get("class_names", ())), tuple(about.get("attribute_names", ()))
    needs_normals = bool(about["model"].get("num_vectors"))
    device = device_of(model)
    for start in range(0, len(paths), BATCH):
        answers: dict[Path, CloudPrediction] = {}
        clouds, factors = {}, {}
        for path in paths[start : start + BATCH]:
            try:
                if require_file(path).suffix.lower() in TEXTS and names_tracks(path):
                    raise ValueError(f"{path}: a table of tracks, and the model is for clouds")
                cloud = read_cloud(path, num_points=num_points, seed=seed)
                if missing := [name for name in wanted if name not in cloud.attributes]:
                    raise ValueError(f"{path}: the model wants the attributes {', '.join(missing)}, which it lacks")
                if needs_normals and cloud.normals is None:
                    raise ValueError(f"{path}: the model wants normals, which it lacks")
                clouds[path], factors[path] = in_known_units(cloud, about.get("radius"))
            except (ValueError, OSError) as error:
                answers[path] = CloudPrediction(path, error=str(error))
        if clouds:
            batch = collate(list(clouds.values()), attributes=wanted).to(device)
            if not needs_normals:
                batch = replace(batch, vectors=None)
            probability = forward(model, batch).float().softmax(-1).cpu()
            for path, row in zip(clouds, probability, strict=True):
                best = row.topk(min(top, len(row)))
                pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
                classes = tuple((names[i] if names else str(i), p) for i, p in pairs)
                answers[path] = CloudPrediction(path, classes, factors[path])
        for path in paths[start : start + BATCH]:
            yield answers[path]


def in_known_units(cloud: Cloud, radii: Sequence[float] | None) -> tuple[Cloud, float | None]:
    """The cloud, and the factor it was scaled by where its RMS radius is not within twice the range of training."""
    x = cloud.points - cloud.points.mean(0)
    radius = float(np.sqrt(np.square(x).sum(1).mean()))
    if not radii or radius == 0 or radii[0] / 2 <= radius <= 2 * radii[1]:
        return cloud, None
    factor = float(np.sqrt(radii[0] * radii[1])) / radius
    return Cloud(factor * x, cloud.normals, cloud.attributes), factor


@torch.no_grad()
def predict_tracks(model: nn.Module, about: Mapping[str, Any], recording: Recording) -> dict[str, np.ndarray]:
    """The future (T_out, 3) of each track, in the recording's own coordinates, from its last observed steps.

    A track needs two observed steps at least among the last ones; others are left out.
    """
    past, dt = int(about.get("past", 11)), float(about.get("dt", recording.dt))
    if abs(recording.dt - dt) > 0.01 * dt:
        raise ValueError(
            f"{recording.name}: its steps are {recording.dt:g} s apart and the model's {dt:g} s; write the tracks as a "
            "table of track, time and place, which is resampled"
        )
    wanted = tuple(about.get("attribute_names", ()))
    attributes, vectors = motion_inputs(recording.attributes, recording.attribute_names, wanted)
    futures: dict[str, np.ndarray] = {}
    device = device_of(model)
    for number, track in enumerate(recording.track_ids):
        seen = np.flatnonzero(recording.valid[number])
        if len(seen) == 0:
            continue
        steps = np.arange(seen[-1] - past + 1, seen[-1] + 1)
        inside = np.clip(steps, 0, None)
        mask = (steps >= 0) & recording.valid[number, inside]
        if mask.sum() < 2:
            continue
        origin = recording.positions[number, seen[-1]]
        x = np.where(mask[:, None], recording.positions[number, inside] - origin, 0).astype(np.float32)
        batch = MotionBatch(
            past=torch.from_numpy(x)[None],
            future=torch.zeros(1, 1, 3),
            mask=None if mask.all() else torch.from_numpy(mask)[None],
            attributes=None if attributes is None else attributes[number, inside][None],
            vectors=None if vectors is None else vectors[number, inside][None],
        )
        futures[track] = forward(model, batch.to(device))[0, :, :3].double().cpu().numpy() + origin
    return futures
