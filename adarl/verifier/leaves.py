"""One expression without commas, relations or sets: LaTeX -> an exact number or a sympy expression.

Plain numbers are read here. Everything else goes to latex2sympy (the parser of math-verify), which builds
sympy trees from a grammar: no text ever reaches `sympify`, `eval` or `exec`.
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy
from sympy.core.function import AppliedUndef

from adarl.verifier.answers import Printed
from adarl.verifier.guards import leaf_refusal
from adarl.verifier.magnitudes import TooLarge, check


class Unreadable(ValueError):
    """The text is not an expression, or one that is too large to be looked at."""


_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"([+-]?)(\d*)\.(\d*)")
_FRACTION = re.compile(r"([+-]?)\\frac\{([+-]?\d+(?:\.\d+)?)\}\{([+-]?\d+(?:\.\d+)?)\}")
_SLASH = re.compile(r"([+-]?\d+\.?)\s*/\s*([+-]?\d+\.?)")
_MIXED = re.compile(r"([+-]?)(\d+)\s*(?:\\frac\{(\d+)\}\{(\d+)\}|(?<=\d)\s(\d+)\s*/\s*(\d+))")
_SCIENTIFIC = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))\s*(?:[eE]([+-]?\d+)|(?:\\times|\\cdot|\*)\s*10\s*\^\s*(?:\{\s*([+-]?\d+)\s*\}|(\d)))"
)
_REPEATING = re.compile(r"([+-]?)(\d*)\.(\d*)\\(?:overline|dot)\s*\{(\d+)\}")
_MIXED_INSIDE = re.compile(r"(?<![\w.^_}])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}")
_REPEATING_INSIDE = re.compile(r"(\d*)\.(\d*)\\(?:overline|dot)\s*\{(\d+)\}")
_E_NOTATION_INSIDE = re.compile(r"(\d+\.?\d*|\.\d+)[eE]([+-]?\d+)")
# Numbers with a gap between them are no product, `4 10/3` is no mixed number, a number has no index and no prime.
_GAP = re.compile(r"\d\.?\s+[\d.]|(?<![_^{\d])\d+\s*[_']")
# An unevaluated sum is a restatement of the problem; extrema and the like are not evaluated either.
_BIG = re.compile(
    r"\\(?:sum|prod|int|iint|oint|lim|max|min|sup|inf|gcd|lcm|limsup|liminf|bigcup|bigcap|arg|argmax|argmin)(?![a-zA-Z])"
)
_DERIVATIVE = re.compile(
    r"\\frac\{d(?:\^\{?(\d)\}?)?\s*([a-zA-Z](?:_\{?\w+\}?)?)\}\{d\s*([a-zA-Z])(?:\^\{?\d\}?)?\}"
)
_PRIMES = re.compile(r"([a-zA-Z])\s*(?:\^\s*\{\s*('+)\s*\}|('+))")
_DOTS = re.compile(r"\\(ddot|dot)\{(\\?[a-zA-Z]+\s*)\}\s*((?:_\s*\{\s*\w+\s*\})?)")
# The grammar knows E and e only as constants and refuses them with a subscript.
_SUBSCRIPTED_E = re.compile(r"(\\[a-zA-Z]+)|([Ee])\s*_\s*\{?\s*(\w+)\s*\}?")
_ALLOWED = re.compile(r"[\x20-\x7e]*")
_CONFIG = ConversionConfig(interpret_as_mixed_fractions=False, lowercase_symbols=False)
# `2^3^2` and `1\frac{5}{3}` can be read in two ways: then they are not read.
_STACKED = re.compile(r"\^\s*(?:\{[^{}]*\}|\w)\s*\^")


class _Converter(_Latex2Sympy):
    """The grammar's trees with plain products: `2(3)` is 6, where the original takes it for a mixed number and adds."""

    def convert_postfix_list(self, arr, i=0):  # type: ignore[no-untyped-def]
        first = self.convert_postfix(arr[i])
        if i == len(arr) - 1:
            return first
        rest = self.convert_postfix_list(arr, i + 1)
        if not isinstance(first, sympy.Expr) or not isinstance(rest, sympy.Expr):
            raise Unreadable("a product of no expressions")
        return self.mul_flat(first, rest)


def read_number(text: str) -> tuple[Fraction, Printed | None] | None:
    """The exact value of a plain number and how it was printed if it is a decimal; None for anything else."""
    text = text.strip().replace(" \\frac", "\\frac")
    if _INTEGER.fullmatch(text):
        return Fraction(int(text)), None
    if (match := _DECIMAL.fullmatch(text)) is not None and match[2] + match[3]:
        return _decimal(match[1], match[2], match[3], 0)
    if (match := _FRACTION.fullmatch(text)) is not None and Fraction(match[3]) != 0:
        value = Fraction(match[2]) / Fraction(match[3])
        return (-value if match[1] == "-" else value), None
    if (match := _SLASH.fullmatch(text)) is not None and int(match[2].rstrip(".")) != 0:
        return Fraction(int(match[1].rstrip(".")), int(match[2].rstrip("."))), None
    if (match := _MIXED.fullmatch(text)) is not None:
        whole, upper, lower = int(match[2]), int(match[3] or match[5]), int(match[4] or match[6])
        if not 0 < upper < lower:
            return None
        value = whole + Fraction(upper, lower)
        return (-value if match[1] == "-" else value), None
    if (match := _SCIENTIFIC.fullmatch(text)) is not None:
        return _scientific(match)
    if (match := _REPEATING.fullmatch(text)) is not None:
        value = _repeating(match[2], match[3], match[4])
        return (-value if match[1] == "-" else value), None
    return None


