"""The numbers of an evaluation, as pure functions of counts and verdicts.

n samples of each of P problems; c_i of problem i are correct; m_i = c_i / n
"""

import math
import re
import statistics
from collections.abc import Sequence
from typing import Any, Protocol


class Scored(Protocol):
    """One sample as these functions see it."""

    @property
    def correct(self) -> bool: ...
    @property
    def answer(self) -> str | None: ...


def avg_at_k(means: Sequence[float]) -> float:
    """Ave@k = (1/P) sum_i m_i: the paper's number. `means` are the problems' m_i."""
    return statistics.fmean(means)


def standard_error(means: Sequence[float]) -> float | None:
    """Standard error of Ave@k over problems, clustered: sd(m_1..m_P) / sqrt(P), with P - 1 in the sd.

    The samples of one problem are a cluster: they are no independent evidence about other problems, so
    only the problems' means enter. None for a single problem.
    """
    if len(means) < 2:
        return None
    return statistics.stdev(means) / math.sqrt(len(means))


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Probability that k samples drawn from these n without replacement hold a correct one, unbiased for pass@k.

    1 - C(n - c, k) / C(n, k), arXiv 2107.03374, Eq. 1.

    Raises:
        ValueError: k is not in 1..n.
    """
    if not 1 <= k <= num_samples:
        raise ValueError(f"pass@{k} cannot be estimated from {num_samples} samples")
    return 1.0 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def pass_at_ks(num_samples: int) -> list[int]:
    """The k that are reported: 1, 2, 4, ... and n itself."""
    return [*(2**i for i in range(num_samples.bit_length()) if 2**i < num_samples), num_samples]


def is_majority_correct(samples: Sequence[Scored]) -> bool:
    """maj@k of one problem: whether the most frequent final answer is correct.

    Answers count as equal when their normalised texts are equal (`answer_text`): comparing them by value
    would need a verifier without a gold. Among equally frequent answers the one that came first is taken.
    Samples without an answer do not vote; without any answer the problem is wrong.
    """
    votes: dict[str, int] = {}
    verdict: dict[str, bool] = {}
    for sample in samples:
        if sample.answer is not None:
            text = answer_text(sample.answer)
            votes[text] = votes.get(text, 0) + 1
            verdict.setdefault(text, sample.correct)
    if not votes:
        return False
    return verdict[max(votes, key=votes.__getitem__)]  # of equals the first: dicts keep their order


_LAYOUT = re.compile(r"\\left|\\right|\\[,;:! ]|\\q?quad|\$|\s")


def answer_text(answer: str) -> str:
    """An answer's text without what only changes its look: spaces, dollar signs, sizes of brackets and fractions."""
    plain = re.sub(r"\\[dt]frac", r"\\frac", answer)
    return _LAYOUT.sub("", plain).rstrip(".")


def paired_difference(first: dict[Any, float], second: dict[Any, float]) -> tuple[float, float | None]:
    """Mean over problems of second - first, and its standard error: sd(d_1..d_P) / sqrt(P).

    Both hold the same problems' means. Pairing removes what problems differ in, which is most of the
    variance of either mean.

    Raises:
        ValueError: the problems differ.
    """
    if first.keys() != second.keys():
        raise ValueError("a paired difference needs the same problems on both sides")
    differences = [second[problem] - first[problem] for problem in first]
    return statistics.fmean(differences), standard_error(differences)
