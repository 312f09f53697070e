"""Prompt sets by difficulty, from the counts of data_prep.pass_rate.

    python -m data_prep.select PASS_RATES --out DIR

PASS_RATES is the folder that data_prep.pass_rate wrote. DIR gets moderate.parquet, easy.parquet and hard.parquet
with the counts of each prompt, README.md (a data card) and pass_rates.png (a histogram). A recipe trains on one by
`data: {path: DIR/hard.parquet, id: id, problem: problem, answer: answer}`.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from adarl.errors import UserError
from adarl.launch import quiet_libraries
from data_prep.pass_rate import RATES_FILE, SUMMARY_FILE
from eval.cli import console, run_app
from eval.files import write_whole
from eval.rows import local_rows


@dataclass(frozen=True, slots=True)
class Band:
    """Prompts with at least one correct response and at most a share of correct ones."""

    name: str
    most: float  # share of correct responses, inclusive
    meaning: str

    def takes(self, num_correct: int, num_samples: int) -> bool:
        return num_correct >= 1 and num_correct <= self.most * num_samples


# The authors' thresholds: their data_process/prompt_selection.py has 0.313 for easy and 0.125 for hard, of 16.
BANDS = (
    Band("moderate", 1.0, "solved at least once"),
    Band("easy", 0.313, "solved at least once, at most 31.3 % of the times (5 of 16)"),
    Band("hard", 0.125, "solved at least once, at most 12.5 % of the times (2 of 16)"),
)


def select(
    pass_rates: Annotated[
        Path, typer.Argument(metavar="PASS_RATES", help="folder that data_prep.pass_rate wrote")
    ],
    out: Annotated[Path, typer.Option(help="folder of the sets")] = Path("data/selected"),
    licence: Annotated[
        str | None,
        typer.Option(help="of the problems, for the data card; default: as data_prep.collect noted it"),
    ] = None,
) -> None:
    """Write the moderate, easy and hard sets, a data card and a histogram."""
    screen = console()
    rows, summary = read_rates(pass_rates)
    quiet_libraries()
    out.mkdir(parents=True, exist_ok=True)
    graded = [row for row in rows if row["num_samples"] == summary["k"]]
    sets = {
        band.name: [r for r in graded if band.takes(r["num_correct"], r["num_samples"])] for band in BANDS
    }
    for name, chosen in sets.items():
        write_set(out / f"{name}.parquet", chosen)
    plot_histogram(out / "pass_rates.png", graded, summary["k"])
    noted = licence or noted_licence(summary["data"])
    write_whole(out / "README.md", data_card(summary, rows, sets, noted))
    screen.print(f"adarl: {len(rows)} prompts of {summary['data']}", highlight=False)
    table = Table()
    for heading in ("set", "prompts", "share", "mean pass rate"):
        table.add_column(heading, justify="left" if heading == "set" else "right")
    for name, chosen in sets.items():
        mean = f"{mean_rate(chosen):.3f}" if chosen else ""
        table.add_row(name, str(len(chosen)), f"{100 * len(chosen) / len(rows):.1f} %", mean)
    screen.print(table)
    if ungraded := len(rows) - len(graded):
        screen.print(
            f"adarl: {ungraded} prompts left out, on whose responses the verifier failed", highlight=False
        )
    for name in (name for name, chosen in sets.items() if not chosen):
        screen.print(f"adarl: no prompt is {name}: {name}.parquet was not written", highlight=False)
    screen.print(f"adarl: written to {out}", highlight=False)


def read_rates(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines and the summary of data_prep.pass_rate.

    Raises:
        UserError: it has not finished there.
    """
    if not (folder / SUMMARY_FILE).is_file():
        raise UserError(
            f"{folder}: holds no finished pass rates ({SUMMARY_FILE}); run python -m data_prep.pass_rate first"
        )
    summary = json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    return [dict(row) for row in local_rows(folder / RATES_FILE)], summary


