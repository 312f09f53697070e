"""The verifier functions of each kind. A grader takes what the response states and the gold, and says a Verdict.

`math`, `exact` and `numeric` get the extracted answer; `python_tests` and a function of your own get the whole
response, because only they know what to look for in it.
"""

import importlib
import unicodedata
from collections.abc import Callable
from fractions import Fraction

from adarl.types import Verdict, Verification
from adarl.verifier.settings import KINDS, VerifierSettings

Grader = Callable[[str, str], Verification]
NUMERIC_TOLERANCE = Fraction(1, 10**6)  # relative, as for decimal golds of `math`


def takes_answer(kind: str) -> bool:
    """Whether the kind grades the extracted answer (True) or the whole response (False)."""
    return kind in ("math", "exact", "numeric")


def load_grader(settings: VerifierSettings) -> Grader:
    """The grader of the recipe's kind; raises ValueError naming what is wrong with an own function."""
    if settings.kind == "python_tests":
        from adarl.verifier.python_tests import grade_program

        return lambda response, gold: grade_program(response, gold, settings)
    if settings.kind not in KINDS:
        return _own(settings.kind)
    if settings.kind == "math":
        from adarl.verifier.grading import grade_math, warm_up

        warm_up()
        return lambda answer, gold: _binary(grade_math(answer, gold), answer)
    grade = _exact if settings.kind == "exact" else _numeric
    return lambda answer, gold: _binary(grade(answer, gold), answer)


def parse_error(answer: str, settings: VerifierSettings) -> str | None:
    """One sentence why no response could be graded against this gold; None if one can.

    For the load-time check of data sets: what is reported here should be dropped and counted, because every
    response to it would be scored wrong.
    """
    if not answer.strip():
        return "the answer is empty, so that nothing can be correct: drop the row or fill the answer in"
    if settings.kind == "math":
        from adarl.verifier.grading import parse_math_gold

        return parse_math_gold(answer)
    if settings.kind == "numeric" and _number(answer) is None:
        return f"the answer {answer!r} is not a number: use verifier.kind: math, or correct it"
    if settings.kind == "python_tests":
        try:
            compile(answer, "<tests>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return f"the tests are not valid Python ({error}): correct them"
    return None


def _binary(verdict: Verdict, answer: str) -> Verification:
    return Verification(verdict, 1.0 if verdict.is_correct else 0.0, answer)


def _exact(answer: str, gold: str) -> Verdict:
    """Identical text up to white space and unicode composition."""
    same = _plain(answer) == _plain(gold) != ""
    return Verdict.CORRECT if same else Verdict.INCORRECT


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _numeric(answer: str, gold: str) -> Verdict:
    """Plain numbers within a relative tolerance; nothing is parsed but digits."""
    value, wanted = _number(answer), _number(gold)
    if value is None:
        return Verdict.UNPARSABLE
    if wanted is None:
        return Verdict.INCORRECT
    return Verdict.CORRECT if abs(value - wanted) <= NUMERIC_TOLERANCE * abs(wanted) else Verdict.INCORRECT


def _number(text: str) -> Fraction | None:
    from adarl.verifier.guards import refusal
    from adarl.verifier.leaves import read_number

    if len(text) > 1_000 or refusal(text):
        return None
    plain = text.strip().strip("$").strip().removesuffix("%").replace(",", "")
    number = read_number(plain)
    if number is None:
        return None
    return number[0] / 100 if text.strip().strip("$").strip().endswith("%") else number[0]


def _own(path: str) -> Grader:
    """module:function of the user: (response, gold) -> bool, float (the reward) or Verification."""
    module_name, _, function_name = path.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"verifier.kind is {path!r}, but {error}: give an importable module and a function in it"
        ) from error
    return lambda response, gold: _as_verification(function(response, gold), path)


def _as_verification(result: object, path: str) -> Verification:
    if isinstance(result, Verification):
        return result
    if isinstance(result, bool):
        return Verification(Verdict.CORRECT if result else Verdict.INCORRECT, float(result))
    if isinstance(result, int | float):
        return Verification(Verdict.CORRECT if result >= 1.0 else Verdict.INCORRECT, float(result))
    raise TypeError(f"{path} returned {result!r}: return a bool, a float (1.0 is correct) or a Verification")
