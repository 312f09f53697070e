"""The stages of data_prep.collect that need no verifier: each takes candidates and says which it leaves out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from data_prep.candidates import Candidate, Dropped, drop
from data_prep.overlap import GramIndex, grams, index_of, skeleton
from eval.benchmarks import ProblemSet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Grams = dict[str, frozenset[int]]
Sifted = tuple[list[Candidate], list[Dropped]]  # kept, and left out


def without_empty(candidates: Sequence[Candidate]) -> Sifted:
    """Without those that have no problem or no answer."""
    kept: list[Candidate] = []
    dropped: list[Dropped] = []
    for c in candidates:
        if c.problem and c.answer:
            kept.append(c)
        else:
            dropped.append(drop(c, "empty", "no answer" if c.problem else "no problem"))
    return kept, dropped


def without_duplicates(candidates: Sequence[Candidate]) -> Sifted:
    """The first of each problem, where problems are compared by letters, digits and operators alone."""
    first: dict[str, Candidate] = {}
    dropped: list[Dropped] = []
    for c in candidates:
        earlier = first.setdefault(skeleton(c.problem), c)
        if earlier is not c:
            other = (
                ""
                if earlier.answer == c.answer
                else f", which has the answer {earlier.answer} and not {c.answer}"
            )
            dropped.append(drop(c, "duplicate", f"the same problem as {earlier.id}{other}"))
    return list(first.values()), dropped


def grams_of(candidates: Sequence[Candidate]) -> Grams:
    """The 8-grams of each, by id."""
    return {c.id: grams(c.problem) for c in candidates}


def without_benchmarks(
    candidates: Sequence[Candidate], found: Grams, sets: Sequence[ProblemSet], share: float
) -> Sifted:
    """Without what overlaps an evaluation set.

    A problem overlaps where it is the same (by letters, digits and operators), or where it and a problem of
    the set have `share` of the 8-grams of the shorter one in common.
    """
    problems = [(p.id, p.problem) for s in sets for p in s.problems]
    same = {skeleton(problem): id for id, problem in problems}
    index = index_of(problems)
    kept: list[Candidate] = []
    dropped: list[Dropped] = []
    for c in candidates:
        if (id := same.get(skeleton(c.problem))) is not None:
            dropped.append(drop(c, "overlaps_eval", f"the same problem as {id}"))
            continue
        closest = index.closest(found[c.id], share)
        if closest is not None:
            dropped.append(drop(c, "overlaps_eval", _in_common(*closest)))
        else:
            kept.append(c)
    return kept, dropped


def without_near_duplicates(candidates: Sequence[Candidate], found: Grams, share: float) -> Sifted:
    """Without those that have `share` of the longer one's 8-grams in common with one that is kept before them."""
    index = GramIndex(of_longer=True)
    kept: list[Candidate] = []
    dropped: list[Dropped] = []
    for c in candidates:
        closest = index.closest(found[c.id], share)
        if closest is not None:
            dropped.append(drop(c, "near_duplicate", _in_common(*closest)))
        else:
            index.add(c.id, found[c.id])
            kept.append(c)
    return kept, dropped


def _in_common(id: str, share: float) -> str:
    return f"{share:.0%} of the 8-grams in common with {id}"


def without_long(candidates: Sequence[Candidate], tokenizer: "PreTrainedTokenizerBase", limit: int) -> Sifted:
    """Without problems of more than `limit` tokens."""
    kept: list[Candidate] = []
    dropped: list[Dropped] = []
    for c in candidates:
        # A token is at least a byte: a text of fewer bytes need not be tokenized.
        length = len(c.problem.encode())
        if length > limit:
            length = len(tokenizer(c.problem, add_special_tokens=False)["input_ids"])
        if length <= limit:
            kept.append(c)
        else:
            dropped.append(drop(c, "too_long", f"{length} tokens, more than {limit}"))
    return kept, dropped
