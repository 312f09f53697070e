"""Baselines and advantages: plain floats in, plain floats out.

Legend: kept_rewards are the rewards r_i of the group, pool_rewards those of the whole pool S_x.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

Advantage = Callable[[Sequence[float], Sequence[float]], list[float]]


def global_mean(kept_rewards: Sequence[float], pool_rewards: Sequence[float]) -> list[float]:
    """A_i = r_i - mean of the rewards of the whole pool (Reinforce-Ada, section 3; no standard deviation).

    A pool without signal gives exact zeros, whatever its rewards.
    """
    baseline = fmean(pool_rewards)
    return [r - baseline for r in kept_rewards]
