"""Level of detail: a cloud in parts, each a random tenth of what follows, so that few points stand for many."""

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
    """Calls ``moving`` when something begins to move, and ``still`` when nothing has for `STILL_SECONDS`."""

    def __init__(self, moving: Callable[[], None], still: Callable[[], None]):
        self._moving, self._still = moving, still
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

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
            if threading.current_thread() is not self._timer:
                return  # it has moved again
            self._timer = None
        self._still()


class Latest:
    """Runs a function on a thread of its own, for the newest of what it is given: what comes in between is skipped."""

    def __init__(self, work: Callable[[], None]):
        self._work, self._wanted = work, threading.Event()
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
            except Exception as error:  # the page must go on; who asks can see what happened
                self.error = error
