"""Equations and inequalities: when two say the same, and which value one states."""

import re
from collections.abc import Callable
from fractions import Fraction

import sympy
from sympy import Expr

from adarl.verifier.answers import Answer, Ordered, Quantity, Relation
from adarl.verifier.normalise import canonical
from adarl.verifier.values import same_expression, to_sympy

Same = Callable[[Answer, Answer], bool]

_FLIPPED = {
    "<": ">",
    ">": "<",
    r"\le": r"\ge",
    r"\ge": r"\le",
    "=": "=",
    r"\ne": r"\ne",
    r"\equiv": r"\equiv",
}
# What can be the name of a value: x, x_1, m_{\max}, f(x), P(A), AB, \angle ABC, |AB|, dM/dt, \text{Area}, (x, y).
_LETTER = r"(?:\\?[a-zA-Z]+|\\text\{[^{}]*\})"
_SUBSCRIPT = r"(?:\s*_\s*(?:\{[^{}]*\}|\\?\w+))?"
_NAME = re.compile(
    rf"(?:\\angle\s*|\\triangle\s*|\|)?{_LETTER}{_SUBSCRIPT}'*(?:\s*{_LETTER}{_SUBSCRIPT})*\|?"
    rf"(?:\s*\([^()=]*\))?(?:\s*\[[A-Z ]+\])?|\\frac\{{d[^{{}}]*\}}\{{d[^{{}}]*\}}|\[[A-Z]+\]",
)
_FUNCTION = re.compile(r"([a-zA-Z])\s*\(\s*([a-zA-Z])\s*\)")
_OPERATOR_WORDS = re.compile(
    r"\\(?:frac|sqrt|sin|cos|tan|log|ln|exp|pi|infty|binom|times|cdot|div|pm)(?![a-zA-Z])"
)


def is_name(text: str) -> bool:
    """Whether the left side of `text = value` only names the value."""
    text = text.strip()
    if re.fullmatch(r"\(\s*[a-zA-Z](?:_\{?\w+\}?)?(?:\s*,\s*[a-zA-Z](?:_\{?\w+\}?)?)*\s*\)", text):
        return True  # (x, y) = (1, 2)
    if re.fullmatch(rf"{_LETTER}{_SUBSCRIPT}(?:\s*[+-]\s*{_LETTER}{_SUBSCRIPT})+", text):
        return not _OPERATOR_WORDS.search(text)  # a + b = 10
    if re.fullmatch(rf"{_LETTER}(?:\s*:\s*{_LETTER})+", text):
        return not _OPERATOR_WORDS.search(text)  # a : b = 3 : 4
    if _NAME.fullmatch(text) is None:
        return False
    return text.startswith(r"\frac{d") or not _OPERATOR_WORDS.search(text)


def values_of(relation: Relation, same: Same) -> list[Answer]:
    """The values that a chain of equations states: `x = 5+5+1 = 11` states 11, `x^2+y^2 = 25` states none.

    Sides that are no names have to agree with each other, approximations within 1 %.
    """
    if not set(relation.signs) <= {"=", r"\approx", r"\in", r"\equiv"}:
        return []
    if relation.signs == (r"\in",):
        return [relation.sides[1]] if is_name(relation.texts[0]) else []
    names = [is_name(text) for text in relation.texts]
    start = next((index for index, named in enumerate(names) if not named), len(names) - 1)
    values = list(relation.sides[start:])
    exact_until = start + next(
        (offset for offset, sign in enumerate(relation.signs[start:]) if sign == r"\approx"), len(values) - 1
    )
    exact = list(relation.sides[start : exact_until + 1])
    if start == 0 and not _states_constants(exact):
        return []
    if not all(same(side, exact[-1]) for side in exact[:-1]):
        return []
    if start > 0 or len(values) > 1:
        rounded = values[len(exact) :]
        if rounded and all(_roughly(exact[-1], value) for value in rounded):
            return [exact[-1], *(value for value in rounded if _is_rounding(exact[-1], value))]
        return [] if rounded else [exact[-1]]
    return []


def _states_constants(sides: list[Answer]) -> bool:
    return all(
        isinstance(side, Quantity) and (isinstance(side.value, Fraction) or not side.value.free_symbols)
        for side in sides
    )


def _roughly(exact: Answer, rounded: Answer) -> bool:
    if not (isinstance(exact, Quantity) and isinstance(rounded, Quantity)):
        return False
    a, b = to_sympy(exact.value), to_sympy(rounded.value)
    if a.free_symbols or b.free_symbols:
        return False
    return bool(abs((a - b).evalf(15)) <= 0.01 * abs(a.evalf(15)))


