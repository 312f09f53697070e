"""Public problem sets -> clean training problems, with a reason for everything that was left out.

    python -m data_prep.collect CONFIG [KEY=VALUE]... --out DIR [--eval-dir DIR]

CONFIG is a YAML file such as data_prep/openr1.yaml. DIR gets problems.jsonl, dropped.jsonl (id and reason of every
problem that was left out) and summary.json, the same bytes every time for the same input. The verifier's part is
on disk as it goes, and shared out where a launcher starts several ranks: the same command goes on with it.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from adarl.errors import UserError
from adarl.launch import quiet_libraries
from data_prep.candidates import Candidate, Dropped, read_candidates, source_name
from data_prep.collect_settings import CollectSettings, load_settings
from data_prep.filters import (
    Sifted,
    grams_of,
    without_benchmarks,
    without_duplicates,
    without_empty,
    without_long,
    without_near_duplicates,
)
from data_prep.golds import check_golds
from eval.benchmarks import ProblemSet, listed, load_sets, read_catalogue
from eval.cli import console, run_app
from eval.files import open_folder, write_whole
from eval.job import rank_and_world
from eval.models import Model, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PROBLEMS_FILE = "problems.jsonl"
DROPPED_FILE = "dropped.jsonl"
SUMMARY_FILE = "summary.json"
STAGES = {
    "empty": "no problem or no answer",
    "duplicate": "the same problem came before",
    "overlaps_eval": "in an evaluation set, or nearly",
    "near_duplicate": "nearly the same problem came before",
    "too_long": "more tokens than the limit",
    "unreadable_gold": "the verifier cannot read the gold",
    "unverified": "the references do not verify",
}


def collect(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="a YAML file, for example data_prep/openr1.yaml")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="keys of the file to change")
    ] = None,
    out: Annotated[Path, typer.Option(help="folder of results")] = Path("data/collected"),
    eval_dir: Annotated[
        Path | None, typer.Option(help="folder with local copies of the benchmarks; default: the hub")
    ] = None,
) -> None:
    """Clean, de-duplicate, decontaminate and verify problem sets."""
    screen = console()
    settings = load_settings(config, overrides or ())
    quiet_libraries()
    sets = evaluation_sets(settings, eval_dir)
    say = _sayer(screen)
    name = settings.tokenizer
    tokenizer = None if name is None else load_tokenizer(Model(name, name, name)).tokenizer
    start = time.perf_counter()
    read = read_candidates(settings.sources)
    if not read:
        raise UserError(f"{config}: {', '.join(s.path for s in settings.sources)} hold no problem")
    open_folder(
        out, {"settings": settings.model_dump(mode="json"), "eval": {s.benchmark: s.digest for s in sets}}
    )
    say(f"{len(read)} problems read from {', '.join(source_name(s) for s in settings.sources)}")
    kept, dropped = sift(read, settings, sets, tokenizer)
    seconds = time.perf_counter() - start
    say(f"{len(kept)} left for the verifier, after {seconds:.1f} s ({len(read) / seconds:.0f} problems/s)")
    checked = check_golds(kept, settings.verifier, settings.solutions_must_verify, out, say)
    if checked is None:  # another rank than the first
        return
    kept, failed = checked
    if not kept:
        raise UserError(f"{config}: no problem is left; the reasons are in {out / DROPPED_FILE}")
    summary = summarise(read, kept, [*dropped, *failed], settings)
    _write_lines(out / DROPPED_FILE, (asdict(d) for d in [*dropped, *failed]))
    _write_lines(out / PROBLEMS_FILE, map(problem_row, kept))
    write_whole(out / SUMMARY_FILE, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    print_summary(summary, screen)
    say(
        f"written {out / PROBLEMS_FILE} and {DROPPED_FILE}; next: python -m data_prep.pass_rate RECIPE data.path={out / PROBLEMS_FILE}"
    )


def evaluation_sets(settings: CollectSettings, eval_dir: Path | None) -> list[ProblemSet]:
    """The problems that training must not see."""
    catalogue = read_catalogue()
    names = settings.benchmarks if settings.benchmarks is not None else tuple(catalogue.benchmarks)
    return load_sets(listed(names, catalogue), catalogue, eval_dir, None) if names else []


def sift(
    candidates: Sequence[Candidate],
    settings: CollectSettings,
    sets: Sequence[ProblemSet],
    tokenizer: "PreTrainedTokenizerBase | None",
) -> Sifted:
    """All stages that need no verifier, in the order of STAGES; the first reason counts."""
    kept, dropped = without_empty(candidates)
    kept, duplicates = without_duplicates(kept)
    found = grams_of(kept)
    kept, seen_in_eval = without_benchmarks(kept, found, sets, settings.overlap_share)
    kept, near = without_near_duplicates(kept, found, settings.near_duplicate_share)
    dropped += [*duplicates, *seen_in_eval, *near]
    if tokenizer is not None:
        kept, long = without_long(kept, tokenizer, settings.max_prompt_tokens)
        dropped += long
    return kept, dropped


def problem_row(candidate: Candidate) -> dict[str, Any]:
    """One line of problems.jsonl."""
    return {
        "id": candidate.id,
        "problem": candidate.problem,
        "answer": candidate.answer,
        "source": candidate.source,
    }


def summarise(
    read: Sequence[Candidate],
    kept: Sequence[Candidate],
    dropped: Sequence[Dropped],
    settings: CollectSettings,
) -> dict[str, Any]:
    """Counts of each source: read, left out by stage, kept."""
    counts = Counter((d.source, d.stage) for d in dropped)
    read_of, kept_of = (Counter(c.source for c in candidates) for candidates in (read, kept))
    sources = {}
    for source in settings.sources:
        name = source_name(source)
        stages = {stage: counts[name, stage] for stage in STAGES}
        sources[name] = {"licence": source.licence, "read": read_of[name], **stages, "kept": kept_of[name]}
    return {"sources": sources, "settings": settings.model_dump(mode="json")}


def print_summary(summary: dict[str, Any], screen: Console) -> None:
    """A column for each source, a line for each stage."""
    table = Table(title="problems", title_justify="left", title_style="bold")
    table.add_column("stage", no_wrap=True)
    for name in summary["sources"]:
        table.add_column(name, justify="right")
    lines = {"read": "", **STAGES, "kept": ""}
    for stage, meaning in lines.items():
        label = f"- {stage}: {meaning}" if meaning else stage
        table.add_row(label, *(str(source[stage]) for source in summary["sources"].values()))
    screen.print(table)


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _sayer(screen: Console) -> Callable[[str], None]:
    if rank_and_world()[0] != 0:
        return lambda line: None
    return lambda line: screen.print(f"adarl: {line}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    run_app(collect)
