"""Results of problems -> one row of numbers a benchmark, and the average over all."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from adarl.types import Verdict
from eval.benchmarks import Listed
from eval.metrics import avg_at_k, is_majority_correct, pass_at_k, pass_at_ks, standard_error
from eval.records import ProblemResult

AVERAGE = "average"


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one benchmark, of a group, or of everything. Shares are in 0..1."""

    name: str
    is_member: bool  # of the group above it: counted there already
    num_problems: int
    k: int
    avg_at_k: float
    standard_error: float | None  # of avg_at_k, over problems; None for a single problem
    pass_at_k: dict[int, float]  # by k, unbiased
    maj_at_k: float
    mean_tokens: float  # of a response
    truncated_share: float
    verdicts: dict[str, int]  # how many samples found each


def summarise(results: Sequence[ProblemResult], name: str, is_member: bool = False) -> Row:
    """The row of these problems together. All have the same number of samples.

    Every problem counts the same, so a row over several benchmarks is their average weighted by number of
    problems.
    """
    k = results[0].num_samples
    means = [r.mean for r in results]
    samples = [s for r in results for s in r.samples]
    found = Counter(s.verdict for s in samples)
    return Row(
        name=name,
        is_member=is_member,
        num_problems=len(results),
        k=k,
        avg_at_k=avg_at_k(means),
        standard_error=standard_error(means),
        pass_at_k={i: fmean(pass_at_k(k, r.num_correct, i) for r in results) for i in pass_at_ks(k)},
        maj_at_k=fmean(is_majority_correct(r.samples) for r in results),
        mean_tokens=fmean(s.num_tokens for s in samples),
        truncated_share=fmean(s.truncated for s in samples),
        verdicts={verdict.value: found[verdict] for verdict in Verdict},
    )


def table_rows(results: Sequence[ProblemResult], chosen: Sequence[Listed]) -> list[Row]:
    """A row for each name, below a group one for each member, and last the average over all problems."""
    by_benchmark: dict[str, list[ProblemResult]] = {}
    for result in results:
        by_benchmark.setdefault(result.benchmark, []).append(result)
    rows = []
    for item in chosen:
        members = [m for m in item.members if m in by_benchmark]
        rows.append(summarise([r for m in members for r in by_benchmark[m]], item.name))
        if item.is_group:
            rows += [summarise(by_benchmark[m], m, is_member=True) for m in members]
    return [*rows, summarise(results, AVERAGE)]
