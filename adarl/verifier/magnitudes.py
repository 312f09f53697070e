"""How large the parts of a parsed expression are, estimated before anything is evaluated.

`guards` refuses by text alone; this looks at the tree, where a tower hides behind brackets or functions, and at
the point where an expression with variables is about to be evaluated.
"""

import math
from collections.abc import Mapping

import sympy
from sympy import Basic

from adarl.verifier.guards import MAX_FACTORIAL

MAX_LOG10 = 20_000.0  # digits before or behind the point that any part may have
_MAX_EXPONENT_LOG10 = 5.0  # of an exponent
_MAX_ARGUMENT_LOG10 = 1_000.0  # of sin, cos and the like: as many digits have to be known
_MAX_FLOOR_LOG10 = 50.0  # of what is rounded
_VARIABLE_LOG10 = 0.5  # of a variable without a value
_ROUNDING = (sympy.floor, sympy.ceiling)


class TooLarge(ValueError):
    """A part of the expression is too large to be evaluated."""


def check(expression: Basic, point: Mapping[sympy.Symbol, sympy.Rational] | None = None) -> None:
    """Raises TooLarge if a part of the expression is out of bounds, with the variables as in `point`."""
    _log10(expression, point or {})


def _log10(node: Basic, point: Mapping[sympy.Symbol, sympy.Rational]) -> float:
    """Rough upper bound of |log10 |node||."""
    bound = _bound(node, point)
    if not bound <= MAX_LOG10:
        raise TooLarge(f"a part of the expression has more than {MAX_LOG10:.0f} digits")
    return bound


def _bound(node: Basic, point: Mapping[sympy.Symbol, sympy.Rational]) -> float:
    if isinstance(node, sympy.Symbol):
        return _of_number(point[node]) if node in point else _VARIABLE_LOG10
    if isinstance(node, sympy.Number):
        return _of_number(node)
    parts = [_log10(argument, point) for argument in node.args]
    if isinstance(node, sympy.Pow | sympy.exp):
        base, exponent = (
            (parts[0], parts[1]) if isinstance(node, sympy.Pow) else (math.log10(math.e), parts[0])
        )
        if exponent > _MAX_EXPONENT_LOG10:
            raise TooLarge("an exponent is too large")
        return max(base, 0.5 * bool(parts)) * 10**exponent
    if isinstance(node, sympy.Mul):
        return sum(parts)
    if isinstance(node, sympy.Add):
        return max(parts) + math.log10(len(parts))
    if isinstance(node, sympy.factorial | sympy.binomial):
        limit = MAX_FACTORIAL * (1 if isinstance(node, sympy.factorial) else 10)
        if max(parts) > math.log10(limit) + 0.01:
            raise TooLarge("a factorial or binomial is taken of a huge number")
        return 10 ** max(parts) * max(1.0, max(parts))
    if isinstance(node, _ROUNDING) and parts[0] > _MAX_FLOOR_LOG10:
        raise TooLarge("a huge number is rounded")
    if isinstance(node, sympy.Function) and parts and max(parts) > _MAX_ARGUMENT_LOG10:
        raise TooLarge("a function is taken of a huge number")
    return max(parts, default=1.0)


def _of_number(number: sympy.Number) -> float:
    if not number.is_Rational or number == 0:
        return 1.0
    upper, lower = abs(int(number.p)).bit_length(), int(number.q).bit_length()
    if upper <= 60 and lower <= 60:
        return max(abs(math.log10(abs(int(number.p)))), math.log10(int(number.q)))
    return max(upper, lower) * math.log10(2)
