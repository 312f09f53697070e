"""Units and labels behind a number: `cm^2`, `\\frac{km}{h}`, `square inches`, `apples`, `dollars`."""

import re
from dataclasses import dataclass
from fractions import Fraction

# name -> (dimension, how many of the dimension's base unit). Only units that textbooks use.
_TABLE: dict[str, tuple[str, Fraction]] = {}


def _add(dimension: str, factor: str | int | Fraction, names: str) -> None:
    for name in names.split():
        _TABLE[name] = (dimension, Fraction(factor))


_add("length", 1, "m meter metre")
_add("length", 1000, "km kilometer kilometre")
_add("length", "1/10", "dm decimeter decimetre")
_add("length", "1/100", "cm centimeter centimetre")
_add("length", "1/1000", "mm millimeter millimetre")
_add("length", "1/1000000", "µm micrometer micrometre micron")
_add("length", "1/1000000000", "nm nanometer nanometre")
_add("length", "0.0254", "in inch inche")
_add("length", "0.3048", "ft foot feet")
_add("length", "0.9144", "yd yard")
_add("length", "1609.344", "mi mile")
_add("time", 1, "s sec second")
_add("time", "1/1000", "ms millisecond msec")
_add("time", "1/1000000", "µs microsecond")
_add("time", "1/1000000000", "ns nanosecond")
_add("time", 60, "min minute")
_add("time", 3600, "h hr hour")
_add("time", 86400, "day")
_add("time", 604800, "week wk")
_add("month", 1, "month")
_add("month", 12, "year yr")
_add("mass", 1, "g gram gm")
_add("mass", 1000, "kg kilogram")
_add("mass", "1/1000", "mg milligram")
_add("mass", 1_000_000, "tonne")
_add("mass", "453.59237", "lb pound")
_add("mass", "28.349523125", "oz ounce")
_add("volume", 1, "l L liter litre")
_add("volume", "1/1000", "ml mL milliliter millilitre cc")
_add("volume", "3.785411784", "gal gallon")
_add("dollar", 1, "dollar usd buck")
_add("dollar", "1/100", "cent penny")
_add("dollar", "1/20", "nickel")
_add("dollar", "1/10", "dime")
_add("euro", 1, "euro eur €")
_add("pound sterling", 1, "£ gbp")
_add("yen", 1, "¥ yen")
_add("rupee", 1, "₹ rupee")
_add("degree", 1, "degree deg")
_add("radian", 1, "radian rad")
_add("celsius", 1, "celsius")
_add("fahrenheit", 1, "fahrenheit")
_add("kelvin", 1, "kelvin K")
_add("force", 1, "N newton")
_add("energy", 1, "J joule")
_add("energy", 1000, "kJ")
_add("energy", "1/10000000", "erg")
_add("energy", "1.602176634e-19", "eV")
_add("power", 1, "W watt")
_add("power", 1000, "kW")
_add("frequency", 1, "Hz hertz")
_add("pressure", 1, "Pa pascal")
_add("voltage", 1, "V volt")
_add("current", 1, "A ampere amp")
_add("resistance", 1, "ohm")
_add("amount", 1, "mol mole")
_add("charge", 1, "C coulomb")
_add("capacitance", 1, "F farad")
_add("magnetic field", 1, "T tesla")
_add("inductance", 1, "H henry")

