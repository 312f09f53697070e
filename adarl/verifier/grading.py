"""Answer and gold -> verdict, for mathematics. Runs in a worker; everything here may be slow or run away."""

from functools import lru_cache

from adarl.types import Verdict
from adarl.verifier.answers import Answer, Opaque
from adarl.verifier.characters import UnreadableCharacter
from adarl.verifier.comparing import same_answer
from adarl.verifier.guards import refusal
from adarl.verifier.normalise import canonical, normalise
from adarl.verifier.reading import read
from adarl.verifier.values import to_sympy

# The grammar's parser learns its tables from what it reads: slow once, quick from then on.
_TYPICAL = (
    r"3\sqrt{13}", r"-\frac{\pi}{6}", r"\frac{11+9a}{20}", r"6-5i", r"x^2+3x-6", r"(a+5)(b+2)", r"\frac{\sqrt{3}}{4}",
    r"\sin^2 x+\cos x", r"\ln 2", r"\log_{2} 8", r"e^{-2 t}", r"2^{n+1}-2", r"n!", r"\binom{n}{2}", r"\lfloor n/2\rfloor",
    r"\frac{n(n+1)}{2}", r"x_1", r"f(2)", r"\sqrt[3]{4}", r"x^9+x^8+x^7-x^6+x^5-x^4+x^3-x^2+x-1", r"|x|", r"2 \cdot 3", r"\cot x", r"\infty",
    r"4 \pi^{2}-1", r"\frac{a}{b}+\frac{c}{d}", r"5r^5", r"x/2-1/4", r"(-1)^n", r"\alpha+\beta", r"1+\sqrt{19}",
)  # fmt: skip


def warm_up() -> None:
    """Reads typical expressions once, so that the first answers of a run are graded as quickly as the later ones."""
    for expression in _TYPICAL:
        grade_math(expression, f"2+{expression}")
    grade_math("x < 3", r"(-\infty,3)")  # the solver of inequalities is imported late


def grade_math(answer: str, gold: str) -> Verdict:
    """Whether `answer` states the value of `gold`, by the policy in docs/verifier.md."""
    if not gold.strip():
        return Verdict.INCORRECT
    if refusal(answer) or refusal(gold):
        same = len(answer) < 2_000 and not refusal(gold) and answer.strip() == gold.strip()
        return Verdict.CORRECT if same else Verdict.UNPARSABLE
    try:
        golds = _read_gold(gold)
        readings = read(answer)
    except UnreadableCharacter:
        return Verdict.UNPARSABLE
    if not readings:
        return Verdict.UNPARSABLE
    if golds and canonical(normalise(answer)) == canonical(normalise(gold)):
        return Verdict.CORRECT if not _is_undefined(readings) else Verdict.UNPARSABLE
    if all(isinstance(reading, Opaque) for reading in readings):
        return Verdict.UNPARSABLE
    if any(same_answer(reading, wanted) for wanted in golds for reading in readings):
        return Verdict.CORRECT
    return Verdict.INCORRECT


def parse_math_gold(gold: str) -> str | None:
    """One sentence why a gold can only be matched by the identical text, or None if it can be read."""
    if not gold.strip():
        return "the answer is empty, so that nothing can be correct: drop the row or fill the answer in"
    reason = refusal(gold)
    if reason:
        return f"{reason}: drop the row or shorten the answer"
    try:
        golds = _read_gold(gold)
    except UnreadableCharacter as error:
        return f"{error}: remove it"
    if not golds:
        return f"the answer {gold!r} states nothing: drop the row or fill the answer in"
    if _is_undefined(golds):
        return f"the answer {gold!r} has no value: correct it"
    if all(isinstance(reading, Opaque) for reading in golds):
        return f"the answer {gold!r} cannot be read as mathematics or words, only identical text will count: rewrite it"
    return None


@lru_cache(maxsize=4096)
def _read_gold(gold: str) -> tuple[Answer, ...]:
    """The readings of a gold, kept over all the answers that are compared with it."""
    return read(gold)


def _is_undefined(readings: tuple[Answer, ...]) -> bool:
    import sympy

    for reading in readings:
        value = getattr(reading, "value", None)
        if value is not None and to_sympy(value).has(sympy.nan, sympy.zoo):
            return True
    return False
