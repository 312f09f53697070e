"""Estimators against numbers worked out by hand."""

from math import sqrt

import pytest

from adarl.advantages import (
    Outcomes,
    global_mean,
    global_mean_std,
    group_mean,
    grpo,
    inverse_sqrt,
    log_objective,
    ngrpo,
    raft,
    rloo,
    stratified,
    weighted,
    whiten,
)

EVERY = {
    "global_mean": global_mean,
    "global_mean_std": global_mean_std,
    "inverse_sqrt": inverse_sqrt(0.01),
    "group_mean": group_mean,
    "grpo": grpo,
    "rloo": rloo,
    "raft": raft,
    "weighted": weighted(0.1),
    "ngrpo": ngrpo,
    "stratified": stratified(4),
    "log_objective": log_objective(4),
}


def binary(outcomes: str) -> Outcomes:
    return Outcomes(tuple(float(o == "+") for o in outcomes), tuple(o == "+" for o in outcomes))


KEPT, POOL = binary("++--"), binary("++" + "-" * 6)  # r-bar 1/4, group mean 1/2


@pytest.mark.parametrize(
    ("name", "correct", "incorrect"),
    [
        ("global_mean", 0.75, -0.25),
        ("global_mean_std", 0.75 / sqrt(1.5 / 7), -0.25 / sqrt(1.5 / 7)),  # pool variance 8 * 3/16 / 7
        ("inverse_sqrt", 0.75 / sqrt(0.26), -0.25 / sqrt(0.26)),
        ("group_mean", 0.5, -0.5),
        ("grpo", sqrt(3) / 2, -sqrt(3) / 2),  # s^2 = 4 * 1/4 / 3
        ("rloo", 2 / 3, -2 / 3),
        ("raft", 1.0, 0.0),
        ("weighted", 0.1, -1.0),
        ("ngrpo", 0.4 / sqrt(0.24), -0.6 / sqrt(0.24)),  # five rewards, three of them 1
        ("stratified", 0.375, -0.375),  # 3/4 * 4 * 1/4 / 2 and -1/4 * 4 * 3/4 / 2
        ("log_objective", 1.5, -1.5),
    ],
)
def test_two_of_four_kept_out_of_two_of_eight(name, correct, incorrect):
    assert EVERY[name](KEPT, POOL) == pytest.approx([correct] * 2 + [incorrect] * 2, rel=1e-5)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("raft", "weighted")])
@pytest.mark.parametrize("reward", [0.1, 0.3, 1.0])
def test_equal_rewards_give_exact_zeros_whatever_they_are(name, reward):
    right = Outcomes((reward,) * 3, (True,) * 3)
    if name == "ngrpo":
        right = Outcomes((1.0,) * 3, (True,) * 3)
    assert EVERY[name](right, right) == [0.0, 0.0, 0.0]


def test_what_all_wrong_gives():
    wrong = binary("----")
    zero = [
        "global_mean",
        "global_mean_std",
        "inverse_sqrt",
        "group_mean",
        "grpo",
        "rloo",
        "stratified",
        "log_objective",
    ]
    for name in [*zero, "raft"]:
        assert EVERY[name](wrong, wrong) == [0.0] * 4, name
    assert EVERY["weighted"](wrong, wrong) == [-1.0] * 4
    assert EVERY["ngrpo"](wrong, wrong) == pytest.approx([-0.5] * 4, rel=1e-5)  # -1 / sqrt(4)


def test_all_right_teaches_raft_and_w_reinforce():
    right = binary("++++")
    assert raft(right, right) == [1.0] * 4
    assert weighted(0.1)(right, right) == [0.1] * 4
    assert weighted(0.0)(binary("+-"), binary("+-")) == [0.0, -1.0]  # NSR


def test_a_group_of_one():
    one, pool = binary("+"), binary("+---")
    assert grpo(one, pool) == [1.0]
    assert rloo(one, pool) == [1.0]
    assert group_mean(one, pool) == [0.0]
    assert global_mean(one, pool) == [0.75]


def test_shaped_rewards_are_used_as_they_are():
    kept = Outcomes((1.0, -0.5), (True, False))
    pool = Outcomes((1.0, -0.5, -0.5, 0.0), (True, False, False, True))
    assert global_mean(kept, pool) == [1.0, -0.5]
    assert group_mean(kept, pool) == [0.75, -0.75]
    assert stratified(2)(kept, pool) == [1.0 * 2 * 0.5 / 1, -0.5 * 2 * 0.5 / 1]
    assert raft(Outcomes((1.0, -0.5), (True, False)), pool) == [1.0, 0.0]


def test_a_pool_smaller_than_n_is_normalised_by_the_nominal_n():
    pool = binary("+-")
    assert stratified(4)(pool, pool) == [1.0, -1.0]  # 1/2 * 4 * 1/2 / 1
    assert stratified(8)(pool, pool) == [2.0, -2.0]


def test_whitening_counts_tokens_and_not_the_order_of_samples():
    mean, std = whiten([1.0, -1.0], [3, 1])
    assert mean == 0.5
    assert std == pytest.approx(1.0)  # (3 * 1/4 + 9/4) / 3
    values, tokens = [0.1, 0.7, -0.3, 0.2], [5, 1, 9, 2]
    assert whiten(values, tokens) == whiten(values[::-1], tokens[::-1])


@pytest.mark.parametrize(("values", "tokens"), [([], []), ([0.5], [1]), ([0.0, 0.0], [4, 4])])
def test_whitening_leaves_a_batch_without_variance_alone(values, tokens):
    assert whiten(values, tokens) == (0.0, 1.0)
