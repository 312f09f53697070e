"""Strategies (`sampling.strategy`): what samples the pools of one step. Standard library only.

A rule that looks at one prompt alone is a `RoundSize` (adarl/sampling.py, adarl/budgets.py) and runs as
`PerPrompt`. The others are one small class and one file each. All ranks run a strategy side by side, each
on its own pools; what they have to agree on they `gather`.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from adarl.metrics import PoolStats
from adarl.sampling import Sampler
from adarl.types import Pool


class Strategy(Protocol):
    """Samples one step after another, and may remember what it saw."""

    def sample(self, pools: Sequence[Pool], step: Sampler) -> list[Pool]:
        """This rank's pools that are trained on, grown from these starting pools of this rank.

        Every pool that was drawn is reported, also one that is not returned.
        """

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        """Learn from the step's pools, those of all ranks in one order; return numbers for the metrics."""

    def state(self) -> dict[str, Any]:
        """What a resumed run has to know, as JSON."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; an empty one is that of a new run."""


class Forgetful:
    """For strategies that remember nothing between steps."""

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass
