"""Train: build the parts, turn the loop, save, resume. `deepspeed --module adarl.train RECIPE [key=value ...]`.

Heavy libraries are imported inside the functions: what they read from the environment has to be set
first, and this module is the `__main__` of a rank, which the verifier's workers must not drag along.
"""

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adarl.config import Recipe, RecipeError, load_recipe
from adarl.draws import StepSettings, Stopwatch
from adarl.errors import UserError
from adarl.launch import preload_libraries, prepare_environment
from adarl.metrics import sampling_metrics
from adarl.parts import step_settings
from adarl.run_folder import choose_folder, dump_samples, open_folder
from adarl.seeds import derive_seed
from adarl.step import StepResult, train_step

if TYPE_CHECKING:
    from accelerate import Accelerator

    from adarl.engine import VllmEngine
    from adarl.learner import Learner
    from adarl.prompts import PromptStream
    from adarl.tracker import Tracker
    from adarl.types import Prompt
    from adarl.validation import Validation
    from adarl.verifier import Verifier

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Trainer:
    """The loop over steps with everything it turns."""

    recipe: Recipe
    folder: Path
    settings: StepSettings
    step: int  # steps done
    stream: "PromptStream"
    engine: "VllmEngine"
    verifier: "Verifier"
    learner: "Learner"
    tracker: "Tracker | None"  # on rank 0
    validation: "Validation | None"

    def run(self) -> None:
        """From the state's step to `run.max_steps`, with checkpoints, and the exported model at the end."""
        if self.step == 0:
            self._validate(0)
        for step in range(self.step + 1, self.recipe.run.max_steps + 1):
            self._turn(step)
            self._validate(step)
            every = self.recipe.run.save_every
            if step == self.recipe.run.max_steps or (every and step % every == 0):
                self._save()
        self.learner.export(self.folder / "model")

    def _turn(self, step: int) -> None:
        watch = Stopwatch()
        seed = derive_seed("step", self.recipe.run.seed, step)
        with watch("step"):
            result = train_step(
                self.stream, self.engine, self.verifier, self.learner, self.settings, seed, watch
            )
        every = self.recipe.tracking.samples_every
        if every and step % every == 0:
            dump_samples(self.folder, step, self.learner.rank, result.pools, result.groups)
        self.step = step
        self._report(step, result, watch)

    def _report(self, step: int, result: StepResult, watch: Stopwatch) -> None:
        sampling = self.recipe.sampling
        metrics = sampling_metrics(result.stats, sampling.group_size, *sampling.quotas) | result.notes
        metrics |= result.update | {"policy_version": self.learner.policy_version}
        metrics |= {f"time/{phase}": round(seconds, 4) for phase, seconds in watch.seconds.items()}
        if self.tracker is not None:
            self.tracker.log(step, metrics)
            missing = int(sum(result.notes.get(key, 0) for key in ("groups/missing", "selection/missing")))
            if missing:
                log.warning(
                    "step %d trains without %d of its %d prompts: max_rounds brought no more mixed ones",
                    step, missing, self.recipe.data.prompts_per_step,
                )  # fmt: skip

    def _validate(self, step: int) -> None:
        if self.validation is None or not self.validation.is_due(step, self.recipe.run.max_steps):
            return
        metrics = self.validation.run(self.engine, self.verifier, self.learner)
        if self.tracker is not None:
            self.tracker.log_validation(step, metrics)

    def _save(self) -> None:
        from adarl import checkpoint

        state = checkpoint.RunState(
            step=self.step,
            policy_version=self.learner.policy_version,
            data_position=self.stream.position,
            selection=self.settings.selection.state(),
            strategy=self.settings.strategy.state(),
        )
        checkpoint.save(self.folder, self.learner, state, self.recipe.run.keep_last)


