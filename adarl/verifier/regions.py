"""Answers as sympy sets of real numbers: intervals, unions, solutions of an inequality in one variable."""

from fractions import Fraction
from functools import lru_cache

import sympy
from sympy import Expr, Interval, Rational, Set

from adarl.verifier.answers import Answer, Both, Collection, Ordered, Quantity, Region, Relation

_MAX_POINTS = 40  # of a set of single numbers that is joined with others
_SIGNS = {"<": sympy.Lt, ">": sympy.Gt, r"\le": sympy.Le, r"\ge": sympy.Ge, r"\ne": sympy.Ne, "=": sympy.Eq}


def to_region(answer: Answer) -> Set | None:
    """The set of numbers an answer describes, None if it describes none."""
    if isinstance(answer, Region):
        return answer.members
    if isinstance(answer, Ordered):
        return _interval(answer)
    if isinstance(answer, Both | Collection) and len(_variables(answer)) > 1:
        return None  # x < 4, y < 4 is about pairs
    if isinstance(answer, Collection):
        return _collection(answer)
    if isinstance(answer, Relation):
        return _solutions(answer)
    if isinstance(answer, Both):
        parts = [to_region(part) for part in answer.relations]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        together = sympy.Intersection(*known)
        # "x < 2, x > 5" cannot mean both at once: then it lists cases.
        return sympy.Union(*known) if together.is_empty else together
    return None


def variable_of(answer: Answer) -> str | None:
    """The name of the one variable that an inequality or membership is about."""
    names = _variables(answer)
    return next(iter(names)) if len(names) == 1 else None


def _variables(answer: Answer) -> frozenset[str]:
    if isinstance(answer, Relation):
        return frozenset(str(symbol) for side in answer.sides for symbol in _symbols(side))
    if isinstance(answer, Both | Collection):
        parts = answer.relations if isinstance(answer, Both) else answer.items
        return frozenset[str]().union(*(_variables(part) for part in parts))
    return frozenset()


def _symbols(answer: Answer) -> set[sympy.Symbol]:
    if isinstance(answer, Quantity) and isinstance(answer.value, Expr):
        return set(answer.value.free_symbols)
    return set()


def _exact(answer: Answer) -> Expr | None:
    if not isinstance(answer, Quantity):
        return None
    value = answer.value
    exact = Rational(value.numerator, value.denominator) if isinstance(value, Fraction) else value
    return exact / 100 if answer.percent else exact


def _interval(answer: Ordered) -> Set | None:
    ends = [_exact(item) for item in answer.items]
    if len(ends) != 2 or answer.opening not in "([" or answer.closing not in ")]":
        return None
    start, end = ends
    if start is None or end is None or start.free_symbols or end.free_symbols:
        return None
    if start.has(sympy.nan, sympy.zoo, sympy.I) or end.has(sympy.nan, sympy.zoo, sympy.I):
        return None
    if not (start.is_extended_real and end.is_extended_real):
        return None
    return Interval(start, end, answer.opening == "(", answer.closing == ")")


def _collection(answer: Collection) -> Set | None:
    if any(isinstance(item, Relation | Both) for item in answer.items):
        parts = [to_region(item) for item in answer.items]
        known = [part for part in parts if part is not None]
        return sympy.Union(*known) if len(known) == len(parts) else None
    if len(answer.items) > _MAX_POINTS:
        return None
    values = [_exact(item) for item in answer.items]
    known_values = [value for value in values if value is not None]
    if len(known_values) < len(values):
        return None
    return sympy.FiniteSet(*known_values)


@lru_cache(maxsize=2048)
def _solutions(answer: Relation) -> Set | None:
    r"""Solution set of a chain of inequalities in one real variable, or of x \in S."""
    if answer.signs in ((r"\in",), (r"\notin",)):
        members = to_region(answer.sides[1])
        if members is not None and answer.signs[0] == r"\notin":
            return sympy.Complement(sympy.S.Reals, members)
        return members
    sides = [_exact(side) for side in answer.sides]
    if any(side is None for side in sides) or not set(answer.signs) <= set(_SIGNS):
        return None
    known = [side for side in sides if side is not None]
    symbols = set().union(*(side.free_symbols for side in known))
    if len(symbols) != 1 or any(side.has(sympy.I, sympy.nan, sympy.zoo) for side in known):
        return None
    variable = sympy.Symbol("x", real=True)
    values = [side.xreplace({next(iter(symbols)): variable}) for side in known]
    parts = [
        _half_line(_SIGNS[sign](left, right), variable)
        for sign, left, right in zip(answer.signs, values, values[1:], strict=False)
    ]
    solved = [part for part in parts if part is not None]
    return sympy.Intersection(*solved) if len(solved) == len(parts) else None


def _half_line(relation: sympy.Basic, variable: sympy.Symbol) -> Set | None:
    if relation in (sympy.true, sympy.false):
        return sympy.S.Reals if relation == sympy.true else sympy.S.EmptySet
    if isinstance(relation, sympy.Eq):
        solutions = sympy.solveset(relation, variable, sympy.S.Reals)
        return solutions if isinstance(solutions, sympy.FiniteSet) else None
    try:
        return sympy.solve_univariate_inequality(relation, variable, relational=False)
    except (NotImplementedError, TypeError, ValueError):
        return None  # sympy cannot solve it: compared by its sides instead
