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


def test_figure_five_can_be_drawn():
    """Resolved and given up by round, and for lack of what; n = 4, quotas of two."""
    pools = [stats("++--", "a"), stats("+---" * 2, "b"), stats("-" * 8, "c"), stats("+++-" + "++++", "d")]
    metrics = sampling_metrics(pools, 4, 2, 2)
    assert metrics["sampling/samples"] == 28
    assert metrics["sampling/extra_samples_per_prompt"] == 3.0
    assert [metrics[f"sampling/active_round_{r}"] for r in (0, 1)] == [4, 3]
    assert [metrics[f"sampling/ended_round_{r}"] for r in (0, 1)] == [1, 3]
    assert [metrics[f"sampling/resolved_round_{r}"] for r in (0, 1)] == [1, 1]
    assert (metrics["sampling/lacks_correct"], metrics["sampling/lacks_incorrect"]) == (1, 1)
    assert metrics["sampling/pool_pass_rate"] == 11 / 28
    assert (metrics["groups/with_signal"], metrics["groups/samples_per_signal"]) == (3, 28 / 3)


def test_without_any_signal_there_is_no_price_of_it():
    assert "groups/samples_per_signal" not in sampling_metrics([stats("----", "a")], 4, 2, 2)
