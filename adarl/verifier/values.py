"""When two numbers or expressions have the same value.

Rationals are compared exactly. Everything else is evaluated: constants to 60 digits, which refutes almost
every wrong answer at once, and what survives is confirmed by sympy or to 1,000 digits; expressions with
variables at fixed points, exactly where that is possible. Nothing is random, so a verdict never changes.
"""

from fractions import Fraction
from functools import lru_cache

import sympy
from sympy import Expr, Integer, Rational

from adarl.verifier.answers import Printed
from adarl.verifier.leaves import symbols_of
from adarl.verifier.magnitudes import TooLarge, check

# Of a gold that is itself a decimal: |answer - gold| <= RELATIVE_TOLERANCE * |gold|.
RELATIVE_TOLERANCE = Fraction(1, 10**6)
# A closed form may also round to a decimal gold that prints at least this many significant digits.
ROUNDED_DIGITS = 4

_DIGITS = 60
_CONFIRMING_DIGITS = 1_000
_NEAR = sympy.Float(10, 15) ** -45  # relative difference that 60 digits surely resolve
_CONFIRMING_NEAR = sympy.Float(10, 15) ** -950
_POINT_NEAR = sympy.Float(10, 15) ** -40

# Values of the n-th variable at each point: rationals without pattern, some negative.
_POINTS = 7
_NUMERATORS = (7, -11, 13, 17, -5, 29, 23, -31, 37, 19, 41, -43)
_DENOMINATORS = (5, 9, 8, 11, 3, 16, 7, 10, 27, 13, 25, 6)
_INTEGER_POINTS = 24
_ROUNDING = (sympy.floor, sympy.ceiling)
_WHOLE_NAMES = frozenset("n m k i j N M K p q".split())
_INTEGER_FUNCTIONS = (sympy.floor, sympy.ceiling, sympy.factorial, sympy.binomial, sympy.Mod)


def same_value(
    answer: Fraction | Expr,
    gold: Fraction | Expr,
    answer_printed: Printed | None,
    gold_printed: Printed | None,
) -> bool:
    """Whether the answer has the gold's value; only a gold that is a decimal is compared with tolerance."""
    if isinstance(answer, Fraction) and isinstance(gold, Fraction):
        return answer == gold or _within(answer, gold, answer_printed, gold_printed)
    if isinstance(gold, Fraction) and isinstance(answer, Expr) and not answer.free_symbols and gold_printed:
        value = _real_value(answer)
        if value is not None and _within(value, gold, answer_printed, gold_printed):
            return True
    return same_expression(to_sympy(answer), to_sympy(gold))


def _within(
    answer: Fraction, gold: Fraction, answer_printed: Printed | None, gold_printed: Printed | None
) -> bool:
    if gold_printed is None:
        return False
    difference = abs(answer - gold)
    if difference > gold_printed.half_place:
        return False
    if difference <= RELATIVE_TOLERANCE * abs(gold):
        return True
    return answer_printed is None and answer.denominator != 1 and gold_printed.significant >= ROUNDED_DIGITS


def _real_value(expression: Expr) -> Fraction | None:
    try:
        value = expression.evalf(30)
    except _CANNOT_TELL:
        return None
    if isinstance(value, sympy.Float) and value.is_finite:
        return Fraction(str(value))
    return Fraction(int(value)) if isinstance(value, Integer) else None


def to_sympy(value: Fraction | Expr) -> Expr:
    return Rational(value.numerator, value.denominator) if isinstance(value, Fraction) else value


# What sympy raises where it cannot evaluate or compare: then equality is not shown.
_CANNOT_TELL = (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError)


@lru_cache(maxsize=16384)
def same_expression(a: Expr, b: Expr) -> bool:
    """Whether two expressions are equal wherever both are defined over the reals."""
    try:
        return _equal(a, b)
    except _CANNOT_TELL:
        return False


def _equal(a: Expr, b: Expr) -> bool:
    if a == b:
        return not a.has(sympy.nan, sympy.zoo)
    if any(expression.has(sympy.nan, sympy.zoo) for expression in (a, b)):
        return False
    symbols = symbols_of((a, b))
    return _same_function(a, b, symbols) if symbols else same_constant(a, b)


def same_constant(a: Expr, b: Expr) -> bool:
    """Two expressions without variables: refuted by 60 digits, confirmed exactly or by 1,000 digits."""
    if a.is_infinite or b.is_infinite or a.has(sympy.oo, -sympy.oo) or b.has(sympy.oo, -sympy.oo):
        return bool(sympy.simplify(a) == sympy.simplify(b))
    near = _near(evaluated(a, _DIGITS), evaluated(b, _DIGITS), _NEAR)
    if not near:
        return False
    difference = (a - b).doit()
    if difference.is_Rational:
        return bool(difference == 0)
    simplified = sympy.simplify(difference)
    if simplified.is_Rational or simplified.is_zero is not None:
        return bool(simplified.is_zero)
    return bool(_near(a.evalf(_CONFIRMING_DIGITS), b.evalf(_CONFIRMING_DIGITS), _CONFIRMING_NEAR))


