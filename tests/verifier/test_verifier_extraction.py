"""The three extraction policies."""

import time

import pytest

from adarl.verifier.extraction import extract_answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so $\boxed{42}$.", "42"),
        (r"\fbox{7}", "7"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed{1} then \fbox{2}", "2"),
        (r"\fbox{1} then \boxed{2}", "2"),
        (r"<think>\boxed{8}?</think> \boxed{9}", "9"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {42}", "42"),
        ("\\boxed\n{42}", "42"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\boxed{5}}", r"\boxed{5}"),
        (r"\boxed{5}}", "5"),
        (r"{{{ \boxed{14}", "14"),
        (r"$\boxed 42$.", "42"),
        (r"\boxed{}", ""),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"\boxed{1 and \boxed{2}", "2"),
        (r"\boxed{a}\\\boxed{b}", "b"),
        (r"the answer is 42", None),
        (r"\boxed{12", None),
        (r"\boxed{\frac{1}{", None),
        (r"\boxed", None),
        (r"\boxed 4", None),  # the end may be a cut
        (r"\boxedtext{3}", None),
        ("", None),
    ],
)
def test_last_boxed_takes_the_last_closed_box_and_nothing_else(response: str, answer: str | None) -> None:
    assert extract_answer(response) == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"the answer is 5. \boxed{6}", "6"),
        ("we find that the answer is 42.", "42"),
        ("Final answer: 42", "42"),
        ("Answer: $\\frac{1}{2}$", r"\frac{1}{2}"),
        ("6 * 7 = 42 pens.\n#### 42", "42"),
        ("Final Answer: **73**", "73"),
        ("**Final Answer:** 73", "73"),
        ("Final Answer: The final answer is $(2,4)$. I hope it is correct.", "(2,4)"),
        ("The final answer is 3.5.", "3.5"),
        ("At first I got 12, but the answer is 15.", "15"),
        ("The answer is $20.", r"\$20"),
        ("The correct option is (D).", "(D)"),
        ("The correct choice is D.", "D"),
        ("the answer is $20 + x", None),
        ("The answer is 3. No, the answer is 4!", "4"),
        ("The answer is: \\(7\\)", "7"),
        ("the answer is \\[x^2\\]", "x^2"),
        ("Let x = 3 be the number.", None),
        ("The answer is", None),
        ("the answer is $\\boxed{123", None),
        ("the answer is $12", None),
        ("I am not able to solve this.", None),
    ],
)
def test_final_answers_are_read_where_the_recipe_allows_them(response: str, answer: str | None) -> None:
    assert extract_answer(response, "last_boxed_or_final_answer") == answer


def test_a_truncated_response_has_no_answer_at_its_cut() -> None:
    assert extract_answer("The answer is 12", "last_boxed_or_final_answer", truncated=True) is None
    assert extract_answer("The answer is 12. And", "last_boxed_or_final_answer", truncated=True) == "12"
    assert extract_answer(r"\boxed{12} And", "last_boxed", truncated=True) == "12"
    assert extract_answer("12", "whole_response", truncated=True) is None


def test_whole_response_is_the_response() -> None:
    assert extract_answer("  42\n", "whole_response") == "42"
    assert extract_answer("  ", "whole_response") is None


@pytest.mark.parametrize(
    "response",
    ["A" * 1_000_000, "\\boxed{" * 20_000, "{" * 1_000_000, "\\boxed{{" + "}{" * 400_000, "\\boxed " * 100_000,
     "the answer is " * 50_000, "\\" * 1_000_001, "$" * 500_000, "\\boxed{1}" * 50_000],
    ids=["letters", "boxes", "braces", "pairs", "bare", "markers", "backslashes", "dollars", "closed"],
)  # fmt: skip
def test_extraction_is_linear(response: str) -> None:
    start = time.process_time()
    for policy in ("last_boxed", "last_boxed_or_final_answer", "whole_response"):
        extract_answer(response, policy)
    assert time.process_time() - start < 2.0


def test_a_right_answer_behind_a_long_text_is_found() -> None:
    assert extract_answer("Let us check again. " * 10_000 + r"$\boxed{13}$") == "13"
