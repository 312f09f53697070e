"""Baselines and advantages (`algorithm.advantage`): plain floats in, plain floats out.

Legend: r_i the reward of kept sample i, r-bar the mean reward of the whole pool S_x, m and s mean and
standard deviation over the kept ones, p the pass rate of the prompt. "Weight" is w(p) in
E[gradient] = w(p) grad p for rewards of 0 and 1 (ALGORITHMS.md, section 2): 1 is the policy gradient of the
mean reward, 1/p that of its logarithm. Rewards that are all equal give exact zeros, rounding or not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from statistics import fmean

from adarl.types import ScoredSample

Advantage = Callable[["Outcomes", "Outcomes"], list[float]]
"""(kept, pool) -> one advantage a kept sample."""

EPSILON = 1e-6  # beside standard deviations, as in verl


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What the verifier said of some samples."""

    rewards: tuple[float, ...]
    correct: tuple[bool, ...]

    @classmethod
    def of(cls, samples: Sequence[ScoredSample]) -> "Outcomes":
        return cls(tuple(s.reward for s in samples), tuple(s.correct for s in samples))

    @property
    def size(self) -> int:
        return len(self.rewards)

    @property
    def all_equal(self) -> bool:
        return all(r == self.rewards[0] for r in self.rewards)

    @property
    def mean(self) -> float:
        return self.rewards[0] if self.all_equal else fmean(self.rewards)

    @property
    def pass_rate(self) -> float:
        return sum(self.correct) / self.size


@dataclass(frozen=True, slots=True)
class Estimator:
    """How kept samples become advantages."""

    advantage: Advantage
    whitened: bool = False  # `whiten` over the tokens of the whole batch comes after
    entropy_scale: float = 0.0  # RL-ZVP's alpha: what groups whose rewards are all equal learn from


def global_mean(kept: Outcomes, pool: Outcomes) -> list[float]:
    """A_i = r_i - r-bar (Reinforce-Ada, arXiv 2510.04996, section 3). Weight: 1/(2pq) - 1 under `balanced`."""
    return _minus(kept, pool.mean)


def global_mean_std(kept: Outcomes, pool: Outcomes) -> list[float]:
    """A_i = (r_i - r-bar) / (s + 1e-6), s over the whole pool with ddof 1 (the authors' optional switch)."""
    return _over_std(_minus(kept, pool.mean), _std(pool.rewards, ddof=1))


def inverse_sqrt(epsilon: float) -> Advantage:
    """A_i = (r_i - r-bar) / sqrt(r-bar + epsilon): Reinforce-Ada-Est (arXiv 2510.04996 v3, Algorithm 1).

    Together with budgets N_x ~ 1/sqrt(p) it weighs a prompt by 1/p, half through either.
    """

    def advantage(kept: Outcomes, pool: Outcomes) -> list[float]:
        scale = 1.0 / sqrt(max(0.0, pool.mean) + epsilon)
        return [scale * a for a in _minus(kept, pool.mean)]

    return advantage


def group_mean(kept: Outcomes, pool: Outcomes) -> list[float]:
    """A_i = r_i - m (Dr.GRPO, arXiv 2503.20783). Weight under `uniform`: 1 - 1/n."""
    return _minus(kept, kept.mean)


def grpo(kept: Outcomes, pool: Outcomes) -> list[float]:
    """A_i = (r_i - m) / (s + 1e-6), s with ddof 1 as in verl (DeepSeekMath, arXiv 2402.03300). n = 1: A = r."""
    if kept.size == 1:
        return list(kept.rewards)
    return _over_std(group_mean(kept, pool), _std(kept.rewards, ddof=1))


def rloo(kept: Outcomes, pool: Outcomes) -> list[float]:
    """A_i = r_i - mean of the others = n / (n - 1) (r_i - m) (arXiv 2402.14740). Weight 1. n = 1: A = r."""
    if kept.size == 1:
        return list(kept.rewards)
    return [kept.size / (kept.size - 1) * a for a in group_mean(kept, pool)]


def raft(kept: Outcomes, pool: Outcomes) -> list[float]:
    """A_i = max(r_i, 0), no baseline: learn from the correct alone (RAFT++, arXiv 2504.11343)."""
    return [max(r, 0.0) for r in kept.rewards]


