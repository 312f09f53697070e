"""When two problems are the same: letter by letter apart from layout, or by shared 8-grams."""

import re
from collections import Counter
from collections.abc import Iterable

GRAM = 8

_TOKEN = re.compile(r"[a-z]+|\d+|[^\sa-z\d]")
_LAYOUT = re.compile(
    r"\\(?:left|right|displaystyle|text|mathrm|quad|qquad)(?![a-z])|\\[dt](?=frac)|\\[()\[\]]"
)
_SPACES = re.compile(r"[\s{}$\\]+")
_DROPPED = re.compile(r"[^a-z\d+\-*/^=<>|!.,()]|[.,](?!(?<=\d.)\d)")


def skeleton(text: str) -> str:
    """The text's letters, digits and operators in lower case: two problems with one skeleton are the same.

    Spaces, dollar signs, braces and punctuation are what copies of a problem differ in. Signs and
    parentheses are kept, and points and commas between digits: without them x + 1 and x - 1 would be one,
    or 1.5 and 15.
    """
    return _DROPPED.sub("", _SPACES.sub("", _LAYOUT.sub("", text.lower())))


def tokens(text: str) -> list[str]:
    """Words, numbers and single signs, in lower case."""
    return _TOKEN.findall(text.lower())


def grams(text: str) -> frozenset[int]:
    """The hashes of all runs of 8 tokens; of a shorter text that of all its tokens."""
    words = tokens(text)
    return frozenset(hash(tuple(words[i : i + GRAM])) for i in range(max(1, len(words) - GRAM + 1)))


class GramIndex:
    """Texts by their 8-grams, exact: every overlap is found, none is estimated.

    The share of two texts is that of the shared grams in the grams of one of them: of the shorter
    (`of_longer` false), so that a text that holds the other counts as overlap, or of the longer, so that
    only texts which are the same nearly from end to end do.
    """

    def __init__(self, of_longer: bool = False) -> None:
        self._of = max if of_longer else min
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._texts_of: dict[int, list[int]] = {}
        self._known: set[int] = set()  # its keys

    def add(self, name: str, found: frozenset[int]) -> None:
        """Take a text in, by its grams."""
        number = len(self._names)
        self._names.append(name)
        self._sizes.append(len(found))
        for gram in found:
            self._texts_of.setdefault(gram, []).append(number)
        self._known |= found

    def closest(self, found: frozenset[int], at_least: float) -> tuple[str, float] | None:
        """The text with the largest share of these grams, the first of equals; None where no share is large enough."""
        known = found & self._known  # a set operation, as most grams are nobody else's
        if self._of is max and len(known) < at_least * len(found):
            return None  # no single text can share more than all do
        shared: Counter[int] = Counter()
        for gram in known:
            shared.update(self._texts_of[gram])
        shares = ((count / self._of(len(found), self._sizes[n]), -n) for n, count in shared.items())
        share, number = max(shares, default=(0.0, 0))
        return (self._names[-number], share) if share >= at_least else None


def index_of(texts: Iterable[tuple[str, str]], of_longer: bool = False) -> GramIndex:
    """The index of (name, text) pairs."""
    index = GramIndex(of_longer)
    for name, text in texts:
        index.add(name, grams(text))
    return index
