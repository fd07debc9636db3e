"""Ctrl-C, at a moment when nothing is half done."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

from vnt.training.distributed import Processes


@contextmanager
def interruptible(group: Processes) -> Generator[Callable[[], bool]]:
    """Ctrl-C ends the step first, so that what is saved is whole; a second one ends at once."""
    pressed: list[int] = []
    if group.count > 1:  # torchrun ends all processes together
        yield lambda: False
        return

    def press(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not in the main thread, where signals do not arrive
        yield lambda: False
        return
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
