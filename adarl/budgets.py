"""Rounds and budgets sized by estimated pass rates.

Posterior rules decide within a step from the pool alone, so they keep the law of the pools independent of
any schedule. Budgets are set before a step's draws, from pass rates of earlier steps or of pilot draws.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, floor, fsum, lgamma, sqrt

from adarl.sampling import RoundSize
from adarl.types import Pool


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


@lru_cache(maxsize=1 << 16)
def quota_probability(
    correct: int, incorrect: int, draws: int, min_correct: int, min_incorrect: int
) -> float:
    """Chance that `draws` more samples meet both quotas, under a Beta(1/2 + P, 1/2 + Q) posterior.

    Sum over x of BetaBinomial(x; draws, 1/2 + P, 1/2 + Q) for x correct among them, from max(0, K+ - P) to
    draws - max(0, K- - Q) (ALGORITHMS.md, section 4). The prior is Jeffreys'; no rule needs it to be right.
    """
    a, b = 0.5 + correct, 0.5 + incorrect
    least = max(0, min_correct - correct)
    most = draws - max(0, min_incorrect - incorrect)
    log_choose = [lgamma(draws + 1) - lgamma(x + 1) - lgamma(draws - x + 1) for x in range(draws + 1)]
    terms = (log_choose[x] + _log_beta(a + x, b + draws - x) for x in range(least, most + 1))
    base = _log_beta(a, b)
    return min(1.0, fsum(exp(term - base) for term in terms))


def posterior_elimination(
    min_correct: int,
    min_incorrect: int,
    samples_per_round: int,
    num_rounds: int,
    *,
    first_round: int,
    futility: float | None = None,
    confidence: float | None = None,
) -> RoundSize:
    """`balanced` elimination that gives up early, or sizes its rounds, by the posterior of the pass rate.

    On any stream of samples it draws at most what plain `balanced` draws, and a pool has both kinds exactly
    when that of `balanced` has: the rules stop no pool that is still uniform, and every check of `balanced`,
    at each multiple of M, is one of theirs (ALGORITHMS.md, section 4, L1 and L3).

    Args:
        min_correct, min_incorrect: the quotas K+ and K-.
        samples_per_round, num_rounds: M and N; the cap is M * N samples.
        first_round: size of the first round with `confidence`; at most M.
        futility: tau. A mixed pool is given up where the chance of the quotas within the cap is below it.
        confidence: gamma. The next round is the least that meets the quotas with this chance, and never
            goes past the next multiple of M.
    """
    cap = samples_per_round * num_rounds

    def round_size(pool: Pool) -> int:
        size, correct = pool.size, pool.num_correct
        incorrect = size - correct
        if size >= cap or (size and correct >= min_correct and incorrect >= min_incorrect):
            return 0

        def chance(draws: int) -> float:
            return quota_probability(correct, incorrect, draws, min_correct, min_incorrect)

        if futility is not None and correct and incorrect and chance(cap - size) < futility:
            return 0
        room = min(samples_per_round - size % samples_per_round, cap - size)
        if confidence is None:
            return room
        if size == 0:
            return min(first_round, room)
        return next((m for m in range(1, room) if chance(m) >= confidence), room)

    return round_size


def allocate(weights: Mapping[str, float], total: int, least: int, most: int) -> dict[str, int]:
    """Whole budgets in proportion to the weights, within bounds, that add up to the total.

    B_x = clip(c w_x, least, most) with the one c that makes the sum right, rounded by largest remainder (ties
    by name). Weights of 0 get `least`. The total is cut to what the bounds, or the positive weights, allow.
    """
    names = sorted(weights)
    ceilings = {x: most if weights[x] > 0 else least for x in names}
    total = min(max(total, least * len(names)), sum(ceilings.values()))
    low, high = 0.0, 1.0

    def shares(scale: float) -> dict[str, float]:
        return {x: min(max(scale * weights[x], least), ceilings[x]) for x in names}

    while fsum(shares(high).values()) < total:
        high *= 2.0
    for _ in range(100):  # bisection down to the last bit
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fsum(shares(middle).values()) < total else (low, middle)
    exact = shares(high)
    budgets = {x: floor(exact[x] + 1e-9) for x in names}
    by_remainder = sorted(names, key=lambda x: (round(budgets[x] - exact[x], 9), x))
    for x in [x for x in by_remainder if budgets[x] < ceilings[x]][: total - sum(budgets.values())]:
        budgets[x] += 1
    return budgets


def inverse_sqrt_weight(pass_rate: float, epsilon: float) -> float:
    """1 / sqrt(p + epsilon): Reinforce-Ada-Est (arXiv 2510.04996 v3, Algorithm 1)."""
    return 1.0 / sqrt(pass_rate + epsilon)


def variance_weight(pass_rate: float, gradient_norm: float, alpha: float, beta: float) -> float:
    """GVM's G / sqrt(p + alpha / p^(beta - 1)); 0 where p or G is 0 (arXiv 2505.02391, as its code has it).

    With beta = 2 it is largest at p = sqrt(alpha).
    """
    if pass_rate == 0.0 or gradient_norm == 0.0:
        return 0.0
    return gradient_norm / sqrt(pass_rate + alpha / pass_rate ** (beta - 1.0))


class PassRates:
    """Beta counts a prompt, with exponential forgetting: N <- lambda N + n at each visit.

    Args:
        forgetting: lambda.
        prior_correct, prior_incorrect: of the Beta prior.
    """

    def __init__(self, forgetting: float, prior_correct: float, prior_incorrect: float):
        self._forgetting = forgetting
        self._prior = prior_correct, prior_incorrect
        self._counts: dict[str, tuple[float, float]] = {}  # correct, incorrect

    def see(self, prompt_id: str, num_correct: int, num_incorrect: int) -> None:
        correct, incorrect = self._counts.get(prompt_id, (0.0, 0.0))
        keep = self._forgetting
        self._counts[prompt_id] = keep * correct + num_correct, keep * incorrect + num_incorrect

    def beta(self, prompt_id: str) -> tuple[float, float]:
        """Parameters of the prompt's Beta distribution."""
        correct, incorrect = self._counts.get(prompt_id, (0.0, 0.0))
        return self._prior[0] + correct, self._prior[1] + incorrect

    def mean(self, prompt_id: str) -> float:
        """(N_correct + alpha) / (N + alpha + beta)."""
        a, b = self.beta(prompt_id)
        return a / (a + b)

    def state(self) -> dict[str, Sequence[float]]:
        return dict(self._counts)

    def restore(self, state: Mapping[str, Sequence[float]]) -> None:
        self._counts = {prompt_id: (counts[0], counts[1]) for prompt_id, counts in state.items()}
