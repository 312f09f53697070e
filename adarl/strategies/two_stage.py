"""`two_stage`: GVM-RAFT's explore-then-exploit budgets (arXiv 2505.02391)."""

from collections.abc import Sequence

from adarl.budgets import allocate, variance_weight
from adarl.sampling import Sampler, budgeted, uniform
from adarl.strategies import Forgetful
from adarl.types import Pool


class TwoStage(Forgetful):
    """A pilot of a few draws a prompt, then a second round whose budgets the pilot decides.

    n_x ~ G_x / sqrt(p_x + alpha / p_x^(beta - 1)), p_x the pilot's pass rate and G_x the mean norm of the
    gradient of its correct responses; nothing where no pilot response is correct. The budgets add up to
    group_size times the prompts. The pilot is not trained on.

    Args:
        gradient_norms: False takes G = 1.
    """

    def __init__(self, pilot_samples: int, group_size: int, alpha: float, beta: float, gradient_norms: bool):
        self._pilot, self._group_size = pilot_samples, group_size
        self._alpha, self._beta = alpha, beta
        self._gradient_norms = gradient_norms

    def sample(self, pools: Sequence[Pool], step: Sampler) -> list[Pool]:
        pools = step.draw(pools, uniform(self._pilot))
        norms = step.gradient_norms(pools) if self._gradient_norms else [1.0] * len(pools)
        mine = [
            (pool.label, variance_weight(pool.pass_rate, norm, self._alpha, self._beta))
            for pool, norm in zip(pools, norms, strict=True)
        ]
        weights = dict(step.gather(mine))
        total = self._group_size * len(weights)
        budgets = allocate(weights, total, least=0, most=total)
        return step.draw(pools, budgeted({label: self._pilot + n for label, n in budgets.items()}))
