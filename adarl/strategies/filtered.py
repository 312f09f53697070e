"""`filtered`: DAPO's dynamic sampling (arXiv 2503.14476, section 3.2)."""

from collections.abc import Sequence

from adarl.metrics import PoolStats
from adarl.sampling import Sampler, uniform
from adarl.strategies import Forgetful
from adarl.types import Pool


class Filtered(Forgetful):
    """n samples a prompt; a pool that is all right or all wrong makes room for a further prompt.

    Each round of generation takes exactly as many further prompts as places are empty, so the step's prompts
    are the shortest run of the stream with the wanted number of mixed pools: nothing accepted is thrown
    away, and the stream stands right behind the last prompt that was drawn. Acceptance reads correctness,
    not the shaped reward. After `max_rounds` the step trains on what there is.
    """

    def __init__(self, group_size: int, max_rounds: int):
        self._round_size = uniform(group_size)
        self._max_rounds = max_rounds
        self._rounds = self._missing = 0

    def sample(self, pools: Sequence[Pool], step: Sampler) -> list[Pool]:
        places = len(step.gather([pool.label for pool in pools]))
        accepted: list[Pool] = []
        self._missing, self._rounds = places, 0
        while self._missing and self._rounds < self._max_rounds:
            fresh = step.more(self._missing) if self._rounds else pools
            accepted += [pool for pool in step.draw(fresh, self._round_size) if pool.is_mixed]
            self._missing = places - len(step.gather([pool.label for pool in accepted]))
            self._rounds += 1
        return accepted

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        return {"sampling/generation_rounds": self._rounds, "groups/missing": self._missing}
