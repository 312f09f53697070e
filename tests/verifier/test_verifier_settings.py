"""Settings, shaped rewards, the simple kinds and the load-time check of golds."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from adarl.types import Verdict, Verification
from adarl.verifier import (
    OverlongPenalty,
    VerifierSettings,
    is_masked,
    overlong_penalty,
    parse_error,
    shape_reward,
)
from adarl.verifier.domains import load_grader


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "maths"}, "verifier.kind is 'maths', which is none of math, exact, numeric, python_tests"),
        ({"extraction": "boxed"}, "verifier.extraction is 'boxed': choose one of last_boxed"),
        ({"workers": 0}, "verifier.workers is 0: give 1 to 256"),
        ({"timeout_seconds": 0}, "verifier.timeout_seconds is 0.0: give 0.1 to 600 seconds"),
        ({"memory_mb": 100}, "verifier.memory_mb is 100: sympy alone needs 256"),
        ({"overlong": {"max_tokens": 10, "buffer_tokens": 20}}, "verifier.overlong.buffer_tokens is 20"),
        (
            {"overlong": {"max_tokens": 10, "buffer_tokens": 2, "penalty": -1}},
            "verifier.overlong.penalty is -1.0",
        ),
        ({"time": 3}, "Extra inputs are not permitted"),
    ],
)
def test_bad_settings_name_key_value_and_fix(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        VerifierSettings.model_validate(change)
    assert message in str(raised.value)


def test_settings_are_light_to_import() -> None:
    code = "import sys, adarl.verifier.settings; print({'sympy', 'math_verify', 'torch'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout == "set()\n"


def test_the_overlong_penalty_is_dapos() -> None:
    overlong = OverlongPenalty(max_tokens=100, buffer_tokens=20)
    assert [overlong_penalty(n, overlong) for n in (0, 80, 85, 90, 100, 150)] == [
        0.0,
        0.0,
        -0.25,
        -0.5,
        -1.0,
        -1.0,
    ]


def test_shaping_changes_the_reward_and_never_the_verdict() -> None:
    settings = VerifierSettings(overlong=OverlongPenalty(max_tokens=100, buffer_tokens=20, penalty=0.5))
    correct, wrong = Verification(Verdict.CORRECT, 1.0, "5"), Verification(Verdict.INCORRECT, 0.0, "6")
    assert shape_reward(correct, 90, False, settings) == Verification(Verdict.CORRECT, 0.75, "5")
    assert shape_reward(wrong, 100, False, settings) == Verification(Verdict.INCORRECT, -0.5, "6")
    assert shape_reward(correct, 10, True, settings) == Verification(Verdict.CORRECT, 0.5, "5")
    assert shape_reward(correct, 90, False, VerifierSettings()) == correct


def test_truncated_responses_are_masked_only_on_request() -> None:
    assert [is_masked(cut, VerifierSettings(mask_truncated=on)) for cut in (False, True) for on in (False, True)] == [
        False, False, False, True,
    ]  # fmt: skip


def test_exact_compares_text() -> None:
    grade = load_grader(VerifierSettings(kind="exact"))
    assert grade("Paris ", " Paris").verdict is Verdict.CORRECT
    assert grade("e\u0301", "\u00e9").verdict is Verdict.CORRECT
    assert grade("paris", "Paris").verdict is Verdict.INCORRECT
    assert grade("", "").verdict is Verdict.INCORRECT


def test_numeric_compares_numbers_within_a_millionth() -> None:
    grade = load_grader(VerifierSettings(kind="numeric"))
    assert grade("1,000.0005", "1000").verdict is Verdict.CORRECT
    assert grade("1000.01", "1000").verdict is Verdict.INCORRECT
    assert grade("50%", "0.5").verdict is Verdict.CORRECT
    assert grade(r"\frac{1}{2}", "0.5").verdict is Verdict.CORRECT
    assert grade("1e3", "1000").verdict is Verdict.CORRECT
    assert grade("five", "5").verdict is Verdict.UNPARSABLE
    assert grade("0.0000001", "0").verdict is Verdict.INCORRECT
    assert grade("9" * 5000, "5").verdict is Verdict.UNPARSABLE


def test_golds_are_checked_when_the_data_is_loaded() -> None:
    assert parse_error("5", VerifierSettings()) is None
    assert parse_error("", VerifierSettings()) == (
        "the answer is empty, so that nothing can be correct: drop the row or fill the answer in"
    )
    assert parse_error("five", VerifierSettings(kind="numeric")) == (
        "the answer 'five' is not a number: use verifier.kind: math, or correct it"
    )
    assert parse_error("5", VerifierSettings(kind="numeric")) is None
    assert "not valid Python" in str(parse_error("assert f(", VerifierSettings(kind="python_tests")))
    assert parse_error("assert f(1) == 2", VerifierSettings(kind="python_tests")) is None
