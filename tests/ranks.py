"""Ranks as threads: functions that all ranks call together, tested in one process."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class ThreadRank:
    """One of several threads that gather like processes."""

    def __init__(self, rank: int, world_size: int, shared: dict[int, list[Any]], barrier: threading.Barrier):
        self.rank, self.world_size = rank, world_size
        self._shared, self._barrier = shared, barrier

    def gather(self, records: Sequence[Any]) -> list[Any]:
        self._shared[self.rank] = list(records)
        self._barrier.wait(timeout=20)
        everyone = [record for rank in range(self.world_size) for record in self._shared[rank]]
        self._barrier.wait(timeout=20)
        return everyone


def on_ranks(world_size: int, work: Callable[[ThreadRank], Any]) -> list[Any]:
    """What `work` returns on each rank; exceptions are returned too."""
    shared: dict[int, list[Any]] = {}
    barrier = threading.Barrier(world_size)

    def outcome(rank: int) -> Any:
        try:
            return work(ThreadRank(rank, world_size, shared, barrier))
        except Exception as error:
            return error

    with ThreadPoolExecutor(world_size) as pool:
        return list(pool.map(outcome, range(world_size)))
