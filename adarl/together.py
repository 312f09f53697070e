"""Doing file work on many ranks: where each one's run directory lies, and one outcome for all.

A run directory is shared by all nodes or local to each. Nobody has to say which: every rank leaves a file and
looks whose files it sees. The first of those who see the same folder is its keeper; it alone makes, renames and
removes folders there.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adarl.protocols import Ranks


class RankError(RuntimeError):
    """Something failed on at least one rank; raised on all of them alike, with the first one's reason."""


@dataclass(frozen=True, slots=True)
class Place:
    """This rank among those that see the same run directory."""

    keeper: int = 0  # their first
    index: int = 0  # of this rank among them
    count: int = 1  # of them
    is_shared: bool = True  # all ranks see one folder

    @property
    def is_keeper(self) -> bool:
        return self.index == 0

    def share(self, names: Sequence[str]) -> Sequence[str]:
        """This rank's part of a work list."""
        return names[self.index :: self.count]


def find_place(folder: Path, ranks: Ranks) -> Place:
    """Who else sees this folder; all ranks together, the folder exists on each."""
    token = ranks.gather([secrets.token_hex(8)])[0]  # a new name: nothing has cached that it is not there
    probes = [folder / f".probe-{token}-{rank}" for rank in range(ranks.world_size)]
    on_all_ranks(ranks, probes[ranks.rank].touch)
    seen = [rank for rank, probe in enumerate(probes) if probe.exists()]
    ranks.gather([None])
    probes[ranks.rank].unlink(missing_ok=True)
    return Place(seen[0], seen.index(ranks.rank), len(seen), len(seen) == ranks.world_size)


def on_all_ranks(ranks: Ranks, work: Callable[[], Any]) -> None:
    """Do something on every rank and wait for all.

    Args:
        work: may raise only after having taken part in everything that the ranks do together in it.

    Raises:
        RankError: it raised OSError or RuntimeError (torch's, when a file cannot be written) on any rank.
    """
    failed = None
    try:
        work()
    except (OSError, RuntimeError) as error:
        failed = f"rank {ranks.rank}: {' '.join(str(error).split())[:300]}"
    problems = [p for p in ranks.gather([failed]) if p is not None]
    if problems:
        raise RankError(problems[0])