def _decimal(sign: str, whole: str, digits: str, exponent: int) -> tuple[Fraction, Printed | None]:
    value = Fraction(int((whole + digits) or "0")) * Fraction(10) ** (exponent - len(digits))
    significant = len((whole + digits).lstrip("0"))
    place = Fraction(10) ** (exponent - len(digits))
    return (-value if sign == "-" else value), Printed(significant, place / 2)


def _scientific(match: re.Match[str]) -> tuple[Fraction, Printed | None] | None:
    mantissa, exponent = match[1], int(match[2] or match[3] or match[4])
    if abs(exponent) > 1000:
        return None
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, digits = mantissa.lstrip("+-").partition(".")
    return _decimal(sign, whole, digits, exponent)


def _repeating(whole: str, fixed: str, repeated: str) -> Fraction:
    """0.1\\overline{6} = (16 - 1) / 90."""
    nines = (10 ** len(repeated) - 1) * 10 ** len(fixed)
    fractional = Fraction(int(fixed + repeated) - int(fixed or "0"), nines)
    return int(whole or "0") + fractional


@lru_cache(maxsize=8192)
def read_expression(latex: str) -> sympy.Expr:
    """The sympy expression of normalised LaTeX, unevaluated where evaluation could be large."""
    reason = leaf_refusal(latex)
    if reason:
        raise Unreadable(reason)
    if (
        not latex
        or not _ALLOWED.fullmatch(latex)
        or _BIG.search(latex)
        or _GAP.search(latex)
        or _STACKED.search(latex)
    ):
        raise Unreadable(f"{latex!r} is not an expression")
    prepared = _prepared(latex)
    try:
        tree = _Converter(is_real=False, config=_CONFIG).parse(prepared)
        if not isinstance(tree, sympy.Expr) or isinstance(tree, sympy.MatrixBase):
            raise Unreadable(f"{latex!r} is not an expression")
        check(tree)
        tree = _with_constants(tree)
        tree.free_symbols  # noqa: B018  # some of the grammar's trees are broken inside and fail here
    except (MemoryError, RecursionError, Unreadable):
        raise
    except TooLarge as error:
        raise Unreadable(str(error)) from error
    except Exception as error:  # the grammar raises bare Exceptions
        raise Unreadable(f"{latex!r} cannot be parsed") from error
    return tree


def _prepared(latex: str) -> str:
    """The forms that the grammar reads otherwise, spelled out."""
    latex = _REPEATING_INSIDE.sub(
        lambda m: rf"({_repeating(m[1], m[2], m[3]).numerator}/{_repeating(m[1], m[2], m[3]).denominator})",
        latex,
    )
    latex = _MIXED_INSIDE.sub(_mixed, latex)
    latex = _E_NOTATION_INSIDE.sub(r"(\1\\cdot 10^{\2})", latex)
    latex = re.sub(r"(\d)\.(?!\d)", r"\1", latex)
    # Decimals as exact fractions: a binary float would be another number.
    latex = re.sub(r"(\d*)\.(\d+)", lambda m: rf"\frac{{{m[1]}{m[2]}}}{{1{'0' * len(m[2])}}}", latex)
    latex = re.sub(r"\\log\s*_\s*\{?\s*e\s*\}?", r"\\ln ", latex)
    latex = _DERIVATIVE.sub(lambda m: rf"{_name('D', m[3] * int(m[1] or 1), m[2])}", latex)
    latex = _DOTS.sub(lambda m: _name("D", "t" * (2 if m[1] == "ddot" else 1), m[2] + m[3]), latex)
    latex = _PRIMES.sub(lambda m: _name("P", "p" * len(m[2] or m[3]), m[1]), latex)
    latex = _SUBSCRIPTED_E.sub(lambda m: m[1] or _name("X", m[3], m[2]), latex)
    latex = re.sub(r"\\text\{([^{}]*)\}", lambda m: _subscript_word(m[1]), latex)
    latex = latex.replace("\\{", "(").replace("\\}", ")").replace("[", "(").replace("]", ")")
    latex = re.sub(r"\\sqrt\s*\((\d+)\)\s*\{", r"\\sqrt[\1]{", latex)
    return latex.strip()


def _mixed(match: re.Match[str]) -> str:
    if int(match[2]) >= int(match[3]):
        raise Unreadable(f"{match[0]!r} is no mixed number")
    return rf"({match[1]}+\frac{{{match[2]}}}{{{match[3]}}})"


def _name(kind: str, marks: str, letter: str) -> str:
    """A symbol of its own, for a derivative for example: its value is unknown, its identity is what counts."""
    return rf" {kind}_{{{re.sub(r'[^a-zA-Z0-9]', '', letter)}{marks}}} "


def _subscript_word(words: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9 ]+", words):
        raise Unreadable(f"{words!r} is not part of an expression")
    return words.replace(" ", "")


def _with_constants(tree: sympy.Expr) -> sympy.Expr:
    """e and i as the constants, every other symbol complex and plain, undefined functions as symbols."""
    mapping: dict[sympy.Basic, sympy.Basic] = {}
    for symbol in tree.free_symbols:
        name = str(symbol)
        mapping[symbol] = {"e": sympy.E, "i": sympy.I}.get(name, sympy.Symbol(name))
    for function in tree.atoms(AppliedUndef):
        mapping[function] = sympy.Symbol(f"<{function}>")
    return tree.xreplace(mapping)


def symbols_of(expressions: Iterable[sympy.Expr]) -> list[sympy.Symbol]:
    """The free symbols of all expressions in a fixed order."""
    found: set[sympy.Symbol] = set()
    for expression in expressions:
        found |= expression.free_symbols
    return sorted(found, key=lambda symbol: symbol.name)
