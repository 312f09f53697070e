import itertools
import math

import pytest

from eval.metrics import (
    answer_text,
    avg_at_k,
    is_majority_correct,
    paired_difference,
    pass_at_k,
    pass_at_ks,
    standard_error,
)
from tests.eval_fakes import result


def test_avg_at_k_is_the_mean_over_problems():
    assert avg_at_k([0.5, 0.25, 0.0]) == 0.25


def test_the_standard_error_is_that_of_problems_not_of_samples():
    # mean 0.5; squared deviations 0.25, 0, 0.25; variance 0.5 / 2 = 0.25; sd 0.5; 0.5 / sqrt(3)
    assert standard_error([0.0, 0.5, 1.0]) == pytest.approx(0.288675, abs=1e-6)
    assert standard_error([0.25, 0.25]) == 0.0
    assert standard_error([0.25]) is None


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (4, 1, 1, 0.25),
        (4, 1, 2, 0.5),  # 1 - C(3,2)/C(4,2) = 1 - 3/6
        (4, 2, 2, 5 / 6),  # 1 - C(2,2)/C(4,2) = 1 - 1/6
        (5, 2, 3, 0.9),  # 1 - C(3,3)/C(5,3) = 1 - 1/10
        (4, 3, 2, 1.0),  # C(1,2) = 0: two samples always hold a correct one
        (4, 0, 4, 0.0),
        (32, 1, 32, 1.0),
        (32, 1, 16, 0.5),
    ],
)
def test_pass_at_k_by_hand(n, c, k, expected):
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-12)


def test_pass_at_k_is_the_mean_over_all_subsets():
    outcomes = [True, False, False, True, False, False]
    subsets = list(itertools.combinations(outcomes, 3))
    assert pass_at_k(6, 2, 3) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize("k", [0, 5])
def test_pass_at_k_needs_k_samples(k):
    with pytest.raises(ValueError, match="from 4 samples"):
        pass_at_k(4, 1, k)


def test_pass_at_k_is_reported_for_powers_of_two_and_for_all_samples():
    assert pass_at_ks(1) == [1]
    assert pass_at_ks(4) == [1, 2, 4]
    assert pass_at_ks(12) == [1, 2, 4, 8, 12]
    assert pass_at_ks(32) == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["4", "5", "4"], True),
        (["5", "4", "5"], False),
        (["4", "5", "5", "4"], True),  # a tie goes to what came first
        (["5", "4", "4", "5"], False),
        (["", "", "", "4"], True),  # no answer, no vote
        (["", ""], False),
    ],
)
def test_maj_at_k_by_hand(answers, expected):
    assert is_majority_correct(result("p", answers).samples) is expected


def test_votes_are_counted_by_text_without_layout():
    # 1/2 has three votes in three spellings, 3 has two
    answers = [r"\dfrac{1}{2}", "3", r"$\frac{1}{2}$", "3", r"\frac{1} {2}."]
    assert {answer_text(a) for a in answers} == {r"\frac{1}{2}", "3"}
    assert is_majority_correct(result("p", answers, gold="3").samples) is False


def test_answers_of_equal_value_but_other_text_are_different_votes():
    assert answer_text("0.5") != answer_text("1/2")


def test_the_paired_difference_has_the_error_of_the_differences():
    first, second = {"a": 0.0, "b": 0.5, "c": 1.0}, {"a": 0.25, "b": 0.75, "c": 1.0}
    # differences 0.25, 0.25, 0; mean 1/6; squared deviations 1/144, 1/144, 4/144; variance 3/144
    difference, error = paired_difference(first, second)
    assert difference == pytest.approx(1 / 6)
    assert error == pytest.approx(math.sqrt(3 / 144) / math.sqrt(3))
    with pytest.raises(ValueError, match="same problems"):
        paired_difference(first, {"a": 0.0})
