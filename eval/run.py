"""Evaluate models: Ave@k, pass@k and maj@k on the paper's benchmarks.

    python -m eval.run MODEL... [--benchmarks math500,aime_like] [--k 32] [--data-dir DIR] [--limit N] [--out DIR]
    python -m eval.run --compare A B

The same command goes on with an evaluation that was killed. docs/eval.md explains the numbers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from adarl.config import EngineSettings
from adarl.errors import UserError
from adarl.launch import has_cuda, quiet_libraries
from adarl.prepared import locate
from adarl.verifier import VerifierSettings
from eval.benchmarks import CATALOGUE, PAPER, Listed, ProblemSet, listed, load_sets, read_catalogue
from eval.cli import console, run_app, with_changes
from eval.compare import print_comparison
from eval.files import digest_of, open_folder
from eval.job import Job, default_ranks, rank_and_world, run_job
from eval.models import find_models, load_tokenizer, prompt_settings
from eval.plan import Plan, Sampling, make_plan
from eval.report import Results, make_results, plot_pass_at_k, print_table, read_results, write_results
from eval.summary import table_rows

PAPER_K = 32
PAPER_TOKENS = 4096
CPU_TOKENS = 1024  # of a model that rambles, 4096 take most of an hour where 1024 take a quarter


def run(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL...", help="hub ids, folders, runs, prepared:NAME/model"),
    ] = None,
    benchmarks: Annotated[
        str, typer.Option(help="names from the file of benchmarks, with commas")
    ] = ",".join(PAPER),
    k: Annotated[int | None, typer.Option(min=1, help="samples a problem; default 32, greedy 1")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="folder with local copies; default: the hub")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="problems of each name; default all")] = None,
    out: Annotated[
        Path | None, typer.Option(help="folder of results, one below it a model; default runs/eval-...")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.01)] = 1.0,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="the most likely response, once a problem")
    ] = False,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, help=f"longest response; default {PAPER_TOKENS}, on a CPU {CPU_TOKENS}"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="names the draws: same seed, same samples")] = 0,
    system_prompt: Annotated[
        str | None, typer.Option(help="default: a run's own, else the paper's; '' for none")
    ] = None,
    prompt_suffix: Annotated[str | None, typer.Option(help="after each problem; default as above")] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="a key of a recipe's engine section; repeatable"),
    ] = None,
    verifier: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="a key of a recipe's verifier section; repeatable"),
    ] = None,
    num_devices: Annotated[
        int | None,
        typer.Option(min=1, help="of this machine, an engine on each; default all, on a CPU two engines"),
    ] = None,
    catalogue: Annotated[Path, typer.Option(help="the file of benchmarks")] = CATALOGUE,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A B", help="two folders of results: print B - A, paired"),
    ] = None,
) -> None:
    """Evaluate models, or compare two evaluations."""
    screen = console()
    if compare is not None:
        print_comparison(read_results(compare[0]), read_results(compare[1]), screen)
        return
    if greedy and k not in (None, 1):
        raise UserError(f"--greedy draws the same response every time: leave --k {k} out")
    length = max_new_tokens or (PAPER_TOKENS if has_cuda() else CPU_TOKENS)
    sampling = Sampling(k or (1 if greedy else PAPER_K), 0.0 if greedy else temperature, length, seed)
    engine_settings = with_changes(default_engine(), engine, "--engine")
    verifier_settings = with_changes(VerifierSettings(), verifier, "--verifier")
    quiet_libraries()
    found = find_models(models or ())
    chosen, sets = choose_problems(benchmarks, catalogue, data_dir, limit)
    plans = []
    for model in found:
        prompt = prompt_settings(model, system_prompt, prompt_suffix)
        loaded = load_tokenizer(model)
        plans.append(make_plan(model, loaded, sets, sampling, prompt, engine_settings, verifier_settings))
    root = out or Path("runs") / f"eval-{_digest(plans[0])}"
    for plan in plans:
        open_folder(root / plan.model.name, plan.config())
    if max_new_tokens is None and length != PAPER_TOKENS and rank_and_world()[0] == 0:
        screen.print(
            f"adarl: no GPU: responses end at {length} tokens, the paper's at {PAPER_TOKENS}, which take several times as "
            f"long; --max-new-tokens {PAPER_TOKENS} asks for those",
            highlight=False,
        )
    devices = num_devices or default_ranks()
    results = [evaluate_model(plan, root / plan.model.name, chosen, devices, screen) for plan in plans]
    if rank_and_world()[0] == 0:
        _report(results, root, screen)


def default_engine() -> EngineSettings:
    """Evaluation has the device to itself. On a CPU: some sequences of a small model, in what is fastest there."""
    if has_cuda():
        return EngineSettings(gpu_memory_utilization=0.9, sleep=False)
    return EngineSettings(dtype="float32", max_num_seqs=96, kv_cache_gib=3.0, sleep=False)


def choose_problems(
    benchmarks: str, catalogue: Path, data_dir: Path | None, limit: int | None
) -> tuple[list[Listed], list[ProblemSet]]:
    """The names of the command line and their problems.

    Raises:
        UserError: a name is unknown, a file is missing or holds another number of problems.
    """
    held = read_catalogue(catalogue)
    chosen = listed([name.strip() for name in benchmarks.split(",") if name.strip()], held)
    return chosen, load_sets(chosen, held, data_dir, limit)


def evaluate_model(
    plan: Plan, folder: Path, chosen: Sequence[Listed], num_devices: int, screen: Console
) -> Results | None:
    """Sample what is not finished yet, and write the results; None on a rank other than 0."""
    if plan.cut_note and rank_and_world()[0] == 0:
        screen.print(f"adarl: {plan.cut_note}", highlight=False)
    job = Job(
        what=plan.model.name,
        model_path=locate(plan.model.path),
        revision=None,
        engine=plan.engine.model_dump(),
        verifier=plan.verifier.model_dump(),
        max_sequence=plan.max_sequence,
        max_new_tokens=plan.sampling.max_new_tokens,
        temperature=plan.sampling.temperature,
        k=plan.sampling.k,
        keep_texts=True,
        tasks=plan.tasks,
    )
    problems = run_job(job, folder, num_devices)
    if problems is None:
        return None
    results = make_results(
        plan.model.name, plan.config(), plan.model.recipe, table_rows(problems, chosen), problems
    )
    write_results(folder, results, problems)
    return results


def _report(results: Sequence[Results | None], root: Path, screen: Console) -> None:
    done = [r for r in results if r is not None]
    for r in done:
        print_table(r, screen)
        screen.print(f"adarl: results in {root / r.model}", highlight=False)
    if len(done) > 1:
        path = root / f"pass_at_k-{'-'.join(r.model for r in done)}.png"
        plot_pass_at_k(path, done)
        screen.print(f"adarl: pass@k of all models in {path}", highlight=False)


def _digest(plan: Plan) -> str:
    """Names what is asked of a model, whichever model it is."""
    config = {key: value for key, value in plan.config().items() if not key.startswith("model")}
    return digest_of(config)[:8]


if __name__ == "__main__":
    run_app(run)
