"""The part of the panel where a visitor chooses how a scene looks."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the page that is exported needs none
    import viser

HEIGHT, ATTENTION, RGB = "height", "attention", "its own colours"
"""Colourings that are ours; a file's attributes come beside them."""


class LookPanel:
    """Colour, arrows and attention.

    Its parts stay, and are hidden where a scene has no use for them: a browser that is told of a change to a part that
    has been removed complains, and one that joins later is told of all changes.
    """

    def __init__(self, gui: "viser.GuiApi", recolor: Callable[[], None], refresh: Callable[[], None]):
        with gui.add_folder("Look"):
            self.coloring = gui.add_dropdown("colour", [HEIGHT])
            self.block = gui.add_slider("block", min=1, max=2, step=1, initial_value=1, visible=False)
            self.hint = gui.add_html(
                '<div style="padding:0 .6em;font-size:12px">Click a point: what does it attend to?</div>', visible=False
            )
            self.arrows = gui.add_checkbox("arrows of a feature", initial_value=True)
            self.channel = gui.add_slider("channel", min=0, max=1, step=1, initial_value=0)
            self.key = gui.add_html("", visible=False)
        self.coloring.on_update(lambda _: recolor())
        for part in (self.block, self.arrows, self.channel):
            part.on_update(lambda _: refresh())

    def offer(
        self, colorings: Sequence[str] = (), *, num_blocks: int = 0, num_channels: int = 0, key: str = ""
    ) -> None:
        """Show what a scene has, and begin with the first of each."""
        self.num_blocks, self.num_channels = num_blocks, num_channels
        self.coloring.visible = bool(colorings)
        self.coloring.options = tuple(colorings) or (HEIGHT,)
        self.coloring.value = self.coloring.options[0]
        self.block.value, self.channel.value = 1, 0
        self.block.max, self.channel.max = max(2, num_blocks), max(1, num_channels - 1)
        self.block.visible = self.hint.visible = False
        self.arrows.visible = self.channel.visible = num_channels > 0
        self.key.content, self.key.visible = key, bool(key)

    @property
    def paints_attention(self) -> bool:
        """Whether points are coloured by the attention of a picked one."""
        return self.coloring.visible and self.coloring.value == ATTENTION

    @property
    def chosen_block(self) -> int:
        """Counted from 0."""
        return min(self.block.value, self.num_blocks) - 1

    @property
    def chosen_channel(self) -> int | None:
        """That arrows are drawn of, if any."""
        return min(self.channel.value, self.num_channels - 1) if self.num_channels and self.arrows.value else None

    def show_attention(self, is_painted: bool) -> None:
        """What belongs to attention, or not."""
        self.block.visible = self.hint.visible = is_painted
