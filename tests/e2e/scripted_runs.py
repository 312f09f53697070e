"""Starts runs of `scripted` and waits for what they say."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.runs import BIN, PROJECT, TIMEOUT

KEYS = (
    "data.prompts_per_step=8",
    "validation=null",
    "verifier.workers=1",
    "tracking.samples_every=1",
    "run.save_every=2",
    "run.max_steps=8",
)


class Run:
    """One command's process group; its output, stderr with it, is read from a file."""

    def __init__(self, log: Path, *command: str, **env: str):
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "ADARL_PRELOAD": "0", **env},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self.log.read_text()

    def wait_for(self, words: str) -> None:
        """Until the run has said something."""
        self._until(lambda: words in self.output, f"say {words!r}")

    def ended(self) -> int:
        """Wait for the end; the exit code."""
        self._until(lambda: self.process.poll() is not None, "end")
        return self.process.returncode

    def kill(self) -> None:
        """End whatever is left of it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            if time.monotonic() > deadline or (what != "end" and self.process.poll() is not None):
                self.kill()
                raise AssertionError(f"the run did not {what}:\n{self.output}")
            time.sleep(0.05)


def start(
    folder: Path,
    *keys: str,
    launcher: tuple[str, ...] = (),
    within: tuple[str, ...] = (),
    name: str = "log",
    **env: str,
) -> Run:
    """A run into a folder; its log lies beside it.

    Args:
        launcher: options of deepspeed; none for a run without it.
        within: a command that runs the command after it.
    """
    folder.parent.mkdir(exist_ok=True)
    # As docs/cluster.md says: the launcher must not die of the signal that its ranks take for a request.
    ignoring = ("bash", "-c", 'trap "" USR1; exec "$@"', "bash", str(BIN / "deepspeed"))
    command = (*ignoring, *launcher, "--module") if launcher else (sys.executable, "-m")
    return Run(
        folder.parent / f"{folder.name}.{name}", *within, *command, "tests.e2e.scripted", "recipes/tiny_cpu.yaml",
        f"run.dir={folder}", *KEYS, *keys, **env,
    )  # fmt: skip


def finish(folder: Path, *keys: str, code: int = 0, **options: str) -> str:
    """A run to its end; its output."""
    run = start(folder, *keys, **options)  # type: ignore[arg-type]
    found = run.ended()
    assert found == code, run.output
    assert "Traceback" not in run.output, run.output
    return run.output
