"""The recipe's sections -> the heavy parts of a run.

Heavy libraries are imported inside the functions: a rank's environment has to be set first.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING

from adarl.config import Recipe, RecipeError
from adarl.seeds import derive_seed

if TYPE_CHECKING:
    from accelerate import Accelerator

    from adarl.engine import VllmEngine
    from adarl.learner import Learner
    from adarl.types import Prompt
    from adarl.validation import Validation


def model_and_prompts(recipe: Recipe, say: Callable[[str], None]) -> tuple[str, list["Prompt"]]:
    """The model's local path or hub id, and the prompts that can be trained on; builds what is `prepared:`."""
    from transformers import AutoTokenizer

    from adarl.prepared import locate
    from adarl.prompts import build_prompts, load_problems
    from adarl.verifier import parse_error

    model_path = locate(recipe.model.path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_path, revision=recipe.model.revision)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise RecipeError(
            f"model.path = {model_path}: no model can be loaded from there ({reason})"
        ) from error
    problems = load_problems(locate(recipe.data.path), recipe.data)
    prompts, notes = build_prompts(
        problems, recipe.data, tokenizer, lambda gold: parse_error(gold, recipe.verifier)
    )
    say(f"adarl: {len(prompts)} prompts from {recipe.data.path}")
    for note in notes:
        say(f"adarl: left out: {note}")
    return model_path, prompts


def build_validation(recipe: Recipe, model_path: str, say: Callable[[str], None]) -> "Validation | None":
    """The recipe's held-out problems, None without a `validation:` section."""
    if recipe.validation is None:
        return None
    from adarl.validation import Validation

    given = recipe.validation
    data = recipe.data.model_copy(update={"path": given.path, "split": given.split, "prompts_per_step": 1})
    _, prompts = model_and_prompts(
        recipe.model_copy(
            update={"data": data, "model": recipe.model.model_copy(update={"path": model_path})}
        ),
        say,
    )
    return Validation(prompts, given.k, given.every, recipe.run.seed)


def check_parts(recipe: Recipe, model_path: str) -> None:
    """What of the recipe the libraries, this machine or this model cannot do, before any weights are loaded.

    Raises:
        UserError: a setting of DeepSpeed's or vLLM's own is not theirs; liger or adapters cannot be had.
    """
    if recipe.learner.deepspeed:
        from adarl.ranks import check_deepspeed

        check_deepspeed(recipe.learner)
    if recipe.engine.vllm:
        from adarl.engine import check_engine

        check_engine(recipe.engine)
    if recipe.learner.liger:
        from adarl.kernels import check_liger

        check_liger()
    if recipe.learner.lora is not None:
        from adarl.lora import check_adapters

        check_adapters(recipe.learner.lora, model_path, recipe.model.revision)


def build_learner(recipe: Recipe, model_path: str, accelerator: "Accelerator") -> "Learner":
    from adarl.learner import Learner
    from adarl.loss import LossSettings

    algorithm = recipe.algorithm
    chosen = algorithm.model_dump(include={field.name for field in fields(LossSettings)})
    return Learner(
        accelerator,
        model_path,
        recipe.learner,
        LossSettings(**chosen, max_response_tokens=recipe.sampling.max_response_tokens),
        updates_per_step=algorithm.updates_per_step,
        temperature=recipe.sampling.temperature,
        seed=derive_seed("learner", recipe.run.seed) % 2**32,
        revision=recipe.model.revision,
    )


def build_engine(recipe: Recipe, model_path: str, distributed: bool) -> "VllmEngine":
    from adarl.engine import VllmEngine

    return VllmEngine(
        model_path,
        recipe.engine,
        revision=recipe.model.revision,
        max_prompt_tokens=recipe.data.max_prompt_tokens,
        max_response_tokens=recipe.sampling.max_response_tokens,
        temperature=recipe.sampling.temperature,
        seed=derive_seed("engine", recipe.run.seed) % 2**31,
        distributed=distributed,
    )
