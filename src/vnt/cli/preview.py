"""What ``vnt data preview`` draws."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from vnt.cli.content import open_content
from vnt.data.cloud import Cloud
from vnt.data.cloud_files import read_cloud
from vnt.data.cloud_set import CloudSet, Split
from vnt.data.motion_set import MotionSet
from vnt.data.recording import Recording
from vnt.spelling import suggest
from vnt.view.pictures import draw_clouds, draw_scene, draw_tracks

MOST_DOTS = 20_000
TRACKS = 8
CLOUDS = 12


def picture(
    word: str, data: Path | None = None, *, split: Split = "train", color: str | None = None, seed: int = 0
) -> Figure:
    """A picture of a file or of examples of a data set."""
    content = open_content(word, data, split=split, seed=seed)
    if color is not None and not isinstance(content.value, Cloud):
        raise ValueError(f"--color {color} names an attribute of a cloud file, and {word} is a {content.form}")
    match content.value:
        case Cloud():
            if content.classes:
                firsts = {file.name: file.path for file in reversed(content.classes)}
                titles = sorted(firsts)[:CLOUDS]
                return _clouds([read_cloud(firsts[name], seed=seed) for name in titles], titles, color, seed)
            files = content.files or (Path(word),)
            clouds = [content.value, *(read_cloud(path, seed=seed) for path in files[1:CLOUDS])]
            return _clouds(clouds, [path.name for path in files[:CLOUDS]], color, seed)
        case CloudSet():
            return _one_of_each_class(content.value, seed)
        case Recording():
            scene = content.value
            seconds = scene.num_steps * scene.dt
            title = f"{scene.name}: {scene.num_tracks} tracks over {seconds:.3g} s"
            return draw_scene(scene.positions, scene.valid, scene.types, title)
        case MotionSet():
            windows = content.value
            drawn = np.random.default_rng(seed).choice(len(windows), min(TRACKS, len(windows)), replace=False)
            titles = [f"{kind} {track}" for kind, track in zip(windows.types[drawn], windows.track[drawn], strict=True)]
            return draw_tracks(windows.past[drawn], windows.future[drawn], titles, dt=windows.dt)


def _clouds(clouds: list[Cloud], names: list[str], color: str | None, seed: int) -> Figure:
    titles = [f"{name}: {len(cloud):,} points" for name, cloud in zip(names, clouds, strict=True)]
    drawn = []
    for name, cloud in zip(names, clouds, strict=True):
        if color is not None and color not in cloud.attributes:
            known = suggest(color, cloud.attributes) if cloud.attributes else "it has none"
            raise ValueError(f"no attribute {color!r} in {name}; {known}")
        if len(cloud) > MOST_DOTS // len(clouds):
            index = np.random.default_rng(seed).choice(len(cloud), MOST_DOTS // len(clouds), replace=False)
            cloud = cloud.take(index)
        drawn.append(cloud)
    colors = None if color is None else [cloud.attributes[color] for cloud in drawn]
    return draw_clouds([cloud.points for cloud in drawn], titles, colors=colors, color_name=color or "height")


def _one_of_each_class(clouds: CloudSet, seed: int) -> Figure:
    rng = np.random.default_rng(seed)
    labels = clouds.labels.numpy()
    drawn = [int(rng.choice(np.flatnonzero(labels == label))) for label in np.unique(labels)]
    titles = [clouds.class_names[labels[row]] for row in drawn]
    colors = None if clouds.attributes is None else [clouds.attributes[row, :, -1].numpy() for row in drawn]
    return draw_clouds([clouds.points[row].numpy() for row in drawn], titles, colors=colors, up=clouds.up)
