"""Static guards: what is refused by its text or its tree, before anything is evaluated."""

import time

import pytest

from adarl.types import Verdict
from adarl.verifier.grading import grade_math
from adarl.verifier.guards import leaf_refusal, refusal

BAITS = [
    r"9^{9^{9^{9}}}", r"9^9^9^9", r"2^{2^{20}}", r"10^{10^{10}}", r"2^{10000}", r"2^{4999+4999}", r"2^{999*999}", r"2^{10!}",
    "1000000000!", r"(10^{6})!", "5!!!!", r"((5!)!)!", r"(1000!)!", r"\frac{3001!}{3000!}", r"\binom{10^{9}}{5 \cdot 10^{8}}",
    r"\binom{100000}{50000}", r"\frac{1}{2^{10^{10}}}", r"1.3^{6472416997}", r"\left(\frac{13}{10}\right)^{6472416997}",
    "1e999999999", r"x^{10^{100}}", r"(x+1)^{10000}", r"\sin\left(10^{10^{10}}\right)", r"\sin(10^{4000})", r"e^{e^{e^{10}}}",
    r"\exp(\exp(\exp(100)))", r"\exp(10^{20})", r"\sum_{k=1}^{10^9} k", r"\prod_{k=1}^{10^{8}} k",
    r"\int_{0}^{1} x^{x^{x^{x}}} \, dx", r"\lim_{n\to\infty} n", "9" * 20_000, "+".join("1" * 4_000), "/".join("1" * 400),
    r"\lfloor 10^{1000}\pi \rfloor", r"\sqrt{" * 300 + "2" + "}" * 300, r"\frac{" * 200 + "1" + "}{2}" * 200,
    "(" * 300 + "x" + ")^2" * 300, "-" * 500 + "1", r"\{" + ",".join(map(str, range(3_000))) + r"\}",
    ",".join(map(str, range(150))), r"\pm" * 40 + "1", r"\begin{pmatrix}" + r"\\".join(["&".join("0" * 40)] * 40) + r"\end{pmatrix}",
    r"7^{\left(7^{\left(7^{\left(7^7\right)}\right)} - 3\right)}", r"2^{\binom{40}{20}}", r"a_{9^{9^9}}", r"x^{x^{x^{x}}}",
]  # fmt: skip


@pytest.mark.parametrize("gold", ["5", r"x^5", r"\sqrt{2}", r"x>3", "(0,1)", "n!", "3.14"])
def test_baits_are_turned_down_quickly(gold: str) -> None:
    slow = {}
    for bait in BAITS:
        start = time.process_time()
        try:
            verdict = grade_math(bait, gold)
        except RecursionError:
            verdict = Verdict.UNPARSABLE  # what the worker makes of it
        assert verdict in (Verdict.INCORRECT, Verdict.UNPARSABLE), bait
        if time.process_time() - start > 2.0:
            slow[bait[:60]] = time.process_time() - start
    assert slow == {}


def test_large_but_harmless_answers_are_still_graded() -> None:
    assert grade_math(r"26! \cdot 2^{25}", r"2^{25} \cdot 26!") is Verdict.CORRECT
    assert grade_math("2^{1000}", "2^{1000}") is Verdict.CORRECT
    assert grade_math(r"4^{500}", "2^{1000}") is Verdict.CORRECT
    assert grade_math("(" * 200 + "5" + ")" * 200, "5") is Verdict.CORRECT
    assert (
        grade_math(r"\frac{4^{2024}}{\binom{4048}{2024}} - 2", r"\dfrac{4^{2024}}{\binom{4048}{2024}}-2")
        is Verdict.CORRECT
    )
    assert grade_math("x^{100}", "x^{50}x^{50}") is Verdict.CORRECT
    assert grade_math(r"\frac{101!}{101}", "100!") is Verdict.CORRECT


def test_refusals_say_why() -> None:
    assert refusal("9" * 1001) == "a number has more than 1000 digits"
    assert refusal("1e401") == "an exponent is above 400"
    assert refusal("1e400") is None
    assert refusal("x" * 8001) == "the answer has 8001 characters, more than 8000"
    assert leaf_refusal("2^{5001}") == "an exponent is above 5000"
    assert leaf_refusal("2^{5000}") is None
    assert leaf_refusal("3001!") == "a factorial is taken of more than 3000"
    assert leaf_refusal("3000!") is None
    assert leaf_refusal("{" * 25 + "}" * 25) == "groups are nested deeper than 24"
    assert leaf_refusal("2^{2^{2^{2}}}") == "powers are stacked more than 3 high"
    assert leaf_refusal("2^{2^{3}}") is None
