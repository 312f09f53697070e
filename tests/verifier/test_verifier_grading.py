"""The grading policy, kind by kind, and each decision of the policy table in docs/verifier.md."""

import pytest

from adarl.types import Verdict
from adarl.verifier.grading import grade_math, parse_math_gold
from tests.verifier.verifier_cases import DIFFERENT, SAME


@pytest.mark.parametrize("kind", SAME)
def test_equal_forms_are_correct(kind: str) -> None:
    assert [case for case in SAME[kind] if grade_math(case[1], case[0]) is not Verdict.CORRECT] == []


@pytest.mark.parametrize("kind", DIFFERENT)
def test_different_answers_are_not_correct(kind: str) -> None:
    assert [case for case in DIFFERENT[kind] if grade_math(case[1], case[0]) is Verdict.CORRECT] == []


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        (r"28\%", "28", Verdict.CORRECT),
        ("28", r"28\%", Verdict.CORRECT),
        ("0.5", r"0.5\%", Verdict.INCORRECT),
        (r"1 \text{ hour}", r"60 \text{ minutes}", Verdict.CORRECT),
        (r"1000 \text{ m}", r"1 \text{ km}", Verdict.CORRECT),
        ("(0,1)", "0 < x < 1", Verdict.CORRECT),
        ("(1,2)", "x=1, y=2", Verdict.CORRECT),
        ("(1,2)", "y=2, x=1", Verdict.CORRECT),
        ("1,2", "(1,2)", Verdict.INCORRECT),
        ("(1,2)", "1,2", Verdict.INCORRECT),
        ("(1,2)", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", Verdict.CORRECT),
        (r"\frac{1}{3}", "0.3333333", Verdict.INCORRECT),
        (r"\sqrt{2}", "1.41421356", Verdict.INCORRECT),
        ("1.4142", r"\sqrt{2}", Verdict.CORRECT),
        ("1.41", r"\sqrt{2}", Verdict.INCORRECT),
        ("0.5", "0,5", Verdict.INCORRECT),
        ("1,000", "1.000", Verdict.INCORRECT),
        (r"90^\circ", r"\frac{\pi}{2}", Verdict.INCORRECT),
        (r"\$0.25", r"25 \text{ cents}", Verdict.CORRECT),
        ("5050", r"\sum_{k=1}^{100} k", Verdict.UNPARSABLE),
        ("42", "４２", Verdict.CORRECT),
        ("42", "4\u200b2", Verdict.CORRECT),
        ("A", "\u0410", Verdict.UNPARSABLE),  # Cyrillic
        ("10", "1010_2", Verdict.INCORRECT),
        ("1010_2", "1010", Verdict.CORRECT),
        ("1", r"\frac{(10^9)!}{(10^9)!}", Verdict.UNPARSABLE),
        (r"\text{ellipse}", r"\text{an ellipse}", Verdict.CORRECT),
        ("C", "c", Verdict.INCORRECT),
        ("1", "1\x00", Verdict.UNPARSABLE),
    ],
)
def test_each_policy_decision(gold: str, answer: str, verdict: Verdict) -> None:
    assert grade_math(answer, gold) is verdict


def test_decimal_golds_have_a_relative_tolerance_of_a_millionth() -> None:
    assert grade_math("2.0000001", "2.0") is Verdict.CORRECT
    assert grade_math("2.00001", "2.0") is Verdict.INCORRECT
    assert grade_math("2.0000001", "2") is Verdict.INCORRECT
    # and never more than half a unit of the last printed place
    assert grade_math("12345678.9", "12345678.8") is Verdict.INCORRECT


def test_tiny_and_huge_values_are_not_equal_by_rounding() -> None:
    assert grade_math(r"\frac{1}{2^{98}}", r"\frac{1}{2^{99}}") is Verdict.INCORRECT
    assert grade_math(r"\frac{1}{2006!}", r"\frac{1}{2004!}") is Verdict.INCORRECT
    assert grade_math("640320^3+744", r"e^{\pi\sqrt{163}}") is Verdict.INCORRECT
    assert grade_math(r"\pi+10^{-900}", r"\pi") is Verdict.INCORRECT
    assert grade_math(r"\frac{2^{98}}{2^{197}}", r"\frac{1}{2^{99}}") is Verdict.CORRECT


def test_an_empty_gold_never_rewards() -> None:
    assert [grade_math(answer, "") for answer in ("", "7", r"\text{}")] == [Verdict.INCORRECT] * 3
    assert grade_math(" ", " ") is Verdict.INCORRECT


def test_an_answer_that_says_nothing_is_unparsable() -> None:
    assert {grade_math(answer, "7") for answer in ("", " ", r"\text{}", r"\ldots", "?", "...")} == {
        Verdict.UNPARSABLE
    }


def test_golds_that_cannot_be_read_are_reported() -> None:
    assert parse_math_gold("") is not None
    assert parse_math_gold(r"\frac{0}{0}") == r"the answer '\\frac{0}{0}' has no value: correct it"
    assert "only identical text" in str(parse_math_gold("np.arcsin(10/13)"))
    assert "more than 1000 digits" in str(parse_math_gold("9" * 2000))
    readable = [
        "5",
        r"\frac{1}{2}",
        r"\text{Evelyn}",
        "C",
        "(1,2)",
        r"x \ge 5",
        "204_5",
        r"\emptyset",
        "f(x)=2x",
    ]
    assert [parse_math_gold(gold) for gold in readable] == [None] * 9


def test_verdicts_do_not_depend_on_what_was_graded_before() -> None:
    pairs = [(answer, gold) for gold, answer in SAME["fraction"] + DIFFERENT["fraction"]]
    assert [grade_math(*pair) for pair in pairs] == [grade_math(*pair) for pair in reversed(pairs)][::-1]