def train(recipe: Recipe) -> Path:
    """Run a recipe on this process's rank, from the newest checkpoint of its folder if there is one.

    Returns:
        The run directory.

    Raises:
        RecipeError, DataError: something the user gave cannot be used; raised before any model loads.
    """
    prepare_environment()
    _quiet_libraries()
    from rich.console import Console

    from adarl import checkpoint
    from adarl.prompts import PromptStream
    from adarl.ranks import start_ranks
    from adarl.tracker import Tracker
    from adarl.verifier import Verifier

    is_main = os.environ["RANK"] == "0"
    console = Console(soft_wrap=True, quiet=not is_main)
    model_path, prompts = model_and_prompts(recipe, console.print)  # first: a mistake in them leaves no trace
    validation = build_validation(recipe, model_path, console.print)
    accelerator = start_ranks(recipe.learner)
    folder = _agree_on_folder(recipe)
    found = checkpoint.find(folder) if recipe.run.resume == "auto" else []
    state = checkpoint.load_state(found[-1]) if found else checkpoint.RunState()
    if state.step >= recipe.run.max_steps:
        console.print(f"adarl: the run in {folder} has its {recipe.run.max_steps} steps already")
        return folder
    with Verifier(recipe.verifier) as verifier:
        learner = build_learner(recipe, model_path, accelerator)
        engine = build_engine(recipe, model_path, distributed=learner.world_size > 1)
        if found:
            learner.load(found[-1])
            learner.policy_version = state.policy_version
            engine.load_weights(learner.weights())
            console.print(f"adarl: resuming after step {state.step} from {found[-1]}")
        tracker = Tracker(folder, recipe, state.step, console) if is_main else None
        console.print(f"adarl: run in {folder}, {learner.world_size} rank(s)")
        stream = PromptStream(prompts, recipe.run.seed, state.data_position)
        settings = step_settings(recipe)
        settings.selection.restore(state.selection)
        settings.strategy.restore(state.strategy)
        Trainer(
            recipe, folder, settings, state.step, stream, engine, verifier, learner, tracker, validation
        ).run()
        if tracker is not None:
            tracker.close()
        engine.shutdown()
    return folder


def _agree_on_folder(recipe: Recipe) -> Path:
    """Rank 0 chooses and opens the run directory; every rank gets it, or the error."""
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    outcome: list[str | None] = [None, None]
    if PartialState().is_main_process:
        folder = choose_folder(recipe)
        try:
            open_folder(folder, recipe)
            outcome = [str(folder), None]
        except RecipeError as error:
            outcome = [None, str(error)]
    chosen, problem = broadcast_object_list(outcome)
    if problem is not None:
        raise RecipeError(problem)
    return Path(chosen)


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


def build_learner(recipe: Recipe, model_path: str, accelerator: "Accelerator") -> "Learner":
    from adarl.learner import Learner
    from adarl.loss import LossSettings

    algorithm = recipe.algorithm
    return Learner(
        accelerator,
        model_path,
        recipe.learner,
        LossSettings(
            objective=algorithm.objective,
            ratio=algorithm.ratio,
            clip_low=algorithm.clip_low,
            clip_high=algorithm.clip_high,
            dual_clip=algorithm.dual_clip,
            aggregation=algorithm.aggregation,
            max_response_tokens=recipe.sampling.max_response_tokens,
            entropy_coefficient=algorithm.entropy_coefficient,
            engine_correction=algorithm.engine_correction,
            tis_cap=algorithm.tis_cap,
            icepop_low=algorithm.icepop_low,
            icepop_high=algorithm.icepop_high,
        ),
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


def _quiet_libraries() -> None:
    """Warnings of the libraries that a user can do nothing about; errors still show."""
    for name in ("DeepSpeed", "vllm", "torch.distributed", "datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module="torch|accelerate|deepspeed")


def print_error(error: UserError) -> None:
    """Once, however many ranks found it."""
    if os.environ.get("RANK", "0") == "0":
        for line in str(error).splitlines():
            print(f"adarl: {line}", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """`python -m adarl.train RECIPE [key=value ...]`, as the deepspeed launcher runs it on every rank."""
    given = sys.argv[1:] if arguments is None else arguments
    given = [a for a in given if not a.startswith("--local_rank")]  # the launcher's; it sets LOCAL_RANK too
    if not given or given[0].startswith("-"):
        print(
            "usage: [deepspeed [--hostfile H] --module] adarl.train RECIPE [key=value ...]", file=sys.stderr
        )
        return 2
    from adarl.report import summarise

    preload_libraries()
    try:
        start = time.perf_counter()
        folder = train(load_recipe(given[0], given[1:]))
    except UserError as error:
        print_error(error)
        return 2
    if os.environ["RANK"] == "0":
        print(summarise(folder, time.perf_counter() - start), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
