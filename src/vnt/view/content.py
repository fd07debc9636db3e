"""What a page shows, and to which models."""

from collections.abc import Sequence
from dataclasses import dataclass, field
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

    def add(self, found: CloudSample | Sequence[TrackSample]) -> tuple[str, str]:
        """Take in what a file held; returns the kind of scene and the name of the first sample."""
        if isinstance(found, CloudSample):
            kind, first = CLOUD, found.name
        else:
            kind, first = TRACK, found[0].name
        if not self.pairs_for(kind):
            raise ValueError(f"{first}: a {kind}, and there are no models for one: --model names some")
        if isinstance(found, CloudSample):
            self.clouds[first] = (found.cloud, "z")
        else:
            self.tracks |= {track.name: track for track in found}
        return kind, first


def make_content(
    files: Sequence[Path] = (), model: Path | str | None = None, plain: Path | str | None = None
) -> tuple[Content, list[str]]:
    """Built-in clouds and tracks with the models that come with vnt, or with a model of one's own, and files.

    Also returns the names of what came from files, the first of each.
    """
    if model is None:
        pairs = {name: Pair.load(*both) for name, both in PAIRS.items()}
    else:
        own = Pair.load(model, plain)
        pairs = {own.ours.name: own}
    content = Content(pairs)
    if content.pairs_for(CLOUD):
        content.clouds = built_in_clouds()
    if content.pairs_for(TRACK):
        content.tracks = built_in_tracks()
    given = [content.add(read_file(path, pairs.values()))[1] for path in files]
    return content, given
