"""A track in the page's scene: its past and what came turn with the frame, and so should a forecast."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vnt.view.answers import OURS, PLAIN, forecasts_html
from vnt.view.cloud_scene import rgb
from vnt.view.studio import Forecast, TrackStudio
from vnt.view.turning import Matrix

if TYPE_CHECKING:
    from vnt.view.page import Page

PAST, CAME, GHOST = (40, 40, 40), (44, 160, 44), (235, 180, 180)


class TrackScene:
    """What the page shows of a track. Lengths are divided by that of the whole, so that it fits the gizmo."""

    def __init__(self, page: "Page", studio: TrackStudio):
        self.page, self.studio = page, studio
        self.server = page.server
        self.server.scene.set_up_direction((0.0, 0.0, 1.0))
        ends = [studio.past, *(studio.at_rest(known.name) for known in studio.pair.both)]
        if studio.future is not None:
            ends.append(studio.future)
        self.unit = max(float(np.linalg.norm(np.concatenate(ends), axis=1).max()), 1e-6)
        self._found: dict[str, Forecast] = {}
        self._nodes = [self._line("/turned/past", studio.past, PAST, 0.012), self._dots("/turned/steps", studio.past)]
        self._nodes.append(self._floor())
        if studio.future is not None:
            self._nodes.append(self._line("/turned/came", _from_here(studio.future), CAME, 0.012))
        self._lines: dict[str, Any] = {}
        for known, color in zip(studio.pair.both, (OURS, PLAIN), strict=False):
            rest = _from_here(studio.at_rest(known.name))
            if color == PLAIN:  # where it would be, did it turn with the frame
                self._nodes.append(self._line("/turned/ghost", rest, GHOST, 0.006))
            self._lines[known.name] = self._line(f"/forecast-{color[1:]}", rest, rgb(color), 0.012)
        key = (("past", PAST), ("what came", CAME), ("ordinary model's forecast, turned", GHOST))
        words = "".join(f'<div><span style="color:rgb{color}">■</span> {text}</div>' for text, color in key)
        page.look.offer(key=f'<div style="padding:0 .6em;font-size:12px">{words}</div>')

    def _line(self, name: str, points: NDArray, color: tuple[int, int, int], width: float) -> Any:
        return self.server.scene.add_line_segments(name, _segments(points / self.unit), color, thickness=width)

    def _dots(self, name: str, points: NDArray) -> Any:
        return self.server.scene.add_point_cloud(
            name, (points / self.unit).astype(np.float32), PAST, point_size=0.02, point_shape="circle"
        )

    def _floor(self) -> Any:
        return self.server.scene.add_grid("/turned/floor", width=2.0, height=2.0, cell_size=0.2, section_size=1.0)

    def remove(self) -> None:
        """Leave the page."""
        for thing in [*self._nodes, *self._lines.values()]:
            thing.remove()

    def compute(self, R: Matrix) -> None:
        """Everything that depends on the rotation."""
        self._found = self.studio.answer(R)

    def draw(self, milliseconds: float) -> str:
        """Put what was computed into the scene; returns the answers."""
        for name, found in self._found.items():
            self._lines[name].points = _segments(_from_here(found.future) / self.unit)
        return forecasts_html(self._found, milliseconds)

    def detail(self, is_still: bool) -> None:
        """A track has few points."""


def _from_here(future: NDArray) -> NDArray:
    """With the place where the track was last seen as its first step."""
    return np.concatenate([np.zeros((1, 3)), future])


def _segments(points: NDArray) -> NDArray[np.float32]:
    """(T, 3) -> (T − 1, 2, 3)."""
    return np.stack([points[:-1], points[1:]], 1).astype(np.float32)
