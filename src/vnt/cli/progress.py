"""A bar for work of which the parts are counted."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def counting(console: Console, about: str) -> Generator[Callable[[int, int], None]]:
    """A bar that hears of (done, in all), and is gone when the work is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(about, total=None)

    def hear(done: int, total: int) -> None:
        progress.start()  # not before there is something to show: an error that comes first is one line
        progress.update(task, completed=done, total=total)

    try:
        yield hear
    finally:
        if progress.live.is_started:
            progress.stop()