def _is_rounding(exact: Answer, rounded: Answer) -> bool:
    """Whether a decimal or whole number is the exact value, rounded or cut off at its last place."""
    if not (
        isinstance(exact, Quantity) and isinstance(rounded, Quantity) and isinstance(rounded.value, Fraction)
    ):
        return False
    place = 2 * rounded.printed.half_place if rounded.printed else Fraction(1)
    if not rounded.printed and rounded.value.denominator != 1:
        return False
    return bool(abs(to_sympy(exact.value) - to_sympy(rounded.value)).evalf(30) < to_sympy(place))


def same_relation(answer: Relation, gold: Relation, same: Same) -> bool:
    """Side by side in either direction, else as one equation or inequality up to a factor."""
    if canonical("".join(answer.texts)) == canonical("".join(gold.texts)) and answer.signs == gold.signs:
        return True
    if _side_by_side(answer, gold, same) or _side_by_side(_reversed(answer), gold, same):
        return True
    if len(answer.signs) != 1 or len(gold.signs) != 1:
        return _same_final_value(answer, gold, same)
    renamed = _with_variable_of(answer, gold)
    if renamed is not None:
        return same(renamed[0], renamed[1])
    return _same_up_to_factor(answer, gold)


def _side_by_side(answer: Relation, gold: Relation, same: Same) -> bool:
    return (
        answer.signs == gold.signs
        and len(answer.sides) == len(gold.sides)
        and all(same(a, g) for a, g in zip(answer.sides, gold.sides, strict=True))
    )


def _reversed(relation: Relation) -> Relation:
    signs = tuple(_FLIPPED.get(sign, "?") for sign in reversed(relation.signs))
    return Relation(relation.sides[::-1], signs, relation.texts[::-1])


def _same_final_value(answer: Relation, gold: Relation, same: Same) -> bool:
    """x = 5+5+1 = 11 for x = 11: the same name and the same value."""
    if canonical(answer.texts[0]) != canonical(gold.texts[0]) or not is_name(gold.texts[0]):
        return False
    return any(same(a, g) for a in values_of(answer, same) for g in values_of(gold, same))


def _with_variable_of(answer: Relation, gold: Relation) -> tuple[Answer, Answer] | None:
    """f(n) = n for f(x) = x: the right sides with one name for the argument."""
    mine, theirs = _FUNCTION.fullmatch(answer.texts[0]), _FUNCTION.fullmatch(gold.texts[0])
    if (
        mine is None
        or theirs is None
        or mine[1] != theirs[1]
        or answer.signs != ("=",)
        or gold.signs != ("=",)
    ):
        return None
    right_a, right_g = answer.sides[1], gold.sides[1]
    if not isinstance(right_a, Quantity) or not isinstance(right_g, Quantity):
        return None
    renamed = to_sympy(right_a.value).xreplace({sympy.Symbol(mine[2]): sympy.Symbol(theirs[2])})
    return Quantity(renamed), Quantity(to_sympy(right_g.value))


def _same_up_to_factor(answer: Relation, gold: Relation) -> bool:
    """2x - y + 3 = 0 for y = 2x + 3: the differences of the sides are constant multiples of each other."""
    mine, theirs = _difference(answer), _difference(gold)
    if mine is None or theirs is None or mine.free_symbols != theirs.free_symbols or not theirs.free_symbols:
        return False
    factor = _constant_ratio(mine, theirs)
    if factor is None:
        return False
    sign = answer.signs[0] if factor.is_positive else _FLIPPED.get(answer.signs[0], "?")
    return bool(sign == gold.signs[0] and (sign in ("=", r"\ne") or factor.is_real))


def _difference(relation: Relation) -> Expr | None:
    left, right = relation.sides
    if isinstance(left, Ordered) or not isinstance(left, Quantity) or not isinstance(right, Quantity):
        return None
    if relation.signs[0] not in _FLIPPED or left.unit or right.unit:
        return None
    return to_sympy(left.value) - to_sympy(right.value)


def _constant_ratio(a: Expr, b: Expr) -> Expr | None:
    """The number c with a = c b, or None. Found at one point, then checked everywhere."""
    for shift in range(4):
        point = {
            symbol: sympy.Rational(7 + 4 * place + shift, 3 + place)
            for place, symbol in enumerate(sorted(b.free_symbols, key=str))
        }
        upper, lower = a.xreplace(point), b.xreplace(point)
        if (
            lower.is_number
            and not lower.is_zero
            and lower.is_finite
            and upper.is_finite
            and not upper.is_zero
        ):
            ratio = (
                sympy.nsimplify(upper / lower)
                if (upper / lower).is_Rational
                else sympy.simplify(upper / lower)
            )
            return ratio if same_expression(a, ratio * b) else None
    return None
