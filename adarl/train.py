"""Train: build the parts, turn the loop, save, resume. `deepspeed --module adarl.train RECIPE [key=value ...]`.

Heavy libraries are imported inside the functions: what they read from the environment has to be set
first, and this module is the `__main__` of a rank, which the verifier's workers must not drag along.
"""

import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from adarl.checkpoint import RunState
from adarl.config import Recipe, RecipeError, load_recipe
from adarl.draws import StepSettings, Stopwatch
from adarl.errors import UserError
from adarl.launch import preload_libraries, prepare_environment, resume_command
from adarl.metrics import sampling_metrics
from adarl.parts import step_settings
from adarl.run_folder import choose_folder, dump_samples, open_folder
from adarl.seeds import derive_seed
from adarl.step import StepResult, train_step
from adarl.stopping import StopRequest
from adarl.together import RankError, find_place, on_all_ranks

if TYPE_CHECKING:
    from accelerate import Accelerator
    from rich.console import Console

    from adarl.engine import VllmEngine
    from adarl.learner import Learner
    from adarl.prompts import PromptStream
    from adarl.ranks import AllRanks
    from adarl.saves import Saves
    from adarl.tracker import Tracker
    from adarl.types import Prompt
    from adarl.validation import Validation
    from adarl.verifier import Verifier

log = logging.getLogger(__name__)

