"""A rank that dies takes the others down, with a message that names it, also while they wait in a collective.

Every rank has a thread that tells the others, through a TCPStore of rank 0, that it is alive. It ends its own
process when another rank
- has ended on the same machine (the kernel knows),
- has said why it ends (an exception), or
- has not been heard from for `limit` seconds: killed with its machine, stopped, cut off.
"""

import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import torch.distributed as dist

from adarl.protocols import Ranks

BEAT = 2.0  # seconds between two signs of life
_GRACE = 3.0  # seconds that the main thread has to end by itself when the others end too
_DONE = "done"


@dataclass(frozen=True, slots=True)
class Who:
    """A rank's process."""

    host: str
    pid: int
    machine: str  # the same for processes that see each other's pids

    @classmethod
    def me(cls) -> Self:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return cls(socket.gethostname(), os.getpid(), f"{boot} {os.readlink('/proc/self/ns/pid')}")


class Heartbeat:
    """Watches the other ranks from its making to the end of its `with` block; all ranks together.

    Args:
        limit: seconds of silence after which a rank counts as dead.
    """

    def __init__(self, ranks: Ranks, limit: float):
        self._rank, self._size, self._limit = ranks.rank, ranks.world_size, limit
        self._ended = threading.Event()
        if self._size == 1:
            return
        host, timeout = os.environ["MASTER_ADDR"], timedelta(seconds=limit)
        server = (
            dist.TCPStore(host, 0, None, True, timeout, wait_for_workers=False) if not self._rank else None
        )
        port = ranks.gather([server.port if server is not None else None])[0]
        self._store = server or dist.TCPStore(host, port, None, False, timeout, wait_for_workers=False)
        self._store.set(f"beat/{self._rank}", "0")
        self._store.set(f"words/{self._rank}", "")
        self._who: list[Who] = ranks.gather([Who.me()])
        self._thread = threading.Thread(target=self._run, name="adarl-heartbeat", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._size == 1:
            return
        if isinstance(error, Exception) and _is_a_lost_peer(error):
            self._ended.wait(self._limit + 2 * BEAT)  # the thread finds out whose fault it is, and exits
        self._ended.set()
        self._thread.join()
        text = " ".join(str(error).split())[:300]
        self._say(_DONE if error is None else f"ended with {type(error).__name__}: {text}")

    def _say(self, words: str) -> None:
        try:
            self._store.set(f"words/{self._rank}", words)
        except RuntimeError:  # rank 0 has gone before us
            pass

    def _run(self) -> None:
        beats = Silence(self._size, time.monotonic())
        others = [rank for rank in range(self._size) if rank != self._rank]
        keys = [f"{kind}/{rank}" for kind in ("beat", "words") for rank in range(self._size)]
        number, words = 0, [""] * self._size
        while not self._ended.wait(BEAT):
            for rank in others:
                if words[rank] != _DONE and self._is_dead_here(rank):
                    self._end(rank, words[rank] or "was killed or crashed")
            number += 1
            try:
                self._store.set(f"beat/{self._rank}", str(number))
                values = [value.decode() for value in self._store.multi_get(keys)]
            except RuntimeError:
                self._end(0, "does not answer any more")
                continue
            words = values[self._size :]
            silent = beats.update(values[: self._size], time.monotonic())
            for rank in others:
                if words[rank] not in ("", _DONE):
                    self._end(rank, words[rank])
                elif words[rank] != _DONE and silent[rank] > self._limit:
                    self._end(rank, f"has not been heard from for {silent[rank]:.0f} s")

    def _is_dead_here(self, rank: int) -> bool:
        """Whether the rank ran on this machine and is gone; False for one on another machine."""
        who = self._who[rank]
        if who.machine != self._who[self._rank].machine:
            return False
        try:
            state = Path(f"/proc/{who.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state in "ZX"

    def _end(self, rank: int, reason: str) -> None:
        """End this process because of another one, unless it is about to end itself."""
        if self._ended.wait(_GRACE):
            return
        who, here = self._who[rank], self._who[self._rank]
        neighbours = [r for r in range(self._size) if self._who[r].machine == here.machine and r != rank]
        if self._rank == min(neighbours):  # one line a machine
            line = f"adarl: rank {rank} (host {who.host}, pid {who.pid}) {reason}: the run ends, resume it from its last checkpoint"
            os.write(sys.stderr.fileno(), f"{line}\n".encode())
        if who.machine == here.machine and not self._is_dead_here(rank):
            os.kill(who.pid, signal.SIGKILL)  # stopped or stuck: its launcher waits for it
        os._exit(1)


class Silence:
    """How long each rank's counter has stood still, in seconds of this process's own life."""

    def __init__(self, size: int, now: float):
        self._last = [""] * size
        self._since = [now] * size
        self._now = now

    def update(self, counters: list[str], now: float) -> list[float]:
        """Seconds since each counter changed. A process that itself stood still blames nobody."""
        if now - self._now > 5 * BEAT:
            self._since = [now] * len(self._since)
        self._now = now
        for rank, (old, new) in enumerate(zip(self._last, counters, strict=True)):
            if old != new:
                self._last[rank], self._since[rank] = new, now
        return [now - since for since in self._since]


def _is_a_lost_peer(error: Exception) -> bool:
    """Whether a collective failed, which is the symptom of a rank that is gone and not the reason."""
    if isinstance(error, dist.DistError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        s in text for s in ("gloo", "nccl", "connection", "timed out")
    )
