"""What an answer can be once it is read. Every record is frozen; `comparing` says when two are the same."""

from dataclasses import dataclass
from fractions import Fraction

from sympy import Expr, Set

from adarl.verifier.units import Unit


@dataclass(frozen=True)
class Text:
    """Words: a name, yes or no, east. Lower case, single spaces, no leading article."""

    words: str


@dataclass(frozen=True)
class Choice:
    """A letter of a multiple choice, with the text that stood behind it, if any."""

    letter: str
    rest: str = ""


@dataclass(frozen=True)
class Printed:
    """How a decimal was written: its significant digits and the value of half a unit in its last place."""

    significant: int
    half_place: Fraction


@dataclass(frozen=True)
class Quantity:
    """A number or an expression, with what stood behind it."""

    value: Fraction | Expr
    printed: Printed | None = None  # only for decimals and e-notation
    percent: bool = False
    unit: Unit | None = None


@dataclass(frozen=True)
class BaseNumeral:
    """Digits in a base that is not ten: 204_5. Form is what is asked for, so it is not converted."""

    digits: str
    base: int


@dataclass(frozen=True)
class Ratio:
    """a:b:c, or a time of day."""

    parts: tuple["Answer", ...]
    clock: bool


@dataclass(frozen=True)
class Collection:
    """Things in any order: a list, a set, the values of a plus-minus, the cases of an `or`."""

    items: tuple["Answer", ...]
    braces: bool = False


@dataclass(frozen=True)
class Ordered:
    """Things in their order between two brackets: a tuple, a point, an interval."""

    items: tuple["Answer", ...]
    opening: str
    closing: str

    @property
    def is_tuple(self) -> bool:
        return self.opening + self.closing in ("()", "<>")


@dataclass(frozen=True)
class Region:
    """A set of numbers that is more than one interval in brackets."""

    members: Set


@dataclass(frozen=True)
class Matrix:
    rows: tuple[tuple["Answer", ...], ...]


@dataclass(frozen=True)
class Relation:
    """a < b, a = b = c, x \\in S: sides and the signs between them."""

    sides: tuple["Answer", ...]
    signs: tuple[str, ...]
    texts: tuple[str, ...]  # the sides as text, for names


@dataclass(frozen=True)
class Both:
    """Relations that hold together: x > 2 and x < 5."""

    relations: tuple["Answer", ...]


@dataclass(frozen=True)
class Opaque:
    """Not readable as any of these. Equal to the identical text only."""

    text: str


Answer = (
    Text
    | Choice
    | Quantity
    | BaseNumeral
    | Ratio
    | Collection
    | Ordered
    | Region
    | Matrix
    | Relation
    | Both
    | Opaque
)
