"""`estimated`: Reinforce-Ada-Est (arXiv 2510.04996 v3, Algorithm 1)."""

from collections.abc import Sequence
from typing import Any

from adarl.budgets import PassRates, allocate, inverse_sqrt_weight
from adarl.metrics import PoolStats
from adarl.sampling import Sampler, budgeted
from adarl.types import Pool


class Estimated:
    """One round with a budget a prompt, set before the draws from pass rates seen in earlier steps.

    N_x ~ 1 / sqrt(p_x + epsilon) within [min_samples, max_samples]; the budgets of a step add up to
    group_size times its prompts. All samples are trained on.
    """

    def __init__(
        self, pass_rates: PassRates, group_size: int, min_samples: int, max_samples: int, epsilon: float
    ):
        self._pass_rates = pass_rates
        self._group_size, self._least, self._most = group_size, min_samples, max_samples
        self._epsilon = epsilon

    def sample(self, pools: Sequence[Pool], step: Sampler) -> list[Pool]:
        everyone = step.gather([(pool.label, pool.prompt.id) for pool in pools])
        weights = {
            label: inverse_sqrt_weight(self._pass_rates.mean(prompt_id), self._epsilon)
            for label, prompt_id in everyone
        }
        budgets = allocate(weights, self._group_size * len(weights), self._least, self._most)
        return step.draw(pools, budgeted(budgets))

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        for s in stats:
            self._pass_rates.see(s.prompt_id, s.num_correct, s.size - s.num_correct)
        return {"sampling/largest_budget": max(s.size for s in stats)}

    def state(self) -> dict[str, Any]:
        return {"pass_rates": self._pass_rates.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._pass_rates.restore(state.get("pass_rates", {}))