def write_set(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One row a prompt: id, problem, answer, the counts and the rate. Nothing for an empty set."""
    import datasets

    path.unlink(missing_ok=True)  # of an earlier call with other counts
    if not rows:
        return
    chosen = [
        {
            "id": row["id"],
            "problem": row["problem"],
            "answer": row["answer"],
            "num_correct": row["num_correct"],
            "num_samples": row["num_samples"],
            "pass_rate": row["num_correct"] / row["num_samples"],
        }
        for row in rows
    ]
    temporary = path.with_name(f".{path.name}.tmp")
    datasets.Dataset.from_list(chosen).to_parquet(str(temporary))
    temporary.replace(path)


def mean_rate(rows: Sequence[dict[str, Any]]) -> float:
    return sum(row["num_correct"] for row in rows) / sum(row["num_samples"] for row in rows)


def noted_licence(data: str) -> str:
    """What data_prep.collect noted beside the problems, if they are its own."""
    path = Path(data).parent / SUMMARY_FILE
    if not path.is_file():
        return f"not noted; see the source of {data}"
    sources = json.loads(path.read_text(encoding="utf-8")).get("sources", {})
    return "; ".join(f"{name}: {held['licence']}" for name, held in sources.items()) or "not noted"


def noted_filters(data: str) -> list[str]:
    """What data_prep.collect left out of the problems, a line a source."""
    path = Path(data).parent / SUMMARY_FILE
    if not path.is_file():
        return ["none noted before the pass rates"]
    sources = json.loads(path.read_text(encoding="utf-8")).get("sources", {})
    return [
        f"{name}: " + ", ".join(f"{count} {stage}" for stage, count in held.items() if stage != "licence")
        for name, held in sources.items()
    ]


def data_card(
    summary: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    sets: dict[str, list[dict[str, Any]]],
    licence: str,
) -> str:
    """What the sets are made of, how, from what and when."""
    k = summary["k"]
    lines = ["| set | prompts | kept are prompts |", "| --- | ---: | --- |"]
    lines += [f"| {band.name} | {len(sets[band.name])} | {band.meaning} |" for band in BANDS]
    histogram = Counter(row["num_correct"] for row in rows if row["num_samples"] == k)
    bars = [
        f"| {c} | {histogram[c]} | {'#' * round(40 * histogram[c] / max(histogram.values(), default=1))} |"
        for c in range(k + 1)
    ]
    revision = f" at revision {summary['model_revision']}" if summary["model_revision"] else ""
    facts = {
        "source": summary["data"],
        "licence": licence,
        "model": f"{summary['model']}{revision}, fingerprint {summary['model_fingerprint']}, {summary['dtype']}",
        "sampling": f"{k} responses a prompt, temperature {summary['temperature']:g}, at most {summary['max_response_tokens']} tokens",
        "verifier": f"{summary['verifier']['kind']}, final answer by {summary['verifier']['extraction']}",
        "seed": summary["seed"],
        "date": summary["date"],
        "mean pass rate": f"{summary['mean_pass_rate']:.3f} of {summary['prompts']} prompts",
        "verdicts": ", ".join(f"{count} {verdict}" for verdict, count in summary["verdicts"].items()),
    }
    left_out = [*noted_filters(summary["data"]), *summary["left_out"]]
    parts = [
        "# Prompts by pass rate",
        "Columns: id, problem, answer, num_correct, num_samples, pass_rate.",
        "\n".join(lines),
        "\n".join(f"- {name}: {value}" for name, value in facts.items()),
        "Left out before:\n\n" + "\n".join(f"- {line}" for line in left_out),
        f"Correct responses of {k}:",
        "\n".join(["| correct | prompts | |", "| ---: | ---: | --- |", *bars]),
        "![pass rates](pass_rates.png)",
    ]
    return "\n\n".join(parts) + "\n"


def plot_histogram(path: Path, rows: Sequence[dict[str, Any]], k: int) -> None:
    """Prompts by number of correct responses."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    histogram = Counter(row["num_correct"] for row in rows)
    figure, panel = pyplot.subplots(figsize=(5, 3))
    panel.bar(range(k + 1), [histogram[c] for c in range(k + 1)])
    panel.set_xlabel(f"correct responses of {k}")
    panel.set_ylabel("prompts")
    figure.tight_layout()
    temporary = path.with_name(f".{path.name}.tmp")
    figure.savefig(temporary, format="png", dpi=120, metadata={"Software": None})
    pyplot.close(figure)
    temporary.replace(path)


if __name__ == "__main__":
    run_app(select)