def weighted(positive_weight: float) -> Advantage:
    """+positive_weight on correct and -1 on incorrect samples, no baseline (arXiv 2506.01347).

    W-REINFORCE has 0.1; 0 is NSR, learning from the incorrect alone. Weight under `uniform`:
    1 + positive_weight.
    """

    def advantage(kept: Outcomes, pool: Outcomes) -> list[float]:
        return [positive_weight if correct else -1.0 for correct in kept.correct]

    return advantage


def ngrpo(kept: Outcomes, pool: Outcomes, max_reward: float = 1.0) -> list[float]:
    """GRPO whose statistics hold one more sample of the highest reward (NGRPO, arXiv 2509.18851).

    A_i = (r_i - m') / (s' + 1e-6) with population s'. All wrong: -1/sqrt(n); all right: 0.
    """
    rewards = (*kept.rewards, max_reward)
    if all(r == max_reward for r in rewards):
        return [0.0] * kept.size
    return _over_std([r - fmean(rewards) for r in kept.rewards], _std(rewards, ddof=0))


def stratified(group_size: int) -> Advantage:
    """Undo the tilt of balanced down-sampling: weight E[r-bar (1 - r-bar)] / (pq), about 1.

    A_i = (r_i - r-bar) n (P/T) / k1 for the k1 correct, (r_i - r-bar) n (Q/T) / k0 for the k0 incorrect: each
    kind gets the share that it has in the pool (ALGORITHMS.md, section 2). n is the nominal group size, so
    a pool smaller than n weighs as much as any.
    """

    def advantage(kept: Outcomes, pool: Outcomes) -> list[float]:
        num_correct = sum(kept.correct)
        right = group_size * pool.pass_rate / max(1, num_correct)
        wrong = group_size * (1.0 - pool.pass_rate) / max(1, kept.size - num_correct)
        centred = _minus(kept, pool.mean)
        return [a * (right if c else wrong) for a, c in zip(centred, kept.correct, strict=True)]

    return advantage


def log_objective(group_size: int) -> Advantage:
    """The gradient of log p, faithfully: `stratified` divided by the pool's pass rate. Weight about 1/p.

    The later version of the paper (arXiv 2510.04996 v3, section 3.2) multiplies `global_mean` by 1/r-bar; but
    balanced down-sampling weighs by 1/(2p) already, so that overshoots (97 instead of 20 at p = 0.05). A
    pool without a correct sample gives zeros.
    """
    even = stratified(group_size)

    def advantage(kept: Outcomes, pool: Outcomes) -> list[float]:
        if pool.pass_rate == 0.0:
            return [0.0] * kept.size
        return [a / pool.pass_rate for a in even(kept, pool)]

    return advantage


def whiten(advantages: Sequence[float], num_tokens: Sequence[int]) -> tuple[float, float]:
    """Mean and standard deviation of the advantages over the tokens of the batch.

    REINFORCE++-baseline (arXiv 2501.03262) trains on (A_i - mean) / std. Variance with ddof 1 plus 1e-8, as
    verl's masked_whiten. The sums are exact, so the order of the samples does not matter. Fewer than two
    tokens, or no variance: (0, 1), which changes nothing.
    """
    count = sum(num_tokens)
    if count < 2:
        return 0.0, 1.0
    pairs = list(zip(advantages, num_tokens, strict=True))
    mean = fsum(a * t for a, t in pairs) / count
    variance = fsum((a - mean) ** 2 * t for a, t in pairs) / (count - 1)
    return (mean, sqrt(variance + 1e-8)) if variance > 0.0 else (0.0, 1.0)


def _minus(outcomes: Outcomes, baseline: float) -> list[float]:
    return [r - baseline for r in outcomes.rewards]


def _std(values: Sequence[float], ddof: int) -> float:
    if len(values) <= ddof:
        return 0.0
    mean = fmean(values)
    return sqrt(fsum((v - mean) ** 2 for v in values) / (len(values) - ddof))


def _over_std(centred: list[float], std: float) -> list[float]:
    return [a / (std + EPSILON) for a in centred]
