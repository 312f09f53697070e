"""The paper's Table 1 beside what was evaluated here.

    python -m eval.table [RESULTS...]

RESULTS are folders of evaluations; by default all below runs/. An evaluated run stands under the row of the paper
that it repeats: the same base model, strategy, group size and kind of prompts, read from the run's recipe. Anything
else that was evaluated stands at the end.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from adarl.errors import UserError
from eval.cli import console, run_app
from eval.report import RESULTS_FILE, Results, read_results

PAPER = Path(__file__).parent / "paper.yaml"
Settings = tuple[str, str | None, str, int]  # base model, prompts, strategy, group size


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One line of the paper's table, in percent."""

    settings: Settings
    algorithm: str
    values: tuple[float, ...]


def read_paper(path: Path = PAPER) -> tuple[list[str], list[PaperRow]]:
    """The columns and the rows of the table."""
    held = yaml.safe_load(path.read_text(encoding="utf-8"))
    rows = [
        PaperRow(
            (r["model"], r["prompts"], r["strategy"], r["group_size"]), r["algorithm"], tuple(r["values"])
        )
        for r in held["rows"]
    ]
    return list(held["columns"]), rows


def settings_of(training: dict[str, Any]) -> Settings | None:
    """What of a run's recipe decides which row of the paper it repeats; None where it is no run."""
    try:
        data, sampling = training["data"], training["sampling"]
        prompts = "hard" if "hard" in Path(str(data["path"])).name else "easy"
        return training["model"]["path"], prompts, sampling["strategy"], sampling["group_size"]
    except (KeyError, TypeError):
        return None


def repeats(ours: Settings | None, paper: Settings) -> bool:
    """Whether a run is the paper's; where the table does not name the prompts, any are."""
    if ours is None:
        return False
    return ours == paper if paper[1] is not None else (ours[0], ours[2:]) == (paper[0], paper[2:])


def our_cells(results: Results, columns: list[str]) -> list[str]:
    """Ave@k in percent, a column each; empty where not evaluated, with the number of problems where not all were."""
    cells = []
    for column in columns:
        row = results.row(column)
        if row is None:
            cells.append("")
            continue
        held = results.config["benchmarks"]
        partial = any(b["problems"] < b["of"] for b in held.values())
        cells.append(f"{100 * row.avg_at_k:.1f}" + (f" (of {row.num_problems})" if partial else ""))
    evaluated_all = all(results.row(column) for column in columns)
    return cells if evaluated_all else [*cells[:-1], ""]  # an average over other benchmarks is another number


def build_table(columns: list[str], paper: list[PaperRow], ours: list[Results]) -> Table:
    """The rows of the paper, each followed by the runs that repeat it, and the rest of ours."""
    title = "Ave@32 in percent: the paper's Table 1 (arXiv 2510.04996), and ours where evaluated"
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, heading in enumerate(["model", "prompts", "algorithm", *columns]):
        table.add_column(heading, justify="left" if i < 3 else "right", no_wrap=True)
    placed = set()
    for i, row in enumerate(paper):
        model, prompts, _, _ = row.settings
        mine = [r for r in ours if repeats(settings_of(r.training), row.settings)]
        placed |= {id(r) for r in mine}
        ends_model = i + 1 == len(paper) or paper[i + 1].settings[:2] != row.settings[:2]
        values = [f"{value:.1f}" for value in row.values]
        table.add_row(
            model.split("/")[-1], prompts or "", row.algorithm, *values, end_section=ends_model and not mine
        )
        for result in mine:
            last = ends_model and result is mine[-1]
            table.add_row(
                "", "", _label(result), *our_cells(result, columns), style="bold green", end_section=last
            )
    for result in ours:
        if id(result) not in placed and any(our_cells(result, columns)):
            table.add_row("", "", _label(result), *our_cells(result, columns), style="bold green")
    return table


def _label(results: Results) -> str:
    k = results.config["k"]
    return f"ours: {results.model}" + ("" if k == 32 else f", Ave@{k}")


def find_results(root: Path) -> list[Results]:
    """All evaluations in and below a folder, by path."""
    return [read_results(path) for path in sorted(root.glob(f"**/{RESULTS_FILE}"))]


def given_results(root: Path) -> list[Results]:
    """The evaluations of a folder, or of a results.json itself, that the user names.

    Raises:
        UserError: there is none.
    """
    found = find_results(root) if root.is_dir() else [read_results(root)]
    if not found:
        raise UserError(f"{root}: holds no {RESULTS_FILE}, nor does any folder below it; run make eval first")
    return found


def main(
    results: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RESULTS]...", help="folders of evaluations; default all below runs/"),
    ] = None,
) -> None:
    """Print the paper's Table 1 beside what was evaluated here."""
    ours = [r for path in results for r in given_results(path)] if results else find_results(Path("runs"))
    columns, paper = read_paper()
    screen = console()
    screen.print(build_table(columns, paper, ours))
    if not ours:
        screen.print("Nothing of ours is evaluated yet: make eval MODEL=...", highlight=False)


if __name__ == "__main__":
    run_app(main)
