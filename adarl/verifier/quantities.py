"""Numbers with what stands beside them: units, per cent signs, currencies, bases. Read from normalised text, compared."""

import re
from fractions import Fraction

import sympy

from adarl.verifier.answers import Answer, BaseNumeral, Quantity, Ratio
from adarl.verifier.leaves import Unreadable, read_expression, read_number
from adarl.verifier.units import NotAUnit, Unit, parse_unit, same_dimension
from adarl.verifier.values import same_value, to_sympy

_BASE = re.compile(
    r"(?:\\text\{)?(?=[A-Z]*\d)([0-9A-Z]+)\}?\s*_\s*(?:\{\s*(?:\\text\{)?\s*(\d+|[a-z]+)\s*\}?\s*\}|(\d))"
)
_BASE_WORDS = dict(
    zip("two three four five six seven eight nine ten eleven twelve".split(), range(2, 13), strict=True)
)
_CURRENCY = re.compile(r"([+-]?)\s*(\\usd|[€£¥₹])\s*(.*)", re.DOTALL)
_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?|\\frac\{[^{}]*\}\{[^{}]*\}|\([^()]*\)|\\?[a-zA-Z]+)\s*\\degree")
_DEGREE_SCALE = re.compile(r"\\degree\s*(?:\\text\{\s*)?([CFK])\s*\}?\s*$")


def read_quantity(text: str) -> Quantity | BaseNumeral:
    """What a number says.

    Raises:
        Unreadable, NotAUnit: it is none.
    """
    based = _BASE.fullmatch(text)
    if based is not None:
        digits, written = based[1], based[2] or based[3]
        base = int(written) if written.isdigit() else _BASE_WORDS.get(written, 0)
        if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits):
            raise Unreadable(text)
        return BaseNumeral(digits.lstrip("0") or "0", base)
    value_text, unit = _without_unit(text)
    percent = value_text.endswith(r"\%")
    value_text = value_text.removesuffix(r"\%").strip()
    number = read_number(value_text)
    if number is not None:
        return Quantity(number[0], number[1], percent, unit)
    return Quantity(read_expression(value_text), None, percent, unit)


def _without_unit(text: str) -> tuple[str, Unit | None]:
    """The number and its unit, before (currency) or behind it."""
    currency = _CURRENCY.fullmatch(text)
    if currency is not None:
        name = "dollar" if currency[2] == r"\usd" else currency[2]
        rest, behind = _without_unit(currency[3])
        unit = parse_unit(rf"\text{{{name}}}")
        if behind is not None and behind != unit:
            raise NotAUnit(text)
        return currency[1] + rest, unit
    scale = _DEGREE_SCALE.search(text)
    if scale is not None:
        name = {"C": "celsius", "F": "fahrenheit", "K": "kelvin"}[scale[1]]
        return text[: scale.start()].strip(), parse_unit(rf"\text{{{name}}}")
    if _TRIGONOMETRIC.search(text) and r"\degree" in text:
        return _DEGREES.sub(r"(\\frac{\1 \\pi}{180})", text), None
    text = re.sub(r"\\degree\s*$", r"\\text{degree}", text)
    start = _unit_start(text)
    if start is None:
        return text.strip(), None
    value = re.sub(r"(?:\\cdot|\\times)\s*$", "", text[:start].strip()).strip()
    if not value:
        raise NotAUnit(text)
    unit = parse_unit(text[start:])
    return value, unit


def _unit_start(text: str) -> int | None:
    r"""Where the unit behind a number starts: at the first \text that is no subscript."""
    for match in re.finditer(r"(?:\\frac\{\s*(?:\d*\s*)?)?\\text\{|\\usd|[€£¥₹]", text):
        if not re.search(r"[_^]\s*\{?\s*$", text[: match.start()]):
            return match.start()
    return None


def same_quantity(answer: Quantity, gold: Quantity) -> bool:
    """Equal value; a unit may be missing or added, a different one may not, unless it converts."""
    answer_value, gold_value = answer.value, gold.value
    if answer.unit is not None and gold.unit is not None:
        if not same_dimension(answer.unit, gold.unit):
            return False
        answer_value = _times(answer_value, answer.unit.factor / gold.unit.factor)
    if answer.percent == gold.percent:
        return same_value(answer_value, gold_value, answer.printed, gold.printed)
    exact_answer = _times(answer_value, Fraction(1, 100)) if answer.percent else answer_value
    exact_gold = _times(gold_value, Fraction(1, 100)) if gold.percent else gold_value
    if same_value(exact_answer, exact_gold, answer.printed, gold.printed):
        return True
    # A % sign missing or added is like a unit, where the bare number cannot be meant as a share.
    bare = gold_value if answer.percent else answer_value
    is_no_share = isinstance(bare, Fraction) and abs(bare) > 1 and answer.unit is None and gold.unit is None
    return is_no_share and same_value(answer_value, gold_value, answer.printed, gold.printed)


def _times(value: Fraction | sympy.Expr, factor: Fraction) -> Fraction | sympy.Expr:
    if factor == 1:
        return value
    return value * factor if isinstance(value, Fraction) else value * to_sympy(factor)


def as_share(ratio: Ratio) -> Quantity | None:
    """a:b as the fraction a/b; a time of day is none."""
    if ratio.clock or len(ratio.parts) != 2:
        return None
    upper, lower = ratio.parts
    if not (isinstance(upper, Quantity) and isinstance(lower, Quantity)):
        return None
    if upper.unit or lower.unit or upper.percent or lower.percent:
        return None  # 10:30 am is no fraction
    if not (isinstance(upper.value, Fraction) and isinstance(lower.value, Fraction)) or lower.value == 0:
        return None
    return Quantity(upper.value / lower.value)


def same_numeral(answer: Answer, gold: Answer) -> bool:
    """Digits and base; the base may be missing, as a unit may."""
    if isinstance(answer, BaseNumeral) and isinstance(gold, BaseNumeral):
        return answer == gold
    if isinstance(answer, BaseNumeral) and isinstance(gold, Quantity):
        return (
            answer.base == 10
            and gold.value == int(answer.digits)
            and gold.printed is None
            and not gold.percent
        )
    if isinstance(gold, BaseNumeral) and isinstance(answer, Quantity) and isinstance(answer.value, Fraction):
        return answer.printed is None and not answer.percent and str(answer.value) == gold.digits
    return False
