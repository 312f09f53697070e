"""What a step reports of its sampling: one small record a pool, summed over all ranks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from adarl.types import Group, Pool, Verdict


@dataclass(frozen=True, slots=True)
class PoolStats:
    """What is reported of one pool and its group; small, so that ranks can exchange it."""

    prompt_id: str
    occurrence: int
    size: int
    num_correct: int
    num_rounds: int
    first_round_size: int
    first_round_reward: float  # sum over the first round
    reward: float  # sum over the pool
    verdicts: tuple[tuple[Verdict, int], ...]
    num_tokens: int  # response tokens of the pool
    num_truncated: int
    group_size: int  # kept samples; 0 where the pool is not trained on
    group_has_signal: bool
    kept_advantage: float  # sum of the kept advantages

    @property
    def is_mixed(self) -> bool:
        """Both a correct and an incorrect sample are in."""
        return 0 < self.num_correct < self.size


def pool_stats(pool: Pool, group: Group) -> PoolStats:
    """Summarise one pool and the group that was kept of it."""
    verdicts = Counter(s.verification.verdict for s in pool.samples)
    return PoolStats(
        prompt_id=pool.prompt.id,
        occurrence=pool.occurrence,
        size=pool.size,
        num_correct=pool.num_correct,
        num_rounds=pool.num_rounds,
        first_round_size=len(pool.first_round),
        first_round_reward=sum(s.reward for s in pool.first_round),
        reward=sum(s.reward for s in pool.samples),
        verdicts=tuple(sorted(verdicts.items())),
        num_tokens=sum(len(s.sample.token_ids) for s in pool.samples),
        num_truncated=sum(s.sample.truncated for s in pool.samples),
        group_size=len(group.samples),
        group_has_signal=group.has_signal,
        kept_advantage=sum(group.advantages),
    )


def sampling_metrics(
    stats: Sequence[PoolStats], group_size: int, min_correct: int, min_incorrect: int
) -> dict[str, float]:
    """The sampling part of a line of metrics.jsonl; Figure 5 of the paper is drawn from it.

    `reward/first_round` is the unbiased one: those samples were drawn before any exit condition was
    looked at. `reward/pool` is what the baseline uses; the exit condition tilts it (ALGORITHMS, Wald).
    A pool is resolved where it has both quotas, min_correct and min_incorrect; round r is counted from 0.

    Args:
        stats: of every pool that was drawn, also those that are not trained on.
        group_size: n of the paper.
        min_correct, min_incorrect: the quotas of the exit condition, 0 where it asks for none.
    """
    samples = sum(s.size for s in stats)
    first = sum(s.first_round_size for s in stats)
    with_signal = sum(s.group_has_signal for s in stats)
    metrics: dict[str, float] = {
        "reward/first_round": sum(s.first_round_reward for s in stats) / first,
        "reward/pool": sum(s.reward for s in stats) / samples,
        "sampling/prompts": len(stats),
        "sampling/samples": samples,
        "sampling/extra_samples_per_prompt": samples / len(stats) - group_size,
        "sampling/pool_pass_rate": sum(s.num_correct for s in stats) / samples,
        "sampling/response_tokens": sum(s.num_tokens for s in stats),
        "sampling/truncated_share": sum(s.num_truncated for s in stats) / samples,
        "sampling/no_correct": sum(s.num_correct == 0 for s in stats),
        "sampling/no_incorrect": sum(s.num_correct == s.size for s in stats),
        "sampling/lacks_correct": sum(s.num_correct < min_correct for s in stats),
        "sampling/lacks_incorrect": sum(s.size - s.num_correct < min_incorrect for s in stats),
        "groups/signal_share": with_signal / len(stats),
        "groups/with_signal": with_signal,
        "groups/kept_samples": sum(s.group_size for s in stats),
        "groups/kept_advantage": sum(s.kept_advantage for s in stats),
    }
    if with_signal:
        metrics["groups/samples_per_signal"] = samples / with_signal
    for r in range(max(s.num_rounds for s in stats)):
        ended = [s for s in stats if s.num_rounds == r + 1]
        quota = [s.num_correct >= min_correct and s.size - s.num_correct >= min_incorrect for s in ended]
        metrics[f"sampling/active_round_{r}"] = sum(s.num_rounds > r for s in stats)
        metrics[f"sampling/ended_round_{r}"] = len(ended)
        metrics[f"sampling/resolved_round_{r}"] = sum(quota)
    for verdict in Verdict:
        metrics[f"verdict/{verdict}"] = sum(n for s in stats for v, n in s.verdicts if v is verdict)
    return metrics
