"""When a pool has seen enough."""

import pytest

from adarl.exit_conditions import balanced, positive_focused
from tests.conftest import make_pool


@pytest.mark.parametrize(("outcomes", "resolved"), [("----", False), ("---+", True), ("++++", True)])
def test_positive_focused_waits_for_one_correct_sample(outcomes, resolved):
    assert positive_focused(1)(make_pool(outcomes)) is resolved


@pytest.mark.parametrize(
    ("outcomes", "resolved"),
    [("++++", False), ("----", False), ("+---", False), ("+++-", False), ("++--", True), ("+++----", True)],
)
def test_balanced_waits_for_both_quotas(outcomes, resolved):
    assert balanced(2, 2)(make_pool(outcomes)) is resolved
