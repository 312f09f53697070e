"""Results as people read them: terminal table, results.json, results.md, samples.parquet, a plot of pass@k."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from adarl.errors import UserError
from adarl.types import Verdict
from eval.files import write_whole
from eval.records import ProblemResult
from eval.summary import AVERAGE, Row

RESULTS_FILE = "results.json"
VERDICT_TITLES = {
    Verdict.CORRECT: "correct",
    Verdict.INCORRECT: "incorrect",
    Verdict.UNPARSABLE: "unparsable",
    Verdict.NO_ANSWER: "no answer",
    Verdict.TIMEOUT: "timeout",
    Verdict.ERROR: "error",
}


@dataclass(frozen=True, slots=True)
class Results:
    """What results.json holds of one model."""

    model: str
    config: dict[str, Any]
    training: dict[str, Any]  # of a run: what it was trained with; empty for other models
    rows: list[Row]
    problems: dict[str, dict[str, float]]  # by benchmark and id: share of samples correct

    @property
    def average(self) -> Row:
        return self.rows[-1]

    def row(self, name: str) -> Row | None:
        return next((r for r in self.rows if r.name == name), None)


def make_results(
    model: str,
    config: dict[str, Any],
    recipe: dict[str, Any],
    rows: list[Row],
    problems: Sequence[ProblemResult],
) -> Results:
    """Put a model's results together; of its recipe only what says how it was trained is kept."""
    means: dict[str, dict[str, float]] = {}
    for p in problems:
        means.setdefault(p.benchmark, {})[p.id] = p.mean
    training: dict[str, Any] = {
        section: recipe[section] for section in ("model", "data", "sampling", "run") if section in recipe
    }
    return Results(model, config, training, rows, means)


def write_results(folder: Path, results: Results, problems: Sequence[ProblemResult]) -> None:
    """results.json, results.md, samples.parquet and pass_at_k.png; results.json comes last."""
    write_samples(folder / "samples.parquet", problems)
    plot_pass_at_k(folder / "pass_at_k.png", [results])
    write_whole(folder / "results.md", markdown(results))
    write_whole(folder / RESULTS_FILE, json.dumps(asdict(results), indent=1, ensure_ascii=False) + "\n")


