"""ExitCondition(S_x) of Algorithm 1: when has a pool seen enough?

An exit condition is looked at between rounds and reads only the correctness of the pool's own
samples, which is what keeps the law of the pools independent of any schedule.
"""

from collections.abc import Callable

from adarl.types import Pool

ExitCondition = Callable[[Pool], bool]


def positive_focused(min_correct: int) -> ExitCondition:
    """Resolved once P >= min_correct (Reinforce-Ada-pos: 1)."""

    def resolved(pool: Pool) -> bool:
        return pool.num_correct >= min_correct

    return resolved


def balanced(min_correct: int, min_incorrect: int) -> ExitCondition:
    """Resolved once P >= min_correct and Q >= min_incorrect (Reinforce-Ada-balance: n/2 and n/2)."""

    def resolved(pool: Pool) -> bool:
        return pool.num_correct >= min_correct and pool.num_incorrect >= min_incorrect

    return resolved