_NO_PROGRESS = "{} updates in a row had no finite gradient (learner.max_bad_updates): lower learner.lr or look at the data"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run came to its end."""

    folder: Path
    step: int  # steps done
    reason: str | None = None  # None: all of run.max_steps
    code: int = 0  # of the process


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
    saves: "Saves"
    stop: StopRequest
    tracker: "Tracker | None"  # on rank 0
    validation: "Validation | None"

    def run(self) -> Ended:
        """From the state's step to `run.max_steps`, with checkpoints, and the exported model at the end.

        Less far where somebody asks to stop, updates stay without effect, or nothing can be saved.
        """
        saved, score = self.step, self._validate(0) if self.step == 0 else None
        while self.step < self.recipe.run.max_steps:
            reason, code = self.stop.agreed(self.learner), 0
            if reason is None and self.learner.bad_updates_in_a_row >= self.recipe.learner.max_bad_updates:
                reason, code = _NO_PROGRESS.format(self.learner.bad_updates_in_a_row), 1
            if reason is not None:
                problem = self._save(score) if saved < self.step else None
                return self._ended(problem or reason, 1 if problem else code)
            self._turn(self.step + 1)
            score = self._validate(self.step)
            if self._save_is_due(score):
                problem = self._save(score)
                if problem is None:
                    saved = self.step
                elif self.recipe.run.on_save_failure == "stop" or self.step == self.recipe.run.max_steps:
                    return self._ended(problem, 1)
                else:
                    log.warning("%s; the run goes on, the checkpoint before it stays", problem)
        try:
            self.saves.final_model(self.step)
        except RankError as error:
            return self._ended(f"the model cannot be written ({error})", 1)
        return self._ended()

    def _ended(self, reason: str | None = None, code: int = 0) -> Ended:
        return Ended(self.folder, self.step, reason, code)

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

    def _validate(self, step: int) -> float | None:
        """The score after this step, None where no validation is due."""
        if self.validation is None or not self.validation.is_due(step, self.recipe.run.max_steps):
            return None
        metrics = self.validation.run(self.engine, self.verifier, self.learner)
        if self.tracker is not None:
            self.tracker.log_validation(step, metrics)
        score = metrics[f"validation/avg_at_{self.validation.k}"]
        if step and self.recipe.run.keep_best and self.recipe.run.best == "model":
            try:
                self.saves.best_model(step, score)
            except RankError as error:
                log.warning("the model after step %d cannot be kept among the best (%s)", step, error)
        return score

    def _state(self, score: float | None) -> RunState:
        return RunState(
            step=self.step,
            policy_version=self.learner.policy_version,
            data_position=self.stream.position,
            selection=self.settings.selection.state(),
            strategy=self.settings.strategy.state(),
            world_size=self.learner.world_size,
            score=score,
        )

    def _save_is_due(self, score: float | None) -> bool:
        run = self.recipe.run
        if self.step == run.max_steps or (run.save_every and self.step % run.save_every == 0):
            return True
        return score is not None and run.best == "checkpoint" and self.saves.is_best(self._state(score))

    def _save(self, score: float | None) -> str | None:
        """Save; the reason where it fails."""
        if self.tracker is not None:
            self.tracker.sync()
        try:
            self.saves.checkpoint(self._state(score))
        except RankError as error:
            return f"the checkpoint of step {self.step} cannot be written ({error})"
        return None


def train(recipe: Recipe) -> Ended:
    """Run a recipe on this process's rank, from the newest checkpoint of its folder if there is one.

    Raises:
        UserError: something the user gave cannot be used; raised before any model loads.
    """
    prepare_environment()
    _quiet_libraries()
    stop = StopRequest()
    stop.listen()
    from rich.console import Console

    from adarl.heartbeat import Heartbeat
    from adarl.ranks import AllRanks, start_ranks

    console = Console(soft_wrap=True, quiet=os.environ["RANK"] != "0")
    model_path, prompts = model_and_prompts(recipe, console.print)  # first: a mistake in them leaves no trace
    validation = build_validation(recipe, model_path, console.print)
    if recipe.learner.lora is not None:
        from adarl.lora import check_adapters

        check_adapters(recipe.learner.lora, model_path, recipe.model.revision)
    accelerator = start_ranks(recipe.learner, recipe.run.collective_minutes)
    ranks = AllRanks(accelerator)
    with Heartbeat(ranks, recipe.run.heartbeat_seconds):
        folder = _agree_on_folder(recipe, ranks)
        try:
            return _train_in(
                folder, recipe, model_path, prompts, validation, accelerator, ranks, stop, console
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(str(folder)) from None


def _train_in(
    folder: Path,
    recipe: Recipe,
    model_path: str,
    prompts: list["Prompt"],
    validation: "Validation | None",
    accelerator: "Accelerator",
    ranks: "AllRanks",
    stop: StopRequest,
    console: "Console",
) -> Ended:
    """Take the run in a folder up and turn it to its end."""
    from adarl.prompts import PromptStream
    from adarl.resuming import find_start, finish, readable
    from adarl.saves import Saves
    from adarl.tracker import Tracker
    from adarl.verifier import Verifier

    place = find_place(folder, ranks)
    say = lambda line: console.print(f"adarl: {line}", highlight=False)  # noqa: E731
    start, state = find_start(recipe, folder, ranks, place, say)
    if start is not None and state.step >= recipe.run.max_steps:
        say(f"the run in {folder} has its {recipe.run.max_steps} steps already")
        finish(folder, start, state.step, ranks)
        return Ended(folder, state.step)
    with Verifier(recipe.verifier) as verifier:
        stage = recipe.learner.zero_stage
        with readable(start, state, folder, stage, accelerator, ranks) as checkpoint:
            learner = build_learner(recipe, model_path, accelerator)
            engine = build_engine(recipe, model_path, distributed=learner.world_size > 1)
            if checkpoint is not None:
                learner.load(checkpoint)
                learner.policy_version = state.policy_version
                engine.load_weights(learner.weights())
                say(f"resuming after step {state.step} from {start}")
        tracker = Tracker(folder, recipe, state.step, console) if ranks.rank == 0 else None
        say(f"run in {folder}, {learner.world_size} rank(s)")
        stream = PromptStream(prompts, recipe.run.seed, state.data_position)
        settings = step_settings(recipe)
        settings.selection.restore(state.selection)
        settings.strategy.restore(state.strategy)
        saves = Saves(folder, learner, place, recipe.run)
        ended = Trainer(
            recipe, folder, settings, state.step, stream, engine, verifier, learner, saves, stop, tracker, validation
        ).run()  # fmt: skip
        if tracker is not None:
            tracker.close()
        engine.shutdown()
    return ended


def _agree_on_folder(recipe: Recipe, ranks: "AllRanks") -> Path:
    """Rank 0 chooses and opens the run directory; every rank gets it, or the error, and makes sure that it is there."""
    outcome: tuple[str | None, str | None] = (None, None)
    if ranks.rank == 0:
        folder = choose_folder(recipe)
        try:
            open_folder(folder, recipe)
            outcome = str(folder), None
        except RecipeError as error:
            outcome = None, str(error)
    chosen, problem = ranks.gather([outcome])[0]
    if problem is not None:
        raise RecipeError(problem)
    folder = Path(chosen)
    on_all_ranks(ranks, lambda: folder.mkdir(parents=True, exist_ok=True))
    return folder


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
    start = time.perf_counter()
    try:
        ended = train(load_recipe(given[0], given[1:]))
    except UserError as error:
        print_error(error)
        return 2
    except KeyboardInterrupt as error:
        again = f"; resume with: {resume_command(given, error.args[0])}" if error.args else ""
        print_error(UserError(f"interrupted, what came after the last checkpoint is lost{again}"))
        _leave(130)
    except Exception:
        if os.environ["WORLD_SIZE"] == "1":
            raise
        traceback.print_exc()
        _leave(1)  # an ordinary end would wait for ranks that do not answer
    if os.environ["RANK"] == "0" and ended.reason is None:
        print(summarise(ended.folder, time.perf_counter() - start), flush=True)
    elif ended.reason is not None:
        again = resume_command(given, str(ended.folder))
        print_error(UserError(f"stopped after step {ended.step}: {ended.reason}; resume with: {again}"))
    return ended.code


def _leave(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
