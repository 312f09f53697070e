"""Selections (`data.selection`): which prompts of the stream a step samples. Standard library only.

Every selection reads the same stream, the seeded shuffle of the data set, and works in front of any
strategy. Its choice depends on the seed and on what all ranks observed, so it is the same on every rank.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from adarl.metrics import PoolStats
from adarl.sampling import Sampler
from adarl.types import Pool


class Selection(Protocol):
    """Chooses the prompts of one step after another, and may remember what it saw."""

    def choose(self, count: int, step: Sampler) -> list[Pool]:
        """This rank's starting pools of `count` prompts."""

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        """Learn from the step's pools, those of all ranks in one order; return numbers for the metrics."""

    def state(self) -> dict[str, Any]:
        """What a resumed run has to know, as JSON; where the stream stands is saved apart."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; an empty one is that of a new run."""
