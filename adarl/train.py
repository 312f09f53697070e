"""Train: build the parts, turn the loop, save, resume. `deepspeed --module adarl.train RECIPE [key=value ...]`.

Heavy libraries are imported inside the functions: what they read from the environment has to be set
first, and this module is the `__main__` of a rank, which the verifier's workers must not drag along.
"""

import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from adarl.build import build_engine, build_learner, build_validation, check_parts, model_and_prompts
from adarl.checkpoint import check_given
from adarl.config import Recipe, load_recipe
from adarl.errors import UserError
from adarl.launch import preload_libraries, prepare_environment, resume_command
from adarl.parts import step_settings
from adarl.run_folder import choose_folder, open_folder
from adarl.stopping import StopRequest
from adarl.together import find_place, on_all_ranks
from adarl.trainer import Ended, Trainer

if TYPE_CHECKING:
    from accelerate import Accelerator
    from rich.console import Console

    from adarl.ranks import AllRanks
    from adarl.types import Prompt
    from adarl.validation import Validation


def train(recipe: Recipe) -> Ended:
    """Run a recipe on this process's rank, from the newest checkpoint of its folder if there is one.

    Raises:
        UserError: something the user gave cannot be used; raised before any model loads.
    """
    prepare_environment()
    stop = StopRequest()
    stop.listen()
    from rich.console import Console

    from adarl.heartbeat import Heartbeat
    from adarl.ranks import AllRanks, start_ranks

    console = Console(soft_wrap=True, quiet=os.environ["RANK"] != "0")
    model_path, prompts = model_and_prompts(recipe, console.print)  # first: a mistake in them leaves no trace
    validation = build_validation(recipe, model_path, console.print)
    check_parts(recipe, model_path)
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
            check_given(recipe.run.resume)
            open_folder(folder, recipe)
            outcome = str(folder), None
        except UserError as error:
            outcome = None, str(error)
    chosen, problem = ranks.gather([outcome])[0]
    if problem is not None:
        raise UserError(problem)
    folder = Path(chosen)
    on_all_ranks(ranks, lambda: folder.mkdir(parents=True, exist_ok=True))
    return folder


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
