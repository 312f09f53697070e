"""What a step reports of its sampling."""

from adarl.advantages import Estimator, global_mean
from adarl.groups import build_group, keep_balanced
from adarl.metrics import pool_stats, sampling_metrics
from tests.conftest import make_pool


def stats(outcomes: str, id: str):
    pool = make_pool(outcomes, id=id)
    return pool_stats(pool, build_group(pool, keep_balanced(4), Estimator(global_mean), seed=0))


def test_metrics_of_three_pools():
    metrics = sampling_metrics(
        [stats("++--", "a"), stats("---- ---+".replace(" ", ""), "b"), stats("----", "c")], 4, 2, 2
    )
    assert metrics["reward/first_round"] == 2 / 12  # four first draws a prompt
    assert metrics["reward/pool"] == 3 / 16
    assert metrics["sampling/samples"] == 16
    assert metrics["sampling/extra_samples_per_prompt"] == 16 / 3 - 4
    assert metrics["sampling/response_tokens"] == 32
    assert metrics["sampling/no_correct"] == 1
    assert metrics["sampling/no_incorrect"] == 0
    assert metrics["groups/signal_share"] == 2 / 3
    assert metrics["groups/kept_samples"] == 12
    assert (metrics["sampling/active_round_0"], metrics["sampling/ended_round_0"]) == (3, 2)
    assert (metrics["sampling/active_round_1"], metrics["sampling/ended_round_1"]) == (1, 1)
    assert (metrics["verdict/correct"], metrics["verdict/incorrect"], metrics["verdict/timeout"]) == (
        3,
        13,
        0,
    )
