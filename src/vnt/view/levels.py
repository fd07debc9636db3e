"""Level of detail: a cloud in random parts, so that few points stand for many while things move."""

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

COARSE, FINE = 20_000, 200_000
"""Points that are always drawn, and those that are drawn once things have stood still a while; then come all others."""

STILL_SECONDS = 0.3


def parts_of(count: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """Indices of the points of each part, coarsest first: disjoint, and every point in one.

    >>> [len(part) for part in parts_of(1_000_000)]
    [20000, 180000, 800000]
    >>> [len(part) for part in parts_of(1024)]
    [1024]
    """
    order = np.random.default_rng(seed).permutation(count)
    return [part for part in np.split(order, [COARSE, FINE]) if len(part)]


class Stillness:
    """Calls ``moving`` when something begins to move, and ``still`` when nothing has for `STILL_SECONDS`.

    Both under a lock, so that what they do is done in the order in which it happened.
    """

    def __init__(self, moving: Callable[[], None], still: Callable[[], None], lock: "threading.RLock"):
        self._moving, self._still, self._lock = moving, still, lock
        self._timer: threading.Timer | None = None

    def moved(self) -> None:
        """Something has moved just now."""
        with self._lock:
            begins = self._timer is None
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(STILL_SECONDS, self._rested)
            self._timer.daemon = True
            self._timer.start()
            if begins:
                self._moving()

    def _rested(self) -> None:
        with self._lock:
            if threading.current_thread() is self._timer:  # or else it has moved again
                self._timer = None
                self._still()


class Latest:
    """Runs a function on a thread of its own, for the newest of what it is given: what comes in between is skipped.

    What goes wrong is kept in ``error`` and told to ``failed``, and the thread goes on.
    """

    def __init__(self, work: Callable[[], None], failed: Callable[[Exception], None] = lambda error: None):
        self._work, self._failed, self._wanted = work, failed, threading.Event()
        self.error: Exception | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self) -> None:
        """There is something new."""
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                self._work()
            except Exception as error:
                self.error = error
                self._failed(error)
