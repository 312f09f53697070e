"""Down-sampling and the global baseline."""

import pytest

from adarl.advantages import Estimator, global_mean
from adarl.groups import build_group, keep_balanced, keep_counts
from tests.conftest import make_pool

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
