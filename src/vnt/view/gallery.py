"""A page for a website: one file, no server. The answers of the models are computed beforehand, on a grid of turns."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnt.data.embedded import SHAPE_CLASSES
from vnt.view.answers import OURS, PLAIN
from vnt.view.cloud_scene import value_colors
from vnt.view.content import CLOUD, TRACK, Content
from vnt.view.pictures import UPRIGHT
from vnt.view.studio import CloudStudio, Pair, TrackStudio
from vnt.view.turning import Matrix, from_angles

TEMPLATE = Path(__file__).with_name("gallery.html")
STEP = 15
"""Degrees between turns of the grid."""

CLOUDS, TRACKS = ("chair", "table", "lamp", "bottle", "airplane", "mug"), 3
"""Built-in samples that a page shows, those of these names that there are."""

MOST_DRAWN = 2048


def gallery_page(
    content: Content,
    *,
    chosen: tuple[str, ...] = (),
    step: int = STEP,
    say: Callable[[str], None] = lambda words: None,
) -> str:
    """The page as text: the ``chosen`` samples, or a few that there are, with answers at every ``step`` degrees."""
    if step < 1 or 90 % step:
        raise ValueError(f"step must divide 90 degrees, got {step}")
    wanted = chosen or (*CLOUDS, *list(content.tracks)[:TRACKS])
    clouds = [name for name in content.clouds if name in wanted]
    tracks = [name for name in content.tracks if name in wanted]
    scenes: list[dict[str, Any]] = []
    for kind, names in ((CLOUD, clouds), (TRACK, tracks)):
        for name in names:
            say(f"{name}: {len(turns(step))} turns")
            pair = content.pairs[_pair_for(content, kind, name)]
            scenes.append((_cloud if kind == CLOUD else _track)(content, pair, name, step))
    if not scenes:
        raise ValueError("there is nothing to show")
    data = {"step": step, "colors": [OURS, PLAIN], "scenes": scenes}
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("{{DATA}}", text)


def _pair_for(content: Content, kind: str, name: str) -> str:
    """The built-in shapes have models of their own; everything else is for the last pair of its kind."""
    pairs = content.pairs_for(kind)
    return pairs[0] if name in SHAPE_CLASSES else pairs[-1]


def turns(step: int = STEP, up: str = "z") -> list[Matrix]:
    """The grid: about the vertical, the ``up`` axis of a set, and then about a horizontal axis by -90 to 90 degrees."""
    P = np.eye(3)[list(UPRIGHT[up])]
    yaws, pitches = range(0, 360, step), range(-90, 91, step)
    return [P.T @ from_angles(pitch, 0, 0) @ from_angles(0, 0, yaw) @ P for yaw in yaws for pitch in pitches]


def _cloud(content: Content, pair: Pair, name: str, step: int) -> dict[str, Any]:
    cloud, up = content.clouds[name]
    studio = CloudStudio(pair, cloud)
    looks = [studio.look(R).classes for R in turns(step, up)]
    drawn = studio.points[np.random.default_rng(0).permutation(len(studio.points))[:MOST_DRAWN]][:, UPRIGHT[up]]
    best = sorted({int(i) for look in looks for a in look.values() for i in a.probabilities.argsort()[-3:]})
    return {
        "kind": "cloud",
        "name": name,
        "points": _packed(drawn * 32000),
        "point_colors": _bytes(value_colors(drawn[:, 2])),
        "models": [
            {
                "name": known.name,
                "change": max(look[known.name].change for look in looks),
                "answers": _packed(10000 * np.stack([look[known.name].probabilities[best] for look in looks])),
            }
            for known in pair.both
        ],
        "classes": [studio.name_of(i) for i in best],
    }


def _track(content: Content, pair: Pair, name: str, step: int) -> dict[str, Any]:
    track = content.tracks[name]
    studio = TrackStudio(pair, track.past, track.future)
    looks = [studio.answer(R) for R in turns(step)]
    known = [studio.past, *(look[k.name].future for look in looks for k in pair.both)]
    if studio.future is not None:
        known.append(studio.future)
    unit = max(float(np.linalg.norm(np.concatenate(known), axis=1).max()), 1e-6)
    return {
        "kind": "track",
        "name": name,
        "past": _packed(studio.past / unit * 32000),
        "came": None if studio.future is None else _packed(studio.future / unit * 32000),
        "models": [
            {
                "name": k.name,
                "change": max(look[k.name].gap for look in looks),
                "steps": len(looks[0][k.name].future),
                "gaps": [round(look[k.name].gap, 4) for look in looks],
                "answers": _packed(np.stack([look[k.name].future for look in looks]) / unit * 32000),
            }
            for k in pair.both
        ],
    }


def _packed(values: NDArray) -> str:
    """As 16-bit integers."""
    return _bytes(np.round(values).astype("<i2"))


def _bytes(values: NDArray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
