"""Two evaluations of the same problems: their difference, paired by problem."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from adarl.errors import UserError
from eval.metrics import paired_difference
from eval.report import Results
from eval.summary import AVERAGE

# What makes two numbers answers to the same question; a difference in them is said, not refused.
COMPARED = ("temperature", "max_new_tokens", "system_prompt", "prompt_suffix", "examples", "verifier")


@dataclass(frozen=True, slots=True)
class Comparison:
    """B - A on the problems of one benchmark, as shares."""

    name: str
    num_problems: int
    first: float  # Ave@k of A
    second: float  # of B
    difference: float
    standard_error: float | None


def compare(first: Results, second: Results) -> list[Comparison]:
    """A row for each benchmark that both have, and last all their problems together.

    Raises:
        UserError: no benchmark in common, or a benchmark with other problems.
    """
    names = [name for name in first.problems if name in second.problems]
    if not names:
        raise UserError(
            f"nothing to compare: {first.model} has {', '.join(first.problems)}, {second.model} has {', '.join(second.problems)}"
        )
    for name in names:
        held, other = (r.config["benchmarks"][name] for r in (first, second))
        if held["digest"] != other["digest"]:
            raise UserError(
                f"{name}: the two were evaluated on different problems ({held['problems']} from {held['source']}, "
                f"{other['problems']} from {other['source']}); evaluate both with the same LIMIT and source"
            )
    rows = [_row(name, first.problems[name], second.problems[name]) for name in names]
    together = [{f"{n}/{id}": m for n in names for id, m in r.problems[n].items()} for r in (first, second)]
    return [*rows, _row(AVERAGE, *together)]


def _row(name: str, first: dict[str, float], second: dict[str, float]) -> Comparison:
    difference, error = paired_difference(first, second)
    count = len(first)
    return Comparison(
        name, count, sum(first.values()) / count, sum(second.values()) / count, difference, error
    )


def print_comparison(first: Results, second: Results, console: Console) -> None:
    """The table of differences, in percentage points."""
    table = Table(
        title=f"A = {first.model}, B = {second.model}; in percent", title_justify="left", title_style="bold"
    )
    for i, heading in enumerate(["benchmark", "problems", "A", "B", "B - A", "s.e. of B - A"]):
        table.add_column(heading, justify="left" if i == 0 else "right", no_wrap=True)
    rows = compare(first, second)
    for row in rows:
        error = "" if row.standard_error is None else f"{100 * row.standard_error:.1f}"
        numbers = [f"{100 * row.first:.1f}", f"{100 * row.second:.1f}", f"{100 * row.difference:+.1f}", error]
        table.add_row(row.name, str(row.num_problems), *numbers, end_section=row is rows[-2])
    console.print(table)
    for key in COMPARED:
        if first.config[key] != second.config[key]:
            console.print(
                f"[yellow]note[/]: {key} is {first.config[key]!r} in A and {second.config[key]!r} in B",
                highlight=False,
                markup=True,
            )
