"""Pool -> Group: seeded, balanced down-sampling and the global baseline (Algorithm 1, lines 15-19)."""

from random import Random
from statistics import fmean

from adarl.advantages import Advantage
from adarl.types import Group, Pool


def keep_counts(num_correct: int, num_incorrect: int, group_size: int) -> tuple[int, int]:
    """How many correct and incorrect samples of a pool are kept: (k1, k0).

    k1 = min(n // 2, P), k0 = min(n - k1, Q); where that is short of n, correct samples fill up. A
    pool smaller than n is kept whole.
    """
    k1 = min(group_size // 2, num_correct)
    k0 = min(group_size - k1, num_incorrect)
    k1 = min(group_size - k0, num_correct)
    return k1, k0


def build_group(pool: Pool, group_size: int, advantage: Advantage, seed: int) -> Group:
    """Draw the kept samples without replacement and give each its advantage.

    Which samples of a kind are kept depends on the seed and on their number alone, never on content,
    length or time of arrival, so kept responses follow the law of the pool's. They stay in index order.
    """
    rng = Random(seed)
    correct = [i for i, s in enumerate(pool.samples) if s.correct]
    incorrect = [i for i, s in enumerate(pool.samples) if not s.correct]
    k1, k0 = keep_counts(len(correct), len(incorrect), group_size)
    kept = [pool.samples[i] for i in sorted(rng.sample(correct, k1) + rng.sample(incorrect, k0))]
    rewards = [s.reward for s in pool.samples]
    advantages = advantage([s.reward for s in kept], rewards)
    return Group(pool.prompt, tuple(kept), tuple(advantages), fmean(rewards))
