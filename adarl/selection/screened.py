"""`screened`: SPEED-RL (arXiv 2506.09016)."""

from collections.abc import Sequence

from adarl.metrics import PoolStats
from adarl.sampling import Sampler, uniform
from adarl.strategies import Forgetful
from adarl.types import Pool


class Screened(Forgetful):
    """A few draws of each prompt first; only prompts that come out mixed go on to the strategy.

    The strategy continues the pools with these draws in them. Prompts that are turned down are replaced by
    further ones, exactly as many as are missing, for at most `max_rounds` rounds; then the step is smaller.
    What was drawn for the others is in the metrics, and `reward/first_round` counts all.

    Args:
        samples: draws that decide.
    """

    def __init__(self, samples: int, max_rounds: int):
        self._round_size = uniform(samples)
        self._max_rounds = max_rounds
        self._missing = 0

    def choose(self, count: int, step: Sampler) -> list[Pool]:
        accepted: list[Pool] = []
        self._missing, rounds = count, 0
        while self._missing and rounds < self._max_rounds:
            fresh = step.start(step.take(self._missing))
            accepted += [pool for pool in step.draw(fresh, self._round_size) if pool.is_mixed]
            self._missing = count - len(step.gather([pool.label for pool in accepted]))
            rounds += 1
        return accepted

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        return {"selection/missing": self._missing}
