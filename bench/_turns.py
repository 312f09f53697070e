"""Two processes that take steps in turns: each works on command, so that neither runs while the other is timed."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

PAUSE = 0.3  # seconds before each turn: OpenMP's threads spin for 0.2 s after their last work


class Worker:
    """A subprocess that answers every line on its stdin with one line of JSON.

    Args:
        command: what to start; it has `Commands`.
        environment: on top of this process's.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str]):
        self._process = subprocess.Popen(
            list(command),
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step(self) -> dict[str, Any]:
        """One step; what it says of itself.

        Raises:
            SystemExit: the process ended.
        """
        time.sleep(PAUSE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self._process.args)} ended with {self._process.wait()}")  # type: ignore[arg-type]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process: its stdin closes, and its `wait` says so."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Commands:
    """The other end of a `Worker`; make it first: from then on whatever libraries print goes to stderr."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def wait(self) -> bool:
        """Block until a step is asked for; False when there is nothing more to do."""
        return bool(sys.stdin.readline())

    def answer(self, **values: Any) -> None:
        print(json.dumps(values), file=self._answers, flush=True)
