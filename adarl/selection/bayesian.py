"""`bayesian`: MoPPS (arXiv 2507.04632)."""

from collections.abc import Sequence
from random import Random
from typing import Any

from adarl.budgets import PassRates
from adarl.metrics import PoolStats
from adarl.sampling import Sampler
from adarl.seeds import derive_seed
from adarl.types import Pool


class Bayesian:
    """Of many candidates, those whose pass rate seems nearest the target.

    Each candidate's rate is one Thompson draw from its Beta posterior, so prompts that are little known get
    their turn. Candidates that are not chosen are passed over until the stream brings them again.

    Args:
        candidates: candidates a chosen prompt; all prompts where the data has fewer.
        target: 0.5, where a group of any size is likeliest to be mixed.
    """

    def __init__(self, pass_rates: PassRates, candidates: int, target: float):
        self._pass_rates = pass_rates
        self._candidates, self._target = candidates, target

    def choose(self, count: int, step: Sampler) -> list[Pool]:
        def distance(prompt_id: str) -> float:
            draw = Random(derive_seed("bayesian", step.seed, prompt_id)).betavariate(
                *self._pass_rates.beta(prompt_id)
            )
            return abs(draw - self._target)

        candidates = step.take(min(count * self._candidates, step.num_prompts))
        return step.start(sorted(candidates, key=lambda prompt: (distance(prompt.id), prompt.id))[:count])

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        for s in stats:
            self._pass_rates.see(s.prompt_id, s.num_correct, s.size - s.num_correct)
        return {}

    def state(self) -> dict[str, Any]:
        return {"pass_rates": self._pass_rates.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._pass_rates.restore(state.get("pass_rates", {}))
