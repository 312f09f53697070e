"""A line now and then that says how far a long stage is."""

import time
from collections.abc import Callable


class Progress:
    """Counts finished items; says so every `every` seconds and at the end.

    Args:
        what: of the items, in the plural.
        total: items of this process.
        say: prints a line.
        unit: of what is produced, for the speed.
    """

    def __init__(
        self, what: str, total: int, say: Callable[[str], None], unit: str = "", every: float = 15.0
    ):
        self._what, self._total, self._say, self._unit, self._every = what, total, say, unit, every
        self._start = self._last = time.monotonic()
        self.done = 0
        self.produced = 0

    def add(self, produced: int = 0) -> None:
        """One item is done, and `produced` units with it."""
        self.done += 1
        self.produced += produced
        now = time.monotonic()
        if now - self._last >= self._every or self.done == self._total:
            self._last = now
            self._say(self.line())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def line(self) -> str:
        seconds = max(self.seconds, 1e-9)
        speed = f", {self.produced / seconds:.0f} {self._unit}/s" if self._unit else ""
        left = seconds / self.done * (self._total - self.done) if self.done else 0.0
        about = (
            f", about {left / 60:.0f} min left"
            if left >= 90
            else f", about {left:.0f} s left"
            if left
            else ""
        )
        return f"{self.done} of {self._total} {self._what} in {seconds:.0f} s{speed}{about}"
