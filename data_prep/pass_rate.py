"""How often the model that will be trained solves each prompt: k responses a prompt, verified and counted.

    python -m data_prep.pass_rate RECIPE [KEY=VALUE]... --out DIR [--k 16] [--keep-responses]

Model, data, prompt, temperature, lengths and verifier are the recipe's own, so that the rates are those that
training will meet. DIR/pass_rates.jsonl gets one line a prompt, in the order of the data. The same command goes
on with a call that was killed; every verified response is on disk at once.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from adarl.config import Recipe, load_recipe
from adarl.launch import quiet_libraries
from adarl.prepared import locate
from adarl.prompts import build_prompts, load_problems
from adarl.types import Prompt, Verdict
from adarl.verifier import parse_error
from eval.cli import console, run_app
from eval.evaluate import Task, task
from eval.files import digest_of, open_folder, write_whole
from eval.job import Job, default_ranks, run_job
from eval.models import LoadedModel, Model, load_tokenizer
from eval.records import ProblemResult
from eval.run import default_engine

RATES_FILE = "pass_rates.jsonl"
SUMMARY_FILE = "summary.json"
STAGE = "pass_rate"  # of the seeds: neither training nor evaluation draws these samples


def pass_rate(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="what will be trained")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="keys of the recipe to change")
    ] = None,
    out: Annotated[Path, typer.Option(help="folder of results")] = Path("data/pass_rates"),
    k: Annotated[int, typer.Option(min=1, help="responses a prompt")] = 16,
    limit: Annotated[int | None, typer.Option(min=1, help="the first prompts only")] = None,
    keep_responses: Annotated[
        bool, typer.Option("--keep-responses", help="write the texts too, not only counts")
    ] = False,
    num_devices: Annotated[
        int | None,
        typer.Option(min=1, help="of this machine, an engine on each; default all, on a CPU two engines"),
    ] = None,
) -> None:
    """Sample k responses a prompt and count the correct ones."""
    screen = console()
    settings = load_recipe(recipe, overrides or [])
    quiet_libraries()
    model = Model(settings.name, settings.model.path, settings.model.path)
    loaded = load_tokenizer(model, settings.model.revision)
    prompts, notes = choose_prompts(settings, loaded, limit)
    for note in notes:
        screen.print(f"adarl: left out: {note}", highlight=False)
    config = {**_config(settings, model, k, prompts), "keep_responses": keep_responses}
    open_folder(out, config)
    tasks = [task("train", prompt, settings.run.seed, STAGE) for prompt in prompts]
    results = run_job(
        make_job(settings, loaded, tasks, k, keep_responses), out, num_devices or default_ranks()
    )
    if results is None:  # another rank than the first
        return
    rows = [rate_row(result, keep_responses) for result in results]
    write_whole(out / RATES_FILE, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    summary = {**config, "left_out": notes, "date": datetime.now(UTC).date().isoformat(), **counts(rows)}
    write_whole(out / SUMMARY_FILE, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    screen.print(
        f"adarl: {len(rows)} prompts, {100 * summary['mean_pass_rate']:.1f} % of the responses correct, "
        f"{summary['never_correct']} prompts never and {summary['always_correct']} always; "
        f"verdicts: {', '.join(f'{n} {v}' for v, n in summary['verdicts'].items())}",
        highlight=False,
    )
    screen.print(
        f"adarl: written {out / RATES_FILE}; next: python -m data_prep.select {out} --out DIR",
        highlight=False,
    )


def choose_prompts(recipe: Recipe, loaded: LoadedModel, limit: int | None) -> tuple[list[Prompt], list[str]]:
    """The prompts that training would use, and a sentence on each kind that it would leave out."""
    problems = load_problems(locate(recipe.data.path), recipe.data)[:limit]
    data = recipe.data.model_copy(update={"prompts_per_step": 1})  # no step is taken: any number will do
    return build_prompts(problems, data, loaded.tokenizer, lambda gold: parse_error(gold, recipe.verifier))


def make_job(recipe: Recipe, loaded: LoadedModel, tasks: Sequence[Task], k: int, keep_responses: bool) -> Job:
    """The recipe's sampling. The device is the engine's alone, so what shares it with a learner is lifted."""
    longest = max(len(t.prompt.token_ids) for t in tasks) + recipe.sampling.max_response_tokens
    alone = default_engine()
    engine = recipe.engine.model_copy(
        update={"sleep": False, "gpu_memory_utilization": alone.gpu_memory_utilization}
    )
    return Job(
        what="pass_rate",
        model_path=locate(recipe.model.path),
        revision=recipe.model.revision,
        engine=engine.model_dump(),
        verifier=recipe.verifier.model_dump(),
        max_sequence=min(longest, loaded.context or longest),
        max_new_tokens=recipe.sampling.max_response_tokens,
        temperature=recipe.sampling.temperature,
        k=k,
        keep_texts=keep_responses,
        tasks=tasks,
    )


def rate_row(result: ProblemResult, keep_responses: bool) -> dict[str, Any]:
    """One line of pass_rates.jsonl. Responses that the verifier failed on are neither right nor wrong."""
    graded = [s for s in result.samples if s.verdict is not Verdict.ERROR]
    row: dict[str, Any] = {
        "id": result.id,
        "problem": result.problem,
        "answer": result.gold,
        "num_samples": len(graded),
        "num_correct": result.num_correct,
        "num_truncated": sum(s.truncated for s in result.samples),
        "mean_tokens": round(sum(s.num_tokens for s in result.samples) / result.num_samples, 1),
        "verdicts": dict(Counter(s.verdict.value for s in result.samples)),
    }
    if keep_responses:
        row["responses"] = [
            {"text": s.text, "answer": s.answer, "verdict": s.verdict.value} for s in result.samples
        ]
    return row


def counts(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What the summary says of all prompts."""
    rows = list(rows)
    verdicts: Counter[str] = Counter()
    for row in rows:
        verdicts.update(row["verdicts"])
    total = sum(row["num_samples"] for row in rows)
    return {
        "prompts": len(rows),
        "mean_pass_rate": sum(row["num_correct"] for row in rows) / total if total else 0.0,
        "never_correct": sum(row["num_correct"] == 0 for row in rows),
        "always_correct": sum(row["num_correct"] == row["num_samples"] for row in rows),
        "verdicts": dict(sorted(verdicts.items())),
    }


def _config(recipe: Recipe, model: Model, k: int, prompts: Sequence[Prompt]) -> dict[str, Any]:
    """What must be the same for two calls to share a folder."""
    digest = digest_of([(p.id, p.problem, p.answer, list(p.token_ids)) for p in prompts])
    return {
        "model": model.given,
        "model_fingerprint": model.fingerprint,
        "model_revision": recipe.model.revision,
        "data": recipe.data.path,
        "prompts_digest": digest,
        "k": k,
        "temperature": recipe.sampling.temperature,
        "max_response_tokens": recipe.sampling.max_response_tokens,
        "seed": recipe.run.seed,
        "dtype": recipe.engine.dtype,
        "verifier": {"kind": recipe.verifier.kind, "extraction": recipe.verifier.extraction},
    }


if __name__ == "__main__":
    run_app(pass_rate)
