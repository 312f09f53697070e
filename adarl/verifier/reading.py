"""Normalised text -> what it says, as the records of `answers`. One text can have several readings."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import sympy

from adarl.verifier.answers import (
    Answer,
    Both,
    Choice,
    Collection,
    Matrix,
    Opaque,
    Ordered,
    Quantity,
    Ratio,
    Region,
    Relation,
    Text,
)
from adarl.verifier.leaves import Unreadable, read_expression
from adarl.verifier.normalise import normalise
from adarl.verifier.quantities import read_quantity
from adarl.verifier.regions import to_region
from adarl.verifier.splitting import enclosed, is_balanced, split_top
from adarl.verifier.units import NotAUnit

MAX_ITEMS = 200  # of one list or matrix
MAX_NESTING = 6  # lists within lists

_ANNOUNCED = re.compile(
    r"\\text\{(?:the )?(?:final |correct )?(?:answer|option|choice|result|ans|point|points|interval|ordered pair)(?: is)?\s*:?\s*([^{}]*)\}\s*:?",
    re.IGNORECASE,
)
# `\text{The number of ways is } 15`: words alone, up to a verb that names the value.
_SENTENCE = re.compile(r"\\text\{((?:[a-zA-Z]+\s+)+(?:is|are|equals))\s*:?\s*\}\s*:?\s*(?=[^\s=])")
_DOUBT = frozenset(
    "not no never neither nor cannot if unless except wrong incorrect false maybe perhaps or but what".split()
)
_CHOICE = re.compile(r"\(?\s*([A-Z])\s*[).:]\s*(.*)|([A-Z])", re.DOTALL)
# \text{A: Paris}, \text{(A) Paris}, A \text{(Paris)}
_LABELLED = re.compile(
    r"\\text\{\(?([A-Z])\s*[).:]\s*([^{}]*[a-z][^{}]*)\}|(?:\\text\{)?\(?([A-Z])\)?\s*(?:\\text\{)?\s*\(([^{}()]*)\)\s*\}"
)
# (A)(B)(C) or `A. 12 B. 13` is no choice but several.
_ANOTHER_CHOICE = re.compile(r"(?<![a-zA-Z\\}])\(\s*[A-Z]\s*\)|(?:^|[\s,;/])[A-Z]\s*[).:]")
_WORDS = re.compile(r"\\text\{([^{}]*)\}")
_ARTICLE = re.compile(r"(?:an?|the)\s+")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
_CLOCK = re.compile(r"\d{1,2}\s*:\s*\d\d")
_RELATION = r"=|<|>|\\le|\\ge|\\ne|\\in|\\notin|\\approx|\\equiv|\\sim"
_MATRIX = re.compile(r"\\begin\{([pbBvV]?matrix|array)\}(?:\{[lcr|]*\})?(.*?)\\end\{\1\}", re.DOTALL)
_BUILT = re.compile(r"(?:[a-zA-Z]|\([a-zA-Z, ]*\))(?:\s*\\in\s*(?:\\mathbb\s*\{?R\}?))?")  # x of {x | x > 2}
_HALF_LINES = r"\^\s*\{?\s*[+-]\s*\}?|_\s*\{\s*(?:<|>|\\le|\\ge)\s*0\s*\}"  # behind \mathbb{R}
_EMPTY_ANSWER = re.compile(r"(?:\\ldots|\\text\{\s*\}|[\s.,;:?_'\"*{}()\-]|\\quad)*")


@lru_cache(maxsize=8192)
def read(answer: str) -> tuple[Answer, ...]:
    """Every reading of an answer, the likeliest first; empty where it says nothing.

    Raises UnreadableCharacter for control characters. What cannot be read is Opaque, never an exception.
    """
    text = normalise(answer)
    if _EMPTY_ANSWER.fullmatch(text):
        return ()
    sentence = _SENTENCE.match(text)
    if sentence is not None and not _DOUBT & set(sentence[1].lower().split()):
        text = text[sentence.end() :].strip()
    announced = _ANNOUNCED.match(text)
    if announced is not None:
        rest = (rf"\text{{{announced[1]}}}" if announced[1] else "") + text[announced.end() :]
        return read(re.sub(r"^\\text\{([A-Z])\}", r"\1", rest)) if rest.strip() else ()
    return tuple(dict.fromkeys(_readings(text, 0)))


def _readings(text: str, nesting: int) -> Iterator[Answer]:
    choice = _CHOICE.fullmatch(text)
    if choice is not None and not _ANOTHER_CHOICE.search(choice[2] or ""):
        letter, rest = choice[1] or choice[3], (choice[2] or "").strip()
        yield Choice(letter, rest)
        if rest:
            if not re.fullmatch(r"\(?\s*[A-Z]\s*\)?", rest):
                yield from _readings(rest, nesting)
            return
    words = _WORDS.fullmatch(text)
    labelled = _LABELLED.fullmatch(text)
    if labelled is not None and not _ANOTHER_CHOICE.search(labelled[2] or ""):
        yield Choice(labelled[1] or labelled[3], rf"\text{{{labelled[2] or labelled[4]}}}")
    if words is not None and (parts := re.split(r"\s*,\s*(?:and |or )?|\s+and\s+|\s+or\s+", words[1]))[1:]:
        yield Collection(tuple(_named_words(part) for part in parts if part))
    numbers = _THOUSANDS.findall(text)
    is_list = all(_may_be_list(number) for number in numbers)
    if numbers and (not is_list or enclosed(text) is None):
        # 1,000 is one number; 101,103 may also be the list of 101 and 103: then both readings stand.
        yield _structure(_THOUSANDS.sub(lambda number: number[0].replace(",", ""), text), nesting)
    if is_list:
        yield _structure(text, nesting)


def _may_be_list(grouped: str) -> bool:
    """Whether digits in groups of three can be a list: no element is `000` or `050`, and none comes twice."""
    groups = grouped.split(",")
    return not any(group.startswith("0") for group in groups) and len(set(groups)) == len(groups)


def _structure(text: str, nesting: int) -> Answer:
    if nesting > MAX_NESTING or not is_balanced(text):
        return Opaque(text)
    try:
        return (
            _words(text)
            or _list(text, nesting)
            or _relation(text, nesting)
            or _region(text, nesting)
            or _bracketed(text, nesting)
            or _matrix(text, nesting)
            or _plus_minus(text, nesting)
            or _ratio(text, nesting)
            or read_quantity(text)
        )
    except (Unreadable, NotAUnit):
        return Opaque(text)


def _words(text: str) -> Answer | None:
    match = _WORDS.fullmatch(text)
    return _named_words(match[1]) if match is not None else None


def _named_words(words: str) -> Text:
    words = " ".join(words.lower().strip(" .,:;!\"'").split())
    return Text(_ARTICLE.sub("", words, count=1) if _ARTICLE.match(words) else words)


def _list(text: str, nesting: int) -> Answer | None:
    """a, b and c; x < 2 or x > 5. A comma with `and` behind it is one separator."""
    if r"\ldots" in text:
        return None  # a list that is left open is only its own text
    pieces, separators = split_top(text, r",|;|\\lor|\\land")
    if len(pieces) == 1:
        return None
    kept = [piece for piece in pieces if piece]
    if not 0 < len(kept) <= MAX_ITEMS or not pieces[0] or not pieces[-1]:
        raise Unreadable(text)
    items = [_structure(piece, nesting + 1) for piece in kept]
    if len(items) == 1:
        return items[0]
    return _joined(_shared_name(_flattened(items)), separators)


def _flattened(items: list[Answer]) -> list[Answer]:
    """0, \\pm 1 is a list of three; a set in braces stays an element."""
    flat: list[Answer] = []
    for item in items:
        flat += item.items if isinstance(item, Collection) and not item.braces else (item,)
    return flat


def _shared_name(items: list[Answer]) -> list[Answer]:
    """n = 2, 3, 4: the name belongs to all of them."""
    first = items[0]
    named = isinstance(first, Relation) and first.signs == ("=",) and len(first.sides) == 2
    if named and isinstance(first, Relation) and not any(isinstance(item, Relation) for item in items[1:]):
        return [first.sides[1], *items[1:]]
    return items


def _joined(items: list[Answer], separators: list[str]) -> Answer:
    bounds = [
        isinstance(item, Relation) and bool({"<", ">", r"\le", r"\ge", r"\ne"} & set(item.signs))
        for item in items
    ]
    if any(bounds) and all(bounds) and r"\lor" not in separators:
        return Both(tuple(items))
    return Collection(tuple(items))


def _relation(text: str, nesting: int) -> Answer | None:
    pieces, signs = split_top(text, _RELATION)
    if len(pieces) == 1 or len(pieces) > 12:
        return None
    if not pieces[-1] or (not pieces[0] and len(pieces) > 2):
        raise Unreadable(text)
    if not pieces[0]:  # "= 5", "\approx 5", "\in [0, 1]"
        return _structure(pieces[1], nesting + 1) if signs[0] in ("=", r"\in") else Opaque(text)
    return Relation(tuple(_structure(piece, nesting + 1) for piece in pieces), tuple(signs), tuple(pieces))


def _region(text: str, nesting: int) -> Answer | None:
    if text in (r"\emptyset", r"\{\}", r"\{ \}"):
        return Collection((), braces=True)
    name = re.fullmatch(r"\\mathbb\s*\{?([RZNQC])\}?", text)
    if (half := re.fullmatch(rf"\\mathbb\s*\{{?R\}}?\s*({_HALF_LINES})", text)) is not None:
        above = "+" in half[1] or ">" in half[1] or r"\ge" in half[1]
        is_open = r"\le" not in half[1] and r"\ge" not in half[1]
        half_line = (
            sympy.Interval(0, sympy.oo, is_open) if above else sympy.Interval(-sympy.oo, 0, True, is_open)
        )
        return Region(half_line)
    if name is not None:
        known = {"R": sympy.S.Reals, "Z": sympy.S.Integers, "N": sympy.S.Naturals, "Q": sympy.S.Rationals,
                 "C": sympy.S.Complexes}  # fmt: skip
        return Region(known[name[1]])
    pieces, operators = split_top(text, r"\\cup|\\cap|\\setminus")
    if not operators and not (r"\mathbb" in text and "-" in text):
        return None
    if not operators:  # \mathbb{R} - \{0\}
        pieces, operators = split_top(text, "-")
        if len(operators) != 1:
            return None
    if len(pieces) > MAX_ITEMS:
        raise Unreadable(text)
    members = _as_set(pieces[0], nesting)
    for operator, piece in zip(operators, pieces[1:], strict=True):
        other = _as_set(piece, nesting)
        if operator == r"\cup":
            members = sympy.Union(members, other)
        elif operator == r"\cap":
            members = sympy.Intersection(members, other)
        else:
            members = sympy.Complement(members, other)
    return Region(members)


def _as_set(text: str, nesting: int) -> sympy.Set:
    members = to_region(_structure(text, nesting + 1))
    if members is None:
        raise Unreadable(f"{text!r} is not a set of numbers")
    return members


def _bracketed(text: str, nesting: int) -> Answer | None:
    brackets = enclosed(text)
    if brackets is None:
        return None
    opening, inside, closing = brackets
    if opening == r"\{" and closing == r"\}":
        builder, signs = split_top(inside, r"\||:")
        if len(builder) == 2 and signs and _BUILT.fullmatch(builder[0]):
            return _structure(builder[1], nesting + 1)
        if _EMPTY_ANSWER.fullmatch(inside):
            return Collection((), braces=True)
        content = _structure(inside, nesting + 1)
        items = content.items if isinstance(content, Collection) and not content.braces else (content,)
        return Collection(items, braces=True)
    if opening not in ("(", "[", r"\langle") or closing not in (")", "]", r"\rangle"):
        return None
    pieces, _ = split_top(inside, ",|;")
    if len(pieces) == 1:
        if inside.startswith((r"\begin{matrix}", r"\begin{array}")):
            return _structure(inside, nesting + 1)  # brackets drawn round a matrix by hand
        if opening == "[" and closing == "]":
            return Ordered((_structure(inside, nesting + 1),), "[", "]")
        return _structure(inside, nesting + 1) if opening == "(" and closing == ")" and inside else None
    if len(pieces) > MAX_ITEMS or not all(pieces) or r"\ldots" in inside:
        raise Unreadable(text)
    short = {r"\langle": "<", r"\rangle": ">"}
    items = tuple(_structure(piece, nesting + 1) for piece in pieces)
    return Ordered(items, short.get(opening, opening), short.get(closing, closing))


def _matrix(text: str, nesting: int) -> Answer | None:
    """A matrix, also with a factor before it. Determinants (vmatrix) are values and not read."""
    match = _MATRIX.search(text)
    if match is None:
        return None
    if match.end() != len(text) or match[1] in ("vmatrix", "Vmatrix"):
        raise Unreadable(text)
    rows = [row for row in re.split(r"\\\\(?:\s*\\hline)?", match[2]) if row.strip()]
    cells = [[_structure(cell.strip(), nesting + 1) for cell in row.split("&")] for row in rows]
    if not cells or len({len(row) for row in cells}) != 1 or len(cells) * len(cells[0]) > MAX_ITEMS:
        raise Unreadable(text)
    factor_text = re.sub(r"\\(?:cdot|times)\s*$|\*\s*$", "", text[: match.start()].strip()).strip()
    if factor_text:
        factor = sympy.Integer(-1) if factor_text == "-" else read_expression(factor_text)
        cells = [[_scaled(cell, factor) for cell in row] for row in cells]
    return Matrix(tuple(tuple(row) for row in cells))


def _scaled(cell: Answer, factor: sympy.Expr) -> Answer:
    if not isinstance(cell, Quantity):
        raise Unreadable("a factor before a matrix of no numbers")
    value = cell.value
    exact = sympy.Rational(value.numerator, value.denominator) if isinstance(value, Fraction) else value
    return Quantity(factor * exact)


def _plus_minus(text: str, nesting: int) -> Answer | None:
    r"""a \pm b is the list of both values; \mp goes with its \pm."""
    if r"\pm" not in text:
        text = text.replace(r"\mp", r"\pm")
    count = text.count(r"\pm")
    if count == 0:
        return None
    if count > 3:
        raise Unreadable(text)
    together = r"\mp" in text
    values: list[Answer] = []
    for choice in range(2 if together else 2**count):
        signs = iter(
            [bool(choice >> place & 1) for place in range(count)] if not together else [bool(choice)] * count
        )
        written = re.sub(r"\\pm", lambda _, s=signs: "-" if next(s) else "+", text)  # type: ignore[misc]
        written = written.replace(r"\mp", "+" if choice else "-")
        values.append(_structure(re.sub(r"^\s*\+", "", written).strip(), nesting + 1))
    return Collection(tuple(values))


def _ratio(text: str, nesting: int) -> Answer | None:
    pieces, colons = split_top(text, ":")
    if not colons:
        return None
    if len(pieces) > 8 or not all(pieces):
        raise Unreadable(text)
    return Ratio(
        tuple(_structure(piece, nesting + 1) for piece in pieces), _CLOCK.fullmatch(text) is not None
    )
