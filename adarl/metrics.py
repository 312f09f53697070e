"""What a step reports of its sampling: one small record a prompt, summed over all ranks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from adarl.types import Group, Pool, Verdict


@dataclass(frozen=True, slots=True)
class PoolStats:
    """What is reported of one pool and its group; small, so that ranks can exchange it."""

    prompt_id: str
    size: int
    num_correct: int
    num_rounds: int
    first_round_size: int
    first_round_reward: float  # sum over the first round
    reward: float  # sum over the pool
    verdicts: tuple[tuple[Verdict, int], ...]
    num_tokens: int  # response tokens of the pool
    num_truncated: int
    group_size: int
    group_has_signal: bool
    kept_advantage: float  # sum of the kept advantages


def pool_stats(pool: Pool, group: Group) -> PoolStats:
    """Summarise one pool and the group that was kept of it."""
    verdicts = Counter(s.verification.verdict for s in pool.samples)
    return PoolStats(
        prompt_id=pool.prompt.id,
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


def sampling_metrics(stats: Sequence[PoolStats], group_size: int) -> dict[str, float]:
    """The sampling part of a line of metrics.jsonl.

    `reward/first_round` is the unbiased one: those samples were drawn before any exit condition was
    looked at. `reward/pool` is what the baseline uses; the exit condition tilts it (ALGORITHMS, Wald).
    """
    samples = sum(s.size for s in stats)
    first = sum(s.first_round_size for s in stats)
    metrics: dict[str, float] = {
        "reward/first_round": sum(s.first_round_reward for s in stats) / first,
        "reward/pool": sum(s.reward for s in stats) / samples,
        "sampling/prompts": len(stats),
        "sampling/samples": samples,
        "sampling/extra_samples_per_prompt": samples / len(stats) - group_size,
        "sampling/response_tokens": sum(s.num_tokens for s in stats),
        "sampling/truncated_share": sum(s.num_truncated for s in stats) / samples,
        "sampling/no_correct": sum(s.num_correct == 0 for s in stats),
        "sampling/no_incorrect": sum(s.num_correct == s.size for s in stats),
        "groups/signal_share": sum(s.group_has_signal for s in stats) / len(stats),
        "groups/kept_samples": sum(s.group_size for s in stats),
        "groups/kept_advantage": sum(s.kept_advantage for s in stats),
    }
    for r in range(max(s.num_rounds for s in stats)):
        metrics[f"sampling/active_round_{r}"] = sum(s.num_rounds > r for s in stats)
        metrics[f"sampling/ended_round_{r}"] = sum(s.num_rounds == r + 1 for s in stats)
    for verdict in Verdict:
        metrics[f"verdict/{verdict}"] = sum(n for s in stats for v, n in s.verdicts if v is verdict)
    return metrics
