"""A cloud in the page's scene: points in levels of detail, arrows of vector features, attention of a picked point."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from numpy.typing import NDArray

from vnt.view.answers import OURS, classes_html
from vnt.view.levels import parts_of
from vnt.view.look_panel import ATTENTION, HEIGHT, RGB
from vnt.view.studio import CloudStudio, Look
from vnt.view.turning import Matrix

if TYPE_CHECKING:
    from vnt.view.page import Page

UP = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


class CloudScene:
    """What the page shows of a cloud."""

    def __init__(self, page: "Page", studio: CloudStudio, up: str = "z"):
        self.page, self.studio = page, studio
        self.server, self.picked, self.up = page.server, 0, "xyz".index(up)
        self.server.scene.set_up_direction(UP[up])
        self._found = Look({})
        self._parts = parts_of(len(studio.points))
        self._values = {_named(name): values for name, values in studio.cloud.attributes.items()}
        channels = studio.num_channels if studio.has_vectors else 0
        page.look.offer(self._colorings(), num_blocks=studio.num_blocks, num_channels=channels)
        size = point_size(len(studio.points))
        self._nodes = [
            self.server.scene.add_point_cloud(
                f"/turned/part{number}",
                studio.points[part].astype(np.float32),
                self._colors(HEIGHT)[part],
                point_size=size,
                point_shape="circle",
                visible=number == 0,
            )
            for number, part in enumerate(self._parts)
        ]
        self._seen = self.server.scene.add_point_cloud(
            "/turned/seen",
            studio.points[studio.seen].astype(np.float32),
            (128, 128, 128),
            point_size=1.2 * size,
            point_shape="circle",
            visible=False,
        )
        self._pick = self.server.scene.add_icosphere("/turned/picked", 0.03, color=(255, 127, 14), visible=False)
        self._shafts: Any = None
        self._click = self.server.scene.on_click()(self._clicked)

    def _colorings(self) -> list[str]:
        names = [HEIGHT, *([RGB] if self._rgb() is not None else []), *self._values]
        return [*names, ATTENTION] if self.studio.num_blocks else names

    def remove(self) -> None:
        """Leave the page."""
        self.server.scene.remove_click_callback(self._click)
        for thing in [*self._nodes, self._seen, self._pick, *([self._shafts] if self._shafts else [])]:
            thing.remove()

    def compute(self, R: Matrix) -> None:
        """Everything that depends on the rotation."""
        look = self.page.look
        point = self.picked if look.paints_attention and self.studio.num_blocks else None
        self._found = self.studio.look(R, channel=look.chosen_channel, point=point, block=look.chosen_block)

    def draw(self, milliseconds: float) -> str:
        """Put what was computed into the scene; returns the answers."""
        arrows, attention = self._found.arrows, self._found.attention
        if arrows is not None:
            if self._shafts is None:
                self._shafts = self.server.scene.add_arrows(
                    "/arrows", arrows, rgb(OURS), shaft_radius=0.008, head_radius=0.022, head_length=0.05
                )
            self._shafts.points = arrows
        if self._shafts is not None:
            self._shafts.visible = arrows is not None
        if attention is not None:
            self._seen.colors = attention_colors(attention)
            self._pick.position = self.studio.points[self.studio.seen[self.picked]]
        return classes_html(self.studio, self._found.classes, milliseconds)

    def detail(self, is_still: bool) -> None:
        """All points, or the coarsest part while things move."""
        if self.page.look.paints_attention:
            return
        for number, node in enumerate(self._nodes):
            if node.visible != (is_still or number == 0):
                node.visible = is_still or number == 0

    def _clicked(self, event: Any) -> None:
        origin, direction = np.array(event.ray_origin), np.array(event.ray_direction)
        found = self.studio.nearest(self.page.rotation, origin, direction)
        if found is None or not self.studio.num_blocks:
            return
        self.picked = found
        self.page.look.coloring.value = ATTENTION  # which recolours, if it was something else
        self.page.refresh()

    def recolor(self) -> None:
        """As the visitor chose."""
        is_attention = self.page.look.paints_attention
        for number, node in enumerate(self._nodes):
            node.visible = not is_attention
            if not is_attention:
                node.colors = self._colors(self.page.look.coloring.value)[self._parts[number]]
        self._seen.visible = self._pick.visible = is_attention
        self.page.look.show_attention(is_attention)

    def _rgb(self) -> NDArray | None:
        known = self.studio.cloud.attributes
        if not all(name in known for name in ("red", "green", "blue")):
            return None
        colors = np.stack([known[name] for name in ("red", "green", "blue")], 1)
        most = float(colors.max())
        full = 1.0 if most <= 1 else 255.0 if most <= 255 else 65535.0
        return (255 * np.clip(colors / full, 0, 1)).astype(np.uint8)

    def _colors(self, name: str) -> NDArray[np.uint8]:
        own = self._rgb() if name == RGB else None
        if own is not None:
            return own
        return value_colors(self._values.get(name, self.studio.points[:, self.up]))


def _named(attribute: str) -> str:
    """A file's attribute in the list of colourings, where no name may stand twice."""
    return f"{attribute} (of the file)" if attribute in (HEIGHT, ATTENTION, RGB) else attribute


def value_colors(values: NDArray) -> NDArray[np.uint8]:
    """Viridis, over what all but a hundredth of the values at either end lie between.

    >>> value_colors(np.zeros(3)).shape
    (3, 3)
    """
    low, high = np.quantile(values, [0.01, 0.99])
    share = np.clip((values - low) / max(high - low, 1e-12), 0, 1)
    return (255 * colormaps["viridis"](share)[:, :3]).astype(np.uint8)


def attention_colors(weights: NDArray) -> NDArray[np.uint8]:
    """From dark for what is attended to least to yellow for what is attended to more than 99 % of the points are.

    >>> attention_colors(np.array([0.1, 0.2, 0.7])).shape
    (3, 3)
    """
    low, high = weights.min(), np.quantile(weights, 0.99)
    share = np.clip((weights - low) / max(high - low, 1e-12), 0, 1)
    return (255 * colormaps["inferno"](0.9 * share)[:, :3]).astype(np.uint8)


def point_size(count: int) -> float:
    """So that the points of a surface about cover it.

    >>> point_size(1024), point_size(1_000_000)
    (0.02, 0.002)
    """
    return float(np.clip(0.64 / np.sqrt(max(count, 1)), 0.002, 0.02))


def rgb(color: str) -> tuple[int, int, int]:
    """From "#rrggbb"."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
