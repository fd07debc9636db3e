"""How wide results are printed."""

import sys

UNCUT = 10_000
"""Columns that nothing is too wide for."""


def result_width() -> int | None:
    """The terminal's own width, or one at which nothing is cut, for a file or another program."""
    return None if sys.stdout.isatty() else UNCUT
