"""`adarl check`: validate recipes and print what they will do and need. Loads no weights, asks no network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from adarl.architecture import model_shape
from adarl.config import Recipe, load_recipe
from adarl.errors import UserError
from adarl.memory import GIB, ModelShape
from adarl.plan import DevicePlan, StepPlan, device_plan, misfits, problems, step_plan, tight, warnings

Rows = Iterator[tuple[str, str, str]]  # what, how much, how it comes about


@dataclass(slots=True)
class Outcome:
    """What became of one recipe; without a problem the plan has been printed."""

    problems: list[str] = field(default_factory=list)
    misfits: list[str] = field(default_factory=list)


def check(path: str, ranks: int, device_bytes: int | None, console: Console) -> Outcome:
    """Validate one recipe and print its plan, or return what is wrong with it."""
    try:
        recipe = load_recipe(path)
        shape, source = model_shape(recipe.model, recipe.learner.lora)
    except UserError as error:
        return Outcome(problems=str(error).splitlines())
    if found := [f"{path}: {sentence}" for sentence in problems(recipe, shape)]:
        return Outcome(problems=found)
    step = step_plan(recipe, ranks)
    table = Table(
        title=f"{path}: valid", title_justify="left", title_style="bold", show_header=False, box=None
    )
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify, overflow="fold")
    for row in step_rows(recipe, step, ranks):
        table.add_row(*row)
    notes = list(warnings(recipe, ranks))
    outcome = Outcome()
    if shape is None:
        table.add_row("model", recipe.model.path, f"memory skipped, because: {source}")
    else:
        table.add_row("model", _count(shape.parameters), f"parameters of {recipe.model.path}, by {source}")
        if shape.adapters:
            table.add_row("adapters", _count(shape.adapters), "parameters, which alone are trained")
        memory = device_plan(recipe, shape, step, ranks, device_bytes)
        for row in memory_rows(recipe, shape, step, memory, ranks):
            table.add_row(*row)
        outcome.misfits = list(misfits(memory, recipe, step, ranks))
        notes += tight(memory)
    console.print(table)
    for sentence in notes:
        console.print(f"  [yellow]note[/]: {sentence}", highlight=False)
    for sentence in outcome.misfits:
        console.print(f"  [red]does not fit[/]: {sentence}", highlight=False)
    console.print()
    return outcome


def step_rows(recipe: Recipe, step: StepPlan, ranks: int) -> Rows:
    """The loop's numbers."""
    sampling = recipe.sampling
    in_rounds = sampling.strategy in ("positive_focused", "balanced")
    rounds = f"rounds of {sampling.samples_per_round}, up to {sampling.num_rounds}, " if in_rounds else ""
    yield "steps", f"{recipe.run.max_steps}", f"of {step.prompts} prompts, on {ranks} rank(s)"
    yield (
        "samples a step",
        _span(step.least_samples, step.most_samples),
        f"{sampling.strategy}: {rounds}group size {sampling.group_size}",
    )
    yield (
        "tokens a step",
        f"<= {step.most_tokens:,}",
        f"responses of at most {sampling.max_response_tokens} tokens",
    )
    yield (
        "updates a step",
        f"{step.updates}",
        f"of at most {step.sequences_per_update} sequences, in microbatches of at most {step.microbatch_tokens} tokens: "
        f"about {step.microbatches} a rank, if prompts and responses are half as long as allowed",
    )


def memory_rows(recipe: Recipe, shape: ModelShape, step: StepPlan, plan: DevicePlan, ranks: int) -> Rows:
    """GiB a device. The formulas are in memory.py."""
    learner, engine, settings = plan.learner, plan.engine, recipe.learner
    saved = "each layer's input and one layer" if settings.gradient_checkpointing else "all layers"
    yield (
        "learner, GiB a device",
        "",
        f"{settings.dtype}, ZeRO stage {settings.zero_stage} over {ranks} rank(s)",
    )
    yield "  weights", _gib(learner.weights), ""
    yield "  gradients", _gib(learner.gradients), ""
    yield (
        "  optimizer",
        _gib(learner.optimizer),
        "Adam's moments, and float32 weights where those above are not",
    )
    yield "  reduce bucket", _gib(learner.reduce_bucket), "what gradients are collected in"
    yield "  gathered layers", _gib(learner.gathered), "at most; stage3_max_live_parameters bounds them"
    yield "  activations", _gib(learner.activations), f"of {step.microbatch_tokens} tokens: {saved}"
    yield "  logits", _gib(learner.logits), "of one chunk"
    yield "  optimizer step", _gib(learner.step_buffers), "in place of the three lines above it"
    if learner.host:
        yield "  host", _gib(learner.host), "offloaded, in the host's memory, a rank"
    yield "engine, GiB a device", "", recipe.engine.dtype
    yield "  weights", _gib(engine.weights), ""
    kv = f"{engine.kv_bytes_per_token / 1024:.4g} KiB a token"
    if engine.kv_cache is None:
        share = recipe.engine.gpu_memory_utilization
        yield "  KV cache", "?", f"{kv}; {share:g} of the device less the weights: give --device-memory-gib"
    else:
        held = engine.full_sequences(step.longest)
        yield "  KV cache", _gib(engine.kv_cache), f"{kv}: {held} sequences of {step.longest} tokens at once"
    of = "" if plan.device_bytes is None else f"of {plan.device_bytes / GIB:.4g}"
    yield "together, GiB a device", "", of
    yield "  while sampling", _gib(plan.sampling), "learner's states and engine"
    asleep = "the engine asleep (CUDA)" if plan.engine_sleeps else "and engine"
    yield "  in an update", _gib(plan.learning), f"learner, {asleep}"


def _gib(size: int | None) -> str:
    return "?" if size is None else f"{size / GIB:.2f}"


def _count(number: int) -> str:
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.4g} M"


def _span(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def check_all(paths: Sequence[str], ranks: int, device_bytes: int | None) -> tuple[list[str], int]:
    """Check every recipe, whatever becomes of the others.

    Returns:
        The problems of all, and how many recipes do not fit.
    """
    console = Console(soft_wrap=True)
    outcomes = [check(path, ranks, device_bytes, console) for path in paths]
    return [p for o in outcomes for p in o.problems], sum(bool(o.misfits) for o in outcomes)
