"""How a kernel is started."""

from typing import Any

Settings = dict[str, int]
"""Block sizes, warps and stages of a kernel: those that were fastest on an H200."""


def launch(kernel: Any, grid: tuple[int, ...], *arguments: object, **settings: object) -> None:
    """``kernel[grid](...)``, which type checkers take for a call of the function that is written down."""
    kernel[grid](*arguments, **settings)
