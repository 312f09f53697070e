"""Posterior chances, allocations and counts against numbers worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adarl.budgets import (
    PassRates,
    allocate,
    inverse_sqrt_weight,
    posterior_elimination,
    quota_probability,
    variance_weight,
)
from tests.conftest import make_pool


@pytest.mark.parametrize(
    ("correct", "incorrect", "draws", "quotas", "chance"),
    [
        (0, 0, 1, (1, 0), 1 / 2),
        (1, 0, 1, (2, 0), 3 / 4),  # Beta(3/2, 1/2)
        (0, 0, 2, (1, 1), 1 / 4),  # Beta(1/2, 1/2): 2 B(3/2, 3/2) / B(1/2, 1/2)
        (1, 1, 2, (2, 2), 3 / 8),  # Beta(3/2, 3/2): 2 * 3/6 * 3/8
        (1, 3, 0, (1, 2), 1.0),
        (1, 3, 0, (2, 2), 0.0),
        (0, 4, 1, (2, 2), 0.0),  # one more cannot be two
    ],
)
def test_the_chance_of_the_quotas(correct, incorrect, draws, quotas, chance):
    assert quota_probability(correct, incorrect, draws, *quotas) == pytest.approx(chance, abs=1e-12)


def test_futility_stops_mixed_pools_alone():
    rule = posterior_elimination(2, 2, 8, 4, first_round=4, futility=0.8)
    # Beta(1.5, 7.5): the second correct one stays away in 24 draws with chance B(1.5, 31.5) / B(1.5, 7.5) = 0.120
    assert rule(make_pool("+" + "-" * 7)) == 8
    assert rule(make_pool("+" + "-" * 23)) == 0  # B(1.5, 31.5) / B(1.5, 23.5) = 0.647 of none in 8
    assert rule(make_pool("-" * 24)) == 8  # uniform: goes on to the cap, so no signal is lost
    assert rule(make_pool("++--")) == 0


def test_sized_rounds_are_the_least_that_have_the_chance_and_end_where_plain_ones_do():
    rule = posterior_elimination(2, 2, 8, 4, first_round=4, confidence=0.5)
    assert rule(make_pool("")) == 4
    assert rule(make_pool("++-")) == 2  # chance of a wrong one: 1.5/4 = 0.375 in one, 0.562 in two
    assert rule(make_pool("+---")) == 3  # 0.475 in two, 0.588 in three
    assert rule(make_pool("-" * 4)) == 4  # nothing reaches 1/2: up to the multiple of 8
    assert rule(make_pool("-" * 10)) == 6
    short = posterior_elimination(4, 4, 4, 4, first_round=8, confidence=0.5)
    assert short(make_pool("")) == 4  # never beyond M


def test_a_cap_that_is_no_multiple_of_the_first_round_is_kept():
    rule = posterior_elimination(2, 2, 5, 2, first_round=4, confidence=0.9)
    assert [rule(make_pool("-" * size)) for size in (0, 4, 5, 9, 10)] == [4, 1, 5, 1, 0]


@pytest.mark.parametrize(
    ("weights", "total", "least", "most", "budgets"),
    [
        ({"a": 1.0, "b": 1.0}, 8, 1, 8, {"a": 4, "b": 4}),
        ({"a": 3.0, "b": 1.0}, 8, 1, 8, {"a": 6, "b": 2}),
        ({"a": 9.0, "b": 1.0}, 8, 2, 5, {"a": 5, "b": 3}),  # clipped above: the rest goes to the other
        ({"a": 99.0, "b": 1.0, "c": 1.0}, 9, 2, 32, {"a": 5, "b": 2, "c": 2}),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, 8, 1, 8, {"a": 3, "b": 3, "c": 2}),  # ties by name
        ({"a": 1.0, "b": 0.0}, 8, 0, 8, {"a": 8, "b": 0}),
        ({"a": 0.0, "b": 0.0}, 8, 0, 8, {"a": 0, "b": 0}),  # nothing is worth a draw
        ({"a": 1.0, "b": 1.0}, 99, 1, 8, {"a": 8, "b": 8}),
        ({}, 0, 1, 8, {}),
    ],
)
def test_allocations(weights, total, least, most, budgets):
    assert allocate(weights, total, least, most) == budgets


@settings(max_examples=200, deadline=None)
@given(
    weights=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40),
    least=st.integers(0, 3),
    room=st.integers(1, 30),
    mean=st.floats(0.0, 1.0),
)
def test_allocations_add_up_and_stay_within_bounds_and_in_order(weights, least, room, mean):
    total = round(len(weights) * (least + mean * room))
    named = {f"{i:02}": w for i, w in enumerate(weights)}
    budgets = allocate(named, total, least, least + room)
    assert sum(budgets.values()) == total
    assert all(least <= b <= least + room for b in budgets.values())
    ordered = sorted(named, key=lambda x: named[x])
    assert all(budgets[a] <= budgets[b] + 1 for a, b in zip(ordered, ordered[1:], strict=False))


def test_weights_of_the_budgets():
    assert inverse_sqrt_weight(0.24, 0.01) == 2.0
    assert variance_weight(0.25, 3.0, alpha=1e-3, beta=2.0) == pytest.approx(3.0 / (0.25 + 0.004) ** 0.5)
    assert variance_weight(0.0, 3.0, 1e-3, 2.0) == variance_weight(0.5, 0.0, 1e-3, 2.0) == 0.0
    best = max(range(1, 1000), key=lambda i: variance_weight(i / 1000, 1.0, 1e-3, 2.0))
    assert best == 32  # sqrt(alpha) = 0.0316


def test_pass_rates_forget_at_each_visit():
    rates = PassRates(forgetting=0.5, prior_correct=1.0, prior_incorrect=3.0)
    assert rates.mean("a") == 0.25
    rates.see("a", 4, 0)
    rates.see("a", 0, 2)
    assert rates.beta("a") == (1.0 + 2.0, 3.0 + 2.0)
    again = PassRates(0.5, 1.0, 3.0)
    again.restore(rates.state())
    assert again.mean("a") == rates.mean("a") == 0.375