_ABBREVIATIONS = {"mph": "mi/h", "kph": "km/h", "kmph": "km/h", "kmh": "km/h", "sqft": "ft^2"}
# Bare letters are products of variables; only these are read as units without \text.
BARE_UNITS = frozenset(
    "km cm mm dm kg mg ft lb oz ml mL mph kph kmph nm Hz kHz kJ kW Pa eV mol sec hr".split()
)
# A plain measure without a kind: says no more than no unit at all.
_EMPTY = {"unit", "sq unit"}
# Words that change what is stated. A label holding one of them is a sentence, not a unit.
_SENTENCE_WORDS = frozenset(
    "is are was be not no isn't wrong incorrect false true or and but if than then else except minus plus times "
    "divided least most more less only either neither maybe perhaps approximately about correct answer it "
    "instead should must would could because since so squared cubed factorial half halves third thirds fourths fifths "
    "sixths sevenths eighths ninths tenth tenths hundredth hundredths thousandth thousandths root pi over negative "
    "choose mod modulo to through one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred".split()
)
SCALES = {
    "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
_IRREGULAR = {"feet": "foot", "inches": "inch", "men": "man", "women": "woman", "people": "person",
              "pennies": "penny", "children": "child"}  # fmt: skip
_FRACTION = re.compile(r"\\frac\s*\{(.*)\}\s*\{(.*)\}")
_TOKEN = re.compile(r"\\cdot|\\times|\\mu|\\text\{([^{}]*)\}|\^\s*\{?\s*(-?\d)\s*\}?|([*/])|(\S)")


@dataclass(frozen=True)
class Unit:
    """A product of powers: dimension or label -> exponent, and its size in base units."""

    powers: frozenset[tuple[str, int]]
    factor: Fraction


def is_bare_unit(word: str) -> bool:
    """Whether letters behind a number are a unit without \\text: km, hrs, USD, but not ab or m."""
    if word in BARE_UNITS or (word.endswith("s") and word[:-1] in BARE_UNITS):
        return True
    return len(word) >= 3 and _singular(word) in _TABLE


class NotAUnit(ValueError):
    """The text is more than a unit or a label."""


def parse_unit(latex: str) -> Unit | None:
    """The unit written in `latex`, None if it says nothing; raises NotAUnit where it is no unit at all."""
    fraction = _FRACTION.fullmatch(latex.strip())
    if fraction is not None:
        upper, lower = parse_unit(fraction[1]), parse_unit(fraction[2])
        return _merged([(upper, 1), (lower, -1)])
    parts: list[tuple[Unit | None, int]] = []
    sign = 1
    for words, exponent, operator, other in _TOKEN.findall(latex):
        if exponent:
            if not parts:
                raise NotAUnit(latex)
            unit, power = parts[-1]
            parts[-1] = (unit, power * int(exponent))
        elif operator == "/":
            sign = -1
        elif words:
            for name, power in _factors(words):
                parts.append((_named(name), sign * power))
            sign = 1
        elif other in _TABLE and "\\text{" in latex:  # km/h, where the h lost its \text
            parts.append((_named(other), sign))
            sign = 1
        elif other and other not in "{}":
            raise NotAUnit(latex)
    return _merged(parts)


def same_dimension(a: Unit, b: Unit) -> bool:
    """The same kind of quantity; labels of things may be longer on one side (apples, red apples)."""
    if a.powers == b.powers:
        return True
    labels_a, labels_b = _label_words(a), _label_words(b)
    return bool(labels_a and labels_b) and (labels_a <= labels_b or labels_b <= labels_a)


def _label_words(unit: Unit) -> frozenset[str]:
    """The words of a pure label, empty for measured units."""
    if len(unit.powers) != 1:
        return frozenset()
    ((name, power),) = unit.powers
    return frozenset(name[1:].split()) if power == 1 and name.startswith("#") else frozenset()


def _factors(words: str) -> list[tuple[str, int]]:
    """`square feet per second` -> [('feet', 2), ('second', -1)]."""
    words = words.replace("~", " ").strip().rstrip(".")
    for short, long in _ABBREVIATIONS.items():
        words = re.sub(rf"\b{short}\b", long, words)
    found: list[tuple[str, int]] = []
    sign = 1
    for part in re.split(r"(\s+per\s+|^per\s+|/)", words):
        if part.strip() in ("per", "/"):
            sign = -1
            continue
        power = re.search(r"(?:\^\s*\{?\s*(\d)\s*\}?|(?<=[a-z])([23]))\s*$", part)
        name = part[: power.start()] if power else part
        exponent = int(power[1] or power[2]) if power else 1
        for prefix, times in (("square", 2), ("sq.", 2), ("sq", 2), ("cubic", 3), ("cu.", 3), ("cu", 3)):
            if name.strip().startswith(prefix + " "):
                name, exponent = name.strip()[len(prefix) :], times
        if name.strip().endswith(" squared"):
            name, exponent = name.strip()[: -len(" squared")], 2
        if name.strip().endswith(" cubed"):
            name, exponent = name.strip()[: -len(" cubed")], 3
        *factors, last = name.split() or [""]
        if factors and all(one in _TABLE for one in (*factors, last)):  # m s^{-1}
            found += [(one, sign) for one in factors]
            name = last
        if name.strip():
            found.append((name.strip(), sign * exponent))
        sign = 1
    return found


def _named(name: str) -> Unit | None:
    base = _singular(name)
    if base in _EMPTY:
        return None
    if base in _TABLE:
        dimension, factor = _TABLE[base]
        return Unit(frozenset({(dimension, 1)}), factor)
    words = [_singular(word) for word in name.lower().split()]
    if any("-" in word and set(word.split("-")) <= _SENTENCE_WORDS for word in name.lower().split()):
        raise NotAUnit(name)  # twenty-four
    if len(name) == 1:
        raise NotAUnit(name)  # 5k is 5000
    if len(words) > 4 or any(word in _SENTENCE_WORDS for word in words):
        raise NotAUnit(name)
    if not all(re.fullmatch(r"[^\W\d_]+(?:['-][^\W\d_]+)*", word) for word in words):
        raise NotAUnit(name)
    kept = [word for word in words if word not in ("of", "the", "a", "an")]
    return Unit(frozenset({("#" + " ".join(sorted(kept)), 1)}), Fraction(1)) if kept else None


def _singular(name: str) -> str:
    if name in _TABLE:
        return name
    name = name.lower() if name.lower() not in _TABLE and len(name) > 2 else name
    lower = name.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if lower in _TABLE and len(lower) > 2:
        return lower
    if len(lower) > 3 and lower.endswith("ies"):
        return lower[:-3] + "y"
    if len(lower) > 2 and lower.endswith("s") and not lower.endswith("ss"):
        return lower[:-1]
    return name


def _merged(parts: list[tuple[Unit | None, int]]) -> Unit | None:
    powers: dict[str, int] = {}
    factor = Fraction(1)
    for unit, times in parts:
        if unit is None:
            continue
        for name, power in unit.powers:
            powers[name] = powers.get(name, 0) + power * times
        factor *= unit.factor**times
    kept = frozenset((name, power) for name, power in powers.items() if power)
    return Unit(kept, factor) if kept else None
