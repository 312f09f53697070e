"""Down-sampling and the global baseline."""

from random import Random

import pytest

from adarl.advantages import Estimator, global_mean
from adarl.groups import (
    build_group,
    keep_after,
    keep_all,
    keep_balanced,
    keep_counts,
    keep_max_variance,
    unused,
    whitened,
    without,
)
from adarl.types import Pool, ScoredSample, Verdict, Verification
from tests.conftest import make_pool, scored

KEEP_4 = keep_balanced(4)
GLOBAL_MEAN = Estimator(global_mean)


@pytest.mark.parametrize(
    ("num_correct", "num_incorrect", "group_size", "kept"),
    [
        (10, 22, 4, (2, 2)),
        (1, 31, 4, (1, 3)),
        (31, 1, 4, (3, 1)),
        (0, 32, 4, (0, 4)),
        (32, 0, 4, (4, 0)),
        (5, 5, 5, (2, 3)),  # the extra place of an odd group goes to the incorrect
        (1, 1, 4, (1, 1)),  # a pool smaller than the group is kept whole
        (1, 7, 2, (1, 1)),
    ],
)
def test_kept_counts_are_balanced_and_filled_up(num_correct, num_incorrect, group_size, kept):
    assert keep_counts(num_correct, num_incorrect, group_size) == kept


def test_the_baseline_is_the_mean_over_the_whole_pool():
    group = build_group(make_pool("+-------"), KEEP_4, GLOBAL_MEAN, seed=0)
    assert group.baseline == 0.125
    assert sorted(group.advantages) == [-0.125, -0.125, -0.125, 0.875]
    assert group.has_signal


def test_a_pool_without_signal_has_exactly_zero_advantages():
    group = build_group(make_pool("---"), KEEP_4, GLOBAL_MEAN, seed=0)
    assert group.advantages == (0.0, 0.0, 0.0)
    assert not group.has_signal


def test_which_samples_are_kept_depends_on_the_seed_alone():
    pool = make_pool("+-" * 16)
    kept = [
        [s.sample.index for s in build_group(pool, KEEP_4, GLOBAL_MEAN, seed).samples] for seed in (1, 1, 2)
    ]
    assert kept[0] == kept[1] != kept[2]
    assert kept[0] == sorted(kept[0])


def test_every_sample_of_a_kind_is_kept_equally_often():
    pool = make_pool("++++----")
    counts = [0] * 8
    for seed in range(4000):
        for s in build_group(pool, KEEP_4, GLOBAL_MEAN, seed).samples:
            counts[s.sample.index] += 1
    assert all(abs(c - 2000) < 160 for c in counts)  # 5 standard errors of a Binomial(4000, 1/2)


def rewarded(*rewards: float) -> Pool:
    """A pool of correct samples with these rewards, as a penalty on length gives them."""
    samples = [
        ScoredSample(scored(True, i).sample, Verification(Verdict.CORRECT, r)) for i, r in enumerate(rewards)
    ]
    return Pool(make_pool("").prompt, tuple(samples))


def test_signal_is_judged_by_rewards_and_advantages_and_not_by_correctness():
    shaped = rewarded(1.0, 0.5)
    assert (shaped.is_mixed, shaped.has_signal) == (False, True)
    assert build_group(shaped, KEEP_4, GLOBAL_MEAN, seed=0).has_signal
    flat = rewarded(0.1, 0.1, 0.1)
    assert (flat.is_mixed, flat.has_signal) == (False, False)
    assert not build_group(flat, KEEP_4, GLOBAL_MEAN, seed=0).has_signal
    assert not unused(make_pool("+-")).has_signal


@pytest.mark.parametrize(
    ("rewards", "kept"),
    [
        ([0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1]),
        ([0, 1, 1, 1], [0, 1, 1, 1]),
        ([0, 0, 0, 0, 0, 1], [0, 0, 0, 1]),
        ([0.0, 0.5, 0.6, 0.7, 1.0, 0.4], [0.0, 0.4, 0.7, 1.0]),
        ([-9.0, 0.0, 0.0, 0.1, 0.1, 0.2], [-9.0, 0.1, 0.1, 0.2]),  # one outlier: k = 3 highest
        ([0, 1], [0, 1]),
    ],
)
def test_the_subset_of_largest_variance(rewards, kept):
    pool = rewarded(*rewards)
    positions = keep_max_variance(4)(pool, Random(0))
    assert sorted(pool.samples[i].reward for i in positions) == kept
    assert positions == sorted(positions)


def test_of_equal_rewards_each_is_kept_equally_often():
    pool = rewarded(*[0.0] * 4, *[1.0] * 4)
    counts = [0] * 8
    for seed in range(2000):
        for i in keep_max_variance(4)(pool, Random(seed)):
            counts[i] += 1
    assert all(abs(c - 1000) < 112 for c in counts)  # 5 standard errors of a Binomial(2000, 1/2)


def test_all_and_what_came_after_the_pilot():
    pool = make_pool("+-+-+-", samples_per_round=4)
    assert keep_all(pool, Random(0)) == [0, 1, 2, 3, 4, 5]
    assert keep_after(1)(pool, Random(0)) == [4, 5]


def test_whitening_joins_the_ranks():
    groups = [build_group(make_pool(o, id=o), KEEP_4, GLOBAL_MEAN, seed=0) for o in ("++--", "+---")]
    together = whitened(groups, list)
    flat = [a for g in together for a in g.advantages]
    assert sum(flat) == pytest.approx(0.0, abs=1e-9)
    assert sum(a * a for a in flat) == pytest.approx(
        15.0 / 2, rel=1e-6
    )  # two tokens each: variance 1 over 16 of ddof 1
    other = [(a, 2) for g in groups[1:] for a in g.advantages]
    assert whitened(groups[:1], lambda mine: mine + other) == together[:1]


@pytest.mark.parametrize(("outcomes", "weight"), [("++++", 0.5), ("----", -0.5), ("++--", 0.0)])
def test_groups_whose_rewards_are_equal_learn_from_entropies_where_that_is_asked_for(outcomes, weight):
    group = build_group(make_pool(outcomes), KEEP_4, Estimator(global_mean, entropy_scale=0.5), seed=0)
    assert group.entropy_weight == weight
    assert group.has_signal
    assert not without(group, lambda s: True).has_signal