def read_results(path: Path) -> Results:
    """The results of a folder, or of a results.json.

    Raises:
        UserError: there are none.
    """
    file = path / RESULTS_FILE if path.is_dir() else path
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        rows = [
            Row(**{**row, "pass_at_k": {int(k): v for k, v in row["pass_at_k"].items()}})
            for row in held["rows"]
        ]
        return Results(held["model"], held["config"], held["training"], rows, held["problems"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: holds no results of an evaluation ({error}); run make eval first"
        ) from error


def write_samples(path: Path, problems: Sequence[ProblemResult]) -> None:
    """One row a sample, with problem, gold, response, extracted answer and verdict."""
    import datasets

    rows = [
        {
            "benchmark": p.benchmark,
            "id": p.id,
            "sample": index,
            "verdict": s.verdict.value,
            "gold": p.gold,
            "answer": s.answer,
            "num_tokens": s.num_tokens,
            "truncated": s.truncated,
            "problem": p.problem,
            "response": s.text,
        }
        for p in problems
        for index, s in enumerate(p.samples)
    ]
    temporary = path.with_name(f".{path.name}.tmp")
    datasets.Dataset.from_list(rows).to_parquet(str(temporary))
    temporary.replace(path)


def cells(row: Row) -> list[str]:
    """A row as text: percentages with one decimal, lengths in tokens."""
    error = "" if row.standard_error is None else f"{100 * row.standard_error:.1f}"
    return [
        ("  " if row.is_member else "") + row.name,
        str(row.num_problems),
        f"{100 * row.avg_at_k:.1f}",
        error,
        f"{100 * row.pass_at_k[row.k]:.1f}",
        f"{100 * row.maj_at_k:.1f}",
        f"{row.mean_tokens:.0f}",
        f"{100 * row.truncated_share:.1f}",
        *(str(row.verdicts[verdict.value]) for verdict in VERDICT_TITLES),
    ]


def titles(k: int) -> list[str]:
    return [
        "benchmark",
        "problems",
        f"Ave@{k}",
        "s.e.",
        f"pass@{k}",
        f"maj@{k}",
        "tokens",
        "cut %",
        *VERDICT_TITLES.values(),
    ]


def print_table(results: Results, console: Console) -> None:
    """The table of one model; the last line is the average weighted by number of problems."""
    sampling = results.config
    title = (
        f"{results.model}: {sampling['k']} sample(s) a problem at temperature {sampling['temperature']:g}, "
        f"of at most {sampling['max_new_tokens']} tokens; in percent"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, heading in enumerate(titles(results.average.k)):
        table.add_column(heading, justify="left" if i == 0 else "right", no_wrap=True)
    for row in results.rows:
        table.add_row(*cells(row), end_section=row is results.rows[-2], style="dim" if row.is_member else "")
    console.print(table)
    for note in notes(results):
        console.print(f"[yellow]note[/]: {note}", highlight=False)


def notes(results: Results) -> list[str]:
    """What a reader of the numbers has to know."""
    found = []
    held = results.config["benchmarks"]
    if any(b["problems"] < b["of"] for b in held.values()):
        parts = (f"{name} {b['problems']} of {b['of']}" for name, b in held.items())
        found.append(f"not all problems: {', '.join(parts)}")
    failed = results.average.verdicts[Verdict.ERROR.value]
    if failed:
        found.append(f"the verifier failed on {failed} samples, which count as not correct; see its messages")
    return found


def markdown(results: Results) -> str:
    """The same table as a document, with pass@k for every k and the settings."""
    ks = list(results.average.pass_at_k)
    config = results.config
    main = [_line(titles(results.average.k)), _rule(len(titles(1))), *(_line(cells(r)) for r in results.rows)]
    passes = [
        _line(["benchmark", *(f"pass@{k}" for k in ks)]),
        _rule(1 + len(ks)),
        *(_line([r.name, *(f"{100 * r.pass_at_k[k]:.1f}" for k in ks)]) for r in results.rows),
    ]
    settings = [
        f"- {key}: `{json.dumps(value, ensure_ascii=False)}`"
        for key, value in config.items()
        if key != "benchmarks"
    ]
    sources = [
        f"- {name}: {held['source']}, {held['problems']} of {held['of']} problems, digest {held['digest']}"
        for name, held in config["benchmarks"].items()
    ]
    parts = [
        f"# {results.model}",
        "Percent, but tokens and verdicts, which count. `s.e.` is the standard error of Ave@k over problems; the last "
        "line is the average weighted by number of problems.",
        "\n".join(main),
        "\n".join(f"Note: {note}." for note in notes(results)),
        "\n".join(passes),
        "![pass@k](pass_at_k.png)",
        "\n".join(settings),
        "\n".join(sources),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _line(values: Sequence[str]) -> str:
    return (
        "| "
        + " | ".join(v.replace("  ", "&nbsp;&nbsp;", 1) if v.startswith("  ") else v for v in values)
        + " |"
    )


def _rule(columns: int) -> str:
    return "| --- |" + " ---: |" * (columns - 1)


def plot_pass_at_k(path: Path, models: Sequence[Results]) -> None:
    """pass@k against k, a panel for each benchmark that all models share and for the average, a line a model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shared = [r.name for r in models[0].rows if not r.is_member and all(m.row(r.name) for m in models)]
    names = shared if len(shared) > 2 else [AVERAGE]  # a single benchmark is its own average
    figure, panels = pyplot.subplots(
        1, len(names), figsize=(3.2 * len(names), 3.2), squeeze=False, sharex=True
    )
    for panel, name in zip(panels[0], names, strict=True):
        for model in models:
            row = model.row(name)
            assert row is not None
            panel.plot(
                list(row.pass_at_k), [100 * p for p in row.pass_at_k.values()], marker="o", label=model.model
            )
        panel.set_title(name)
        panel.set_xscale("log", base=2)
        ks = sorted({k for model in models for k in model.average.pass_at_k})
        panel.set_xticks(ks, labels=[str(k) for k in ks])
        panel.set_xlabel("k")
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("pass@k, %")
    panels[0][0].legend(fontsize="small")
    figure.tight_layout()
    temporary = path.with_name(f".{path.name}.tmp")
    figure.savefig(temporary, format="png", dpi=120, metadata={"Software": None})
    pyplot.close(figure)
    temporary.replace(path)
