"""The time that a run takes, and when it is time for what is not done in every step."""

import time

WATCH_SECONDS = 0.2


class Clock:
    """Says when it is time to save and to be watched, and how long the run has taken, before it was stopped too."""

    def __init__(self, save_every: float, spent: float):
        self.save_every, self.saved = save_every, time.monotonic()
        self.started, self.watched = self.saved - spent, 0.0

    def seconds(self) -> float:
        """Of the run so far."""
        return time.monotonic() - self.started

    def is_time_to_save(self) -> bool:
        """True once in each ``save_every`` seconds."""
        now = time.monotonic()
        if now - self.saved < self.save_every:
            return False
        self.saved = now
        return True

    def is_time_to_watch(self) -> bool:
        """True about five times a second."""
        now = time.monotonic()
        if now - self.watched < WATCH_SECONDS:
            return False
        self.watched = now
        return True
