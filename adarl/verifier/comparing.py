"""When two answers are the same. Pure functions over the records of `answers`; conventions in docs/verifier.md."""

import re
from collections import Counter
from collections.abc import Sequence

import sympy

from adarl.verifier.answers import (
    Answer,
    BaseNumeral,
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
from adarl.verifier.normalise import canonical
from adarl.verifier.quantities import as_share, same_numeral, same_quantity
from adarl.verifier.regions import to_region, variable_of
from adarl.verifier.relations import same_relation, values_of
from adarl.verifier.values import same_value

_MAX_MATCHED = 64  # items that are paired one by one


def same_answer(answer: Answer, gold: Answer) -> bool:
    """Whether `answer` states what `gold` states. Not symmetric: the gold sets the form."""
    if isinstance(gold, Opaque) or isinstance(answer, Opaque):
        return (
            isinstance(gold, Opaque)
            and isinstance(answer, Opaque)
            and canonical(answer.text) == canonical(gold.text)
        )
    if isinstance(gold, Text) or isinstance(answer, Text):
        return answer == gold or (_is_nothing(answer) and _is_nothing(gold))
    if isinstance(gold, Choice) or isinstance(answer, Choice):
        return isinstance(answer, Choice) and isinstance(gold, Choice) and _same_choice(answer, gold)
    if isinstance(gold, Relation | Both) or isinstance(answer, Relation | Both):
        return _same_statement(answer, gold)
    if isinstance(gold, Quantity) and isinstance(answer, Quantity):
        return same_quantity(answer, gold)
    if isinstance(gold, Matrix) or isinstance(answer, Matrix):
        return _same_matrix(answer, gold)
    if isinstance(gold, Ordered) and isinstance(answer, Ordered):
        return _same_ordered(answer, gold)
    if isinstance(gold, Collection) and isinstance(answer, Collection):
        return _same_collection(answer, gold)
    if isinstance(gold, Ratio) or isinstance(answer, Ratio):
        return _same_ratio(answer, gold)
    if isinstance(gold, BaseNumeral) or isinstance(answer, BaseNumeral):
        return same_numeral(answer, gold)
    if isinstance(gold, Region) or isinstance(answer, Region):
        return _same_region(answer, gold)
    return _single(answer, gold) or _named_point(answer, gold)


def _is_nothing(answer: Answer) -> bool:
    """The empty set, or the words that say it."""
    if isinstance(answer, Text):
        return re.fullmatch(r"no (?:real )?(?:solutions?|roots?)", answer.words) is not None
    return isinstance(answer, Collection) and not answer.items


def _same_choice(answer: Choice, gold: Choice) -> bool:
    if answer.letter != gold.letter:
        return False
    return not (answer.rest and gold.rest) or canonical(answer.rest) == canonical(gold.rest)


def _same_statement(answer: Answer, gold: Answer) -> bool:
    """At least one side is a relation: compared as a statement, as a set, or by the value it gives."""
    if (
        isinstance(answer, Relation)
        and isinstance(gold, Relation)
        and same_relation(answer, gold, same_answer)
    ):
        return True
    names = variable_of(answer), variable_of(gold)
    describe_sets = not isinstance(answer, Quantity | Matrix | Ratio) and not isinstance(
        gold, Quantity | Matrix | Ratio
    )
    if (
        isinstance(answer, Both)
        and isinstance(gold, Both)
        and _same_relations(answer.relations, gold.relations)
    ):
        return True
    if describe_sets and (None in names or names[0] == names[1]):
        sets = to_region(answer), to_region(gold)
        if sets[0] is not None and sets[1] is not None and not _are_plain_equations(answer, gold):
            return _equal_sets(sets[0], sets[1])
    if isinstance(answer, Relation) and not isinstance(gold, Relation):
        return any(same_answer(value, gold) for value in values_of(answer, same_answer))
    if isinstance(gold, Relation) and not isinstance(answer, Relation):
        return any(same_answer(answer, value) for value in values_of(gold, same_answer))
    return False


def _same_relations(answer: Sequence[Answer], gold: Sequence[Answer]) -> bool:
    """x > 2, y < 5: each relation on its own, in any order."""
    left = list(gold)
    for relation in answer:
        partner = next((index for index, other in enumerate(left) if same_answer(relation, other)), None)
        if partner is None:
            return False
        left.pop(partner)
    return not left


def _are_plain_equations(answer: Answer, gold: Answer) -> bool:
    return all(isinstance(side, Relation) and set(side.signs) == {"="} for side in (answer, gold)) or any(
        isinstance(side, Relation) and set(side.signs) <= {"=", r"\approx"} for side in (answer, gold)
    )


def _same_ordered(answer: Ordered, gold: Ordered) -> bool:
    if len(answer.items) != len(gold.items):
        return False
    same_brackets = (answer.opening, answer.closing) == (gold.opening, gold.closing)
    if not same_brackets and not (answer.is_tuple and gold.is_tuple):
        return False
    return all(same_answer(a, g) for a, g in zip(answer.items, gold.items, strict=True))


def _same_collection(answer: Collection, gold: Collection) -> bool:
    """The same elements in any order. Repetitions say nothing new, unless the gold itself repeats an element."""
    if _names_its_values(gold) and not any(isinstance(item, Relation) for item in answer.items):
        # p = 3, q = 4: without their names the values have to keep their order.
        return len(answer.items) == len(gold.items) and all(map(same_answer, answer.items, gold.items))
    mine, theirs = list(_plain_values(answer, gold)), list(_plain_values(gold, answer))
    if len(_distinct(theirs)) == len(theirs):
        mine = _distinct(mine)
    if len(mine) != len(theirs) or len(mine) > 20 * _MAX_MATCHED:
        return False
    if len(mine) > _MAX_MATCHED:
        return Counter(mine) == Counter(theirs)
    left = list(theirs)
    for item in mine:
        partner = next((index for index, other in enumerate(left) if _same_item(item, other)), None)
        if partner is None:
            return False
        left.pop(partner)
    return True


def _names_its_values(collection: Collection) -> bool:
    """Whether it gives each value a name of its own: p = 3, q = 4."""
    names = {
        item.texts[0] for item in collection.items if isinstance(item, Relation) and item.signs[:1] == ("=",)
    }
    return len(names) == len(collection.items) > 1


def _plain_values(collection: Collection, other: Collection) -> tuple[Answer, ...]:
    """x = 1, x = 2 as 1, 2 where the other side does not name its values, or names them alike."""
    items = collection.items
    if not any(isinstance(item, Relation) for item in items) or any(
        isinstance(item, Relation) for item in other.items
    ):
        return items
    names = {item.texts[0] for item in items if isinstance(item, Relation)}
    if len(names) != 1:
        return items
    return tuple(_value_or_self(item) for item in items)


def _value_or_self(item: Answer) -> Answer:
    if not isinstance(item, Relation):
        return item
    values = values_of(item, same_answer)
    return values[0] if values else item


def _same_item(answer: Answer, gold: Answer) -> bool:
    """Within a list: {5} and 5 are two different elements there."""
    return isinstance(answer, Collection) == isinstance(gold, Collection) and same_answer(answer, gold)


def _distinct(items: Sequence[Answer]) -> list[Answer]:
    if len(items) > _MAX_MATCHED:
        return list(dict.fromkeys(items))
    kept: list[Answer] = []
    for item in items:
        if not any(_same_item(item, other) for other in kept):
            kept.append(item)
    return kept


def _same_matrix(answer: Answer, gold: Answer) -> bool:
    """Cell by cell. A single row or column is also the tuple of its entries."""
    if isinstance(answer, Matrix) and isinstance(gold, Matrix):
        if [len(row) for row in answer.rows] != [len(row) for row in gold.rows]:
            return False
        cells = zip(sum(answer.rows, ()), sum(gold.rows, ()), strict=True)
        return all(same_answer(a, g) for a, g in cells)
    matrix, other = (answer, gold) if isinstance(answer, Matrix) else (gold, answer)
    if not isinstance(matrix, Matrix) or not isinstance(other, Ordered) or not other.is_tuple:
        return False
    if len(matrix.rows) != 1 and len(matrix.rows[0]) != 1:
        return False
    point = Ordered(sum(matrix.rows, ()), "(", ")")
    return _same_ordered(point, other) if matrix is answer else _same_ordered(other, point)


def _same_ratio(answer: Answer, gold: Answer) -> bool:
    if isinstance(answer, Ratio) and isinstance(gold, Ratio):
        if len(answer.parts) != len(gold.parts):
            return False
        if all(same_answer(a, g) for a, g in zip(answer.parts, gold.parts, strict=True)):
            return True
        first = as_share(answer), as_share(gold)
        return first[0] is not None and first[1] is not None and same_quantity(first[0], first[1])
    ratio, other = (answer, gold) if isinstance(answer, Ratio) else (gold, answer)
    share = as_share(ratio) if isinstance(ratio, Ratio) else None
    if share is None or not isinstance(other, Quantity):
        return False
    return same_quantity(share, other) if ratio is answer else same_quantity(other, share)


def _same_region(answer: Answer, gold: Answer) -> bool:
    mine, theirs = to_region(answer), to_region(gold)
    return mine is not None and theirs is not None and _equal_sets(mine, theirs)


def _equal_sets(a: sympy.Set, b: sympy.Set) -> bool:
    if a == b:
        return True
    a, b = a.simplify(), b.simplify()
    if a == b:
        return True
    if isinstance(a, sympy.FiniteSet) or isinstance(b, sympy.FiniteSet):
        return isinstance(a, sympy.FiniteSet) and isinstance(b, sympy.FiniteSet) and _same_elements(a, b)
    if isinstance(a, sympy.Interval) and isinstance(b, sympy.Interval):
        same_ends = (a.left_open, a.right_open) == (b.left_open, b.right_open)
        return same_ends and same_value(a.start, b.start, None, None) and same_value(a.end, b.end, None, None)
    if isinstance(a, sympy.Union) and isinstance(b, sympy.Union):
        others = list(b.args)
        for part in a.args:
            partner = next((index for index, other in enumerate(others) if _equal_sets(part, other)), None)
            if partner is None:
                return False
            others.pop(partner)
        return not others
    return bool(sympy.SymmetricDifference(a, b).is_empty)


def _same_elements(a: sympy.FiniteSet, b: sympy.FiniteSet) -> bool:
    mine, theirs = (Collection(tuple(Quantity(value) for value in elements)) for elements in (a, b))
    return _same_collection(mine, theirs)


def _single(answer: Answer, gold: Answer) -> bool:
    """A collection of one thing is that thing: {5} and 5, {-1, 1} and \\pm 1 are the same list already."""
    if isinstance(answer, Collection) and not isinstance(gold, Collection):
        distinct = _distinct(answer.items)
        return (
            len(distinct) == 1 and not isinstance(distinct[0], Collection) and same_answer(distinct[0], gold)
        )
    if isinstance(gold, Collection) and not isinstance(answer, Collection):
        distinct = _distinct(gold.items)
        return (
            len(distinct) == 1
            and not isinstance(distinct[0], Collection)
            and same_answer(answer, distinct[0])
        )
    return False


def _named_point(answer: Answer, gold: Answer) -> bool:
    """x = 1, y = 2 for the point (1, 2): different names, values in the order of the names."""
    point, named = (gold, answer) if isinstance(gold, Ordered) else (answer, gold)
    if not (isinstance(point, Ordered) and point.is_tuple and isinstance(named, Collection)):
        return False
    if len(named.items) != len(point.items) or not all(isinstance(item, Relation) for item in named.items):
        if point is answer or len(point.items) < 3 or named.braces or len(named.items) != len(point.items):
            return False
        # Three and more values cannot be an interval: the brackets may be missing, the order may not.
        return all(same_answer(a, g) for a, g in zip(answer_items(answer), answer_items(gold), strict=True))
    relations = sorted(
        (item for item in named.items if isinstance(item, Relation)), key=lambda item: item.texts[0]
    )
    if len({item.texts[0] for item in relations}) < len(relations):
        return False
    values = Ordered(tuple(_value_or_self(item) for item in relations), "(", ")")
    return _same_ordered(values, point) if named is answer else _same_ordered(point, values)


def answer_items(answer: Answer) -> tuple[Answer, ...]:
    return answer.items if isinstance(answer, Ordered | Collection) else ()
