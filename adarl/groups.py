"""Pool -> Group: which samples are kept, and their advantages (Algorithm 1, lines 15-19).

Which samples a selector keeps depends on the seed, on rewards and on correctness alone, never on content,
length or time of arrival, so kept responses of a kind follow the law of the pool's. They stay in index order.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from adarl.advantages import Estimator, Outcomes, whiten
from adarl.types import Group, Pool, ScoredSample

Selector = Callable[[Pool, Random], list[int]]
"""Positions in the pool that are trained on, in order."""


def keep_counts(num_correct: int, num_incorrect: int, group_size: int) -> tuple[int, int]:
    """How many correct and incorrect samples of a pool are kept: (k1, k0).

    k1 = min(n // 2, P), k0 = min(n - k1, Q); where that is short of n, correct samples fill up. A
    pool smaller than n is kept whole.
    """
    k1 = min(group_size // 2, num_correct)
    k0 = min(group_size - k1, num_incorrect)
    k1 = min(group_size - k0, num_correct)
    return k1, k0


def keep_balanced(group_size: int) -> Selector:
    """Reinforce-Ada: n samples, half of them correct where the pool has them; drawn without replacement."""

    def select(pool: Pool, rng: Random) -> list[int]:
        correct = [i for i, s in enumerate(pool.samples) if s.correct]
        incorrect = [i for i, s in enumerate(pool.samples) if not s.correct]
        k1, k0 = keep_counts(len(correct), len(incorrect), group_size)
        return sorted(rng.sample(correct, k1) + rng.sample(incorrect, k0))

    return select


def keep_all(pool: Pool, rng: Random) -> list[int]:
    """Every sample."""
    return list(range(pool.size))


def keep_after(first_round: int) -> Selector:
    """The samples of this round and later ones: what came before was a pilot."""

    def select(pool: Pool, rng: Random) -> list[int]:
        return [i for i, s in enumerate(pool.samples) if s.sample.round >= first_round]

    return select


def keep_max_variance(group_size: int) -> Selector:
    """PODS (arXiv 2504.13818): the n samples whose rewards vary most.

    Those are always the k highest and the n - k lowest for some k; of equally good k the one nearest n / 2.
    Which of equal rewards are kept is drawn.
    """

    def select(pool: Pool, rng: Random) -> list[int]:
        order = list(range(pool.size))
        rng.shuffle(order)
        order.sort(key=lambda i: pool.samples[i].reward)
        n = min(group_size, pool.size)
        rewards = [pool.samples[i].reward for i in order]
        candidates = [rewards[: n - k] + rewards[len(rewards) - k :] for k in range(n + 1)]
        best = max(range(n + 1), key=lambda k: (_spread(candidates[k]), -abs(k - n / 2)))
        return sorted(order[: n - best] + order[len(order) - best :])

    return select


def _spread(values: Sequence[float]) -> float:
    """n^2 times the variance; rounded, so that equal spreads compare equal."""
    return round(len(values) * sum(v * v for v in values) - sum(values) ** 2, 9)


def build_group(pool: Pool, select: Selector, estimator: Estimator, seed: int) -> Group:
    """Keep samples of the pool and give each its advantage."""
    kept = [pool.samples[i] for i in select(pool, Random(seed))]
    whole = Outcomes.of(pool.samples)
    advantages = estimator.advantage(Outcomes.of(kept), whole) if kept else []
    # RL-ZVP: all right learns from +alpha H_t, all wrong from -alpha (max H - H_t).
    says_nothing = estimator.entropy_scale != 0.0 and whole.all_equal
    weight = estimator.entropy_scale * (1.0 if all(whole.correct) else -1.0) if says_nothing else 0.0
    return Group(pool.prompt, tuple(kept), tuple(advantages), whole.mean, pool.occurrence, weight)


def unused(pool: Pool) -> Group:
    """The group of a pool that is not trained on."""
    return Group(pool.prompt, (), (), Outcomes.of(pool.samples).mean, pool.occurrence)


def whitened(groups: Sequence[Group], gather: Callable[[list[Any]], list[Any]]) -> list[Group]:
    """(A_i - mean) / std over the response tokens of all ranks' groups; `gather` joins the ranks' lists."""
    mine = [
        (a, len(s.sample.token_ids)) for g in groups for s, a in zip(g.samples, g.advantages, strict=True)
    ]
    everyone = gather(mine)
    mean, std = whiten([a for a, _ in everyone], [t for _, t in everyone])
    return [replace(g, advantages=tuple((a - mean) / std for a in g.advantages)) for g in groups]


def without(group: Group, masked: Callable[[ScoredSample], bool]) -> Group:
    """The group less the samples that carry no loss; advantages and baseline stay as they were."""
    kept = [(s, a) for s, a in zip(group.samples, group.advantages, strict=True) if not masked(s)]
    return replace(group, samples=tuple(s for s, _ in kept), advantages=tuple(a for _, a in kept))
