"""Where a run goes on from, and how a checkpoint of other ranks is made readable."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from adarl import checkpoint, manifest
from adarl.checkpoint import CheckpointError, RunState
from adarl.config import Recipe
from adarl.export import export, read_step
from adarl.protocols import Ranks
from adarl.run_folder import remove_samples_after
from adarl.together import Place, on_all_ranks

if TYPE_CHECKING:
    from accelerate import Accelerator


def find_start(
    recipe: Recipe, folder: Path, ranks: Ranks, place: Place, say: Callable[[str], None]
) -> tuple[Path | None, RunState]:
    """The checkpoint that the run goes on from, None for a new run; all ranks together.

    Leftovers of killed saves go, and what the folder holds of a later future is set aside.

    Raises:
        CheckpointError: run.resume names one that cannot be used, or all of the run's are damaged.
    """
    on_all_ranks(ranks, lambda: checkpoint.clean(folder, place))
    if recipe.run.resume == "never":
        return None, RunState()
    if recipe.run.resume == "auto":
        start = checkpoint.newest_whole(folder, ranks, place, say)
    else:
        start = checkpoint.given(Path(recipe.run.resume), ranks, place)
    path, state = start or (None, RunState())
    changed = path is not None and state.world_size != ranks.world_size
    if changed and recipe.learner.zero_stage in (1, 2):
        raise CheckpointError(
            f"{path} was written by {state.world_size} ranks and this run has {ranks.world_size}: with "
            f"learner.zero_stage = {recipe.learner.zero_stage} start as many, or train with stage 3"
        )
    aside = _leave_later_future(folder, state.step, place)
    for old in aside:
        say(f"{old.name} is of steps that are taken anew: renamed, remove it when you do not need it")
    ranks.gather([None])
    return path, state


@contextmanager
def readable(
    path: Path | None,
    state: RunState,
    folder: Path,
    zero_stage: int,
    accelerator: "Accelerator",
    ranks: Ranks,
) -> Iterator[Path | None]:
    """The checkpoint as this number of ranks can load it: itself, or for the time of the block a converted copy.

    The learner has to be built inside of the block.

    Raises:
        CheckpointError: it has to be converted, and parts of it lie on other nodes.
        RankError: the conversion failed.
    """
    if path is None or state.world_size == ranks.world_size or zero_stage != 3:
        yield path
        return
    from adarl import learner_state

    missing = ranks.gather([learner_state.shards_missing(path, state.world_size)])[0]
    if missing:
        raise CheckpointError(
            f"{path} was written by {state.world_size} ranks and this run has {ranks.world_size}: for that rank 0 has to "
            f"see all shards, and those of rank {', '.join(map(str, missing))} lie on other nodes; copy them there"
        )
    converted = folder / "checkpoints" / ".converted.tmp"
    is_main = ranks.rank == 0
    on_all_ranks(ranks, lambda: learner_state.convert(path, converted) if is_main else None)
    learner_state.take_any_number_of_ranks(accelerator)
    yield converted
    on_all_ranks(ranks, lambda: shutil.rmtree(converted) if is_main else None)


def finish(folder: Path, start: Path, step: int, ranks: Ranks) -> None:
    """Make the final model of a run that has its steps but was killed before the model was there; rank 0 does it."""
    model = folder / "model"
    if ranks.rank == 0 and not (manifest.is_closed(model) and read_step(model) == step):
        shutil.rmtree(model, ignore_errors=True)
        export(start, model)
    ranks.gather([None])


def _leave_later_future(folder: Path, step: int, place: Place) -> list[Path]:
    """Remove or rename what was written after the step that the run goes on from."""
    if not place.is_keeper:
        return []
    remove_samples_after(folder, step)
    for best in (folder / "best").glob("step-*"):
        if checkpoint.step_of(best) > step:
            shutil.rmtree(best)
    return checkpoint.set_aside_newer(folder, step)
