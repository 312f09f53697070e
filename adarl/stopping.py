"""Being asked to stop: SIGTERM or SIGUSR1 ends the run after the step it is at, with a checkpoint."""

import os
import signal
import sys
from types import FrameType

from adarl.protocols import Ranks

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """Remembers that a signal came. One rank that got it is enough: `agreed` asks all."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def listen(self) -> None:
        """From now on these signals do not end the process. Main thread only."""
        for number in SIGNALS:
            signal.signal(number, self._note)

    def agreed(self, ranks: Ranks) -> str | None:
        """The signal's name if any rank got one; all ranks together, the same on each."""
        return next((reason for reason in ranks.gather([self.reason]) if reason is not None), None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.reason is None and os.environ.get("RANK", "0") == "0":
            # Not print: the signal may have come in the middle of one.
            os.write(sys.stderr.fileno(), b"adarl: asked to stop: finishing this step, then saving\n")
        self.reason = signal.Signals(number).name