@lru_cache(maxsize=16384)
def evaluated(constant: Expr, digits: int) -> Expr:
    return constant.evalf(digits)


def _near(a: Expr, b: Expr, tolerance: sympy.Float) -> bool | None:
    """Whether two evaluated numbers agree relative to the larger one; None where one is no number."""
    if not (a.is_number and b.is_number) or a.has(sympy.nan, sympy.zoo) or b.has(sympy.nan, sympy.zoo):
        return None
    scale = max(_size(a), _size(b))
    return bool(_size(a - b) <= tolerance * scale)


def _size(number: Expr) -> Expr:
    return sympy.Abs(number).evalf(15)


def _same_function(a: Expr, b: Expr, symbols: list[sympy.Symbol]) -> bool:
    needs_integers = _needs_integers(a) or _needs_integers(b)
    if needs_integers and (a.has(*_ROUNDING) or b.has(*_ROUNDING)):
        # A rounded x is not x, nor are its floor and its ceiling the same; n is a whole number by its name.
        whole = all(symbol.name in _WHOLE_NAMES for symbol in symbols)
        if not whole and any(_equal_at(a, b, point) is False for point in _points(symbols, False)):
            return False
    agreed = 0
    for point in _points(symbols, needs_integers):
        equal = _equal_at(a, b, point)
        if equal is False:
            return False
        agreed += equal is True
    return agreed >= (8 if needs_integers else 2)


def _needs_integers(expression: Expr) -> bool:
    """Whether an expression is meant for whole numbers only: floors, factorials, (-1)^n."""
    if expression.has(*_INTEGER_FUNCTIONS):
        return True
    return any(
        power.exp.free_symbols and power.base.is_number and power.base.is_negative
        for power in expression.atoms(sympy.Pow)
    )


def _points(symbols: list[sympy.Symbol], integers: bool) -> list[dict[sympy.Symbol, Rational]]:
    """Fixed values for the variables, other ones in each point."""
    if integers:
        # Each variable runs through small whole numbers, later ones lower, as n and k of a binomial do.
        return [
            {symbol: Integer(max(1, (start + 12 * (len(symbols) > 1)) - 3 * place - (start * place) % 4))
             for place, symbol in enumerate(symbols)}
            for start in range(1, _INTEGER_POINTS + 1)
        ]  # fmt: skip
    signs = [1, 1, 1, 0, 0, 0, 0]  # three points are all positive, for roots and logarithms
    points = []
    for index in range(_POINTS):
        point = {}
        for place, symbol in enumerate(symbols):
            at = (index * 5 + place * 7 + index * place) % len(_NUMERATORS)
            numerator = _NUMERATORS[at] + place // len(_NUMERATORS)
            point[symbol] = Rational(
                abs(numerator) if signs[index] else numerator, _DENOMINATORS[(at + index) % 12]
            )
        points.append(point)
    return points


def _equal_at(a: Expr, b: Expr, point: dict[sympy.Symbol, Rational]) -> bool | None:
    """Whether both have the same value at a point; None where one is not defined over the reals there."""
    try:
        check(a, point)
        check(b, point)
    except TooLarge:
        return None
    if any(_leaves_the_reals(expression, point) for expression in (a, b) if not expression.has(sympy.I)):
        return None
    values = [expression.xreplace(point) for expression in (a, b)]
    left, right = values
    if left.is_Rational and right.is_Rational:
        return bool(left == right)
    if any(value.has(sympy.nan, sympy.zoo, sympy.oo) for value in values):
        return None
    return _near(left.evalf(_DIGITS), right.evalf(_DIGITS), _POINT_NEAR)


def _leaves_the_reals(expression: Expr, point: dict[sympy.Symbol, Rational]) -> bool:
    """Whether a root or logarithm of a negative number occurs in the expression at this point."""
    for part in expression.atoms(sympy.Pow, sympy.log):
        base, exponent = part.as_base_exp() if isinstance(part, sympy.Pow) else (part.args[0], None)
        if exponent is not None and (exponent.is_Integer or exponent.xreplace(point).is_Integer):
            continue
        at_point = base.xreplace(point)
        if at_point.is_negative or (
            at_point.is_number and not at_point.is_Rational and at_point.evalf(15).is_negative
        ):
            return True
        if at_point.has(sympy.I):
            return True
    return False
