"""What a page shows, and to which models."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from vnt.data.cloud import Cloud
from vnt.view.samples import CloudSample, TrackSample, built_in_clouds, built_in_tracks, read_file
from vnt.view.studio import PAIRS, Pair

CLOUD, TRACK = "point cloud", "trajectory"
"""The kinds of scene."""


@dataclass
class Content:
    """What there is to look at.

    Attributes:
        pairs: models by the name that the page calls them; those that classify, those that forecast.
        clouds: name -> cloud, with the axis that points up in it.
        tracks: name -> track.
    """

    pairs: dict[str, Pair]
    clouds: dict[str, tuple[Cloud, str]] = field(default_factory=dict)
    tracks: dict[str, TrackSample] = field(default_factory=dict)

    def pairs_for(self, kind: str) -> list[str]:
        """Names of the pairs that answer for clouds, or for tracks."""
        return [name for name, pair in self.pairs.items() if pair.ours.classifies == (kind == CLOUD)]

    def add(self, found: CloudSample | Sequence[TrackSample]) -> tuple[str, list[str]]:
        """Take in what a file held; returns the kind of scene and the names of its samples."""
        kind = CLOUD if isinstance(found, CloudSample) else TRACK
        samples = [found] if isinstance(found, CloudSample) else list(found)
        if not self.pairs_for(kind):
            raise ValueError(f"{samples[0].name}: a {kind}, and there are no models for one: --model names some")
        names = []
        for sample in samples:
            name = _free_name(sample.name, {**self.clouds, **self.tracks})
            names.append(name)
            if isinstance(sample, CloudSample):
                self.clouds[name] = (sample.cloud, "z")
            else:
                self.tracks[name] = sample
        return kind, names


def _free_name(name: str, taken: Collection[str]) -> str:
    """The name, or the name with the first number that is free.

    >>> _free_name("scan.ply", ["scan.ply", "scan.ply (2)"])
    'scan.ply (3)'
    """
    numbered = (f"{name} ({number})" for number in count(2))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def make_content(
    files: Sequence[Path] = (), model: Path | str | None = None, plain: Path | str | None = None
) -> tuple[Content, list[str]]:
    """Built-in clouds and tracks with the models that come with vnt, or with a model of one's own, and files.

    Also returns the names of what came from files.
    """
    if model is None:
        pairs = {name: Pair.load(*both) for name, both in PAIRS.items()}
    else:
        own = Pair.load(model, plain)
        pairs = {own.ours.name: own}
    content = Content(pairs)
    if content.pairs_for(CLOUD):
        content.clouds = built_in_clouds()
    if forecasters := content.pairs_for(TRACK):
        content.tracks = built_in_tracks(pairs[forecasters[0]].ours.about)
    given = [name for path in files for name in content.add(read_file(path, pairs.values()))[1]]
    if not content.clouds and not content.tracks:
        raise ValueError(f"{model}: no built-in track is like those that it forecasts; give it files of your own")
    return content, given
