"""Checkpoints of a run: whole or not there, found again by step, refused when damaged.

checkpoints/step-NNNNNN/
    manifest.json   sizes and checksums of everything else, written last
    state.json      what the loop itself has to know to go on (RunState)
    pytorch_model/  DeepSpeed's shards: weights, optimizer
    scheduler.bin, random_states_RANK.pkl
    model_files/    config, generation config and tokenizer, so that `adarl export` needs nothing else

Written under a temporary name and renamed when every byte is on the disk. With a run directory local to each
node, each node holds its own ranks' files under the same name, and a checkpoint counts when all nodes have it.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from adarl import manifest
from adarl.errors import UserError
from adarl.protocols import Ranks
from adarl.together import Place, RankError, on_all_ranks

STATE_FILE = "state.json"
MODEL_FILES = "model_files"
_NAME = re.compile(r"step-(\d{6,})")


class CheckpointError(UserError):
    """A checkpoint cannot be used."""


class RunState(BaseModel):
    """What the loop itself has to know to go on: everything else is in the learner's state."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int = 0  # steps done
    policy_version: int = 0  # updates done
    data_position: int = 0  # of the prompt stream
    selection: dict[str, Any] = {}  # what the selection and the strategy remember
    strategy: dict[str, Any] = {}
    world_size: int = 1  # ranks that wrote it
    score: float | None = None  # of the validation after this step, if there was one


def write_whole(
    target: Path, ranks: Ranks, place: Place, fill: Callable[[Path], None], everywhere: bool = True
) -> None:
    """Make a folder that is whole or not there; all ranks together.

    Args:
        everywhere: on each node, where the run directory is local to the nodes; else on rank 0's alone.
        fill: writes its rank's files into the folder that it is given; may raise only after having taken
            part in everything that the ranks do together in it.

    Raises:
        RankError: a file could not be written on some rank; nothing is left of it, the old target still stands.
    """
    temporary = target.with_name(f".{target.name}.tmp")
    is_keeper = place.is_keeper and (everywhere or place.keeper == 0)
    mine: manifest.Entries = {}

    def as_keeper(work: Callable[[], None]) -> None:
        on_all_ranks(ranks, work if is_keeper else lambda: None)

    def measure() -> None:
        mine.update(manifest.entries(temporary, place.share(manifest.files(temporary))))

    def publish() -> None:
        manifest.close(temporary, {k: v for keeper, part in parts if keeper == place.keeper for k, v in part})
        replace(temporary, target)

    try:
        as_keeper(lambda: make_empty(temporary))
        on_all_ranks(ranks, lambda: fill(temporary))
        on_all_ranks(ranks, measure)
        parts = ranks.gather([(place.keeper, list(mine.items()))])
        as_keeper(publish)
    except RankError:
        if is_keeper:
            shutil.rmtree(temporary, ignore_errors=True)
        raise


def save(
    folder: Path,
    ranks: Ranks,
    place: Place,
    state: RunState,
    fill: Callable[[Path], None],
    spared: Callable[[Path], bool] = lambda checkpoint: False,
    keep_last: int = 1,
) -> Path:
    """Save on all ranks together, then remove old checkpoints; returns the checkpoint's folder.

    Args:
        fill: writes the learner's state, see `write_whole`.
        spared: whether an old checkpoint stays whatever its age.
        keep_last: newest checkpoints that stay.
    """
    target = folder / "checkpoints" / f"step-{state.step:06d}"

    def write(temporary: Path) -> None:
        fill(temporary)
        if place.is_keeper:
            (temporary / STATE_FILE).write_text(state.model_dump_json(indent=2) + "\n")

    write_whole(target, ranks, place, write)
    if place.is_keeper:  # every node has the new one by now
        for old in find(folder)[:-keep_last]:
            if not spared(old):
                shutil.rmtree(old)
    ranks.gather([None])
    return target


def find(folder: Path) -> list[Path]:
    """The checkpoints of a run that were finished, oldest first; `manifest.problem` says what became of one."""
    found = [p for p in (folder / "checkpoints").glob("step-*") if _NAME.fullmatch(p.name)]
    return sorted((p for p in found if manifest.is_closed(p)), key=step_of)


def step_of(checkpoint: Path) -> int:
    """The step in a checkpoint's name."""
    match = _NAME.fullmatch(checkpoint.name)
    if match is None:
        raise CheckpointError(f"{checkpoint} is not a checkpoint: name a folder checkpoints/step-NNNNNN")
    return int(match[1])


def clean(folder: Path, place: Place) -> None:
    """Remove what a killed process left behind."""
    if place.is_keeper:
        for probe in folder.glob(".probe-*"):
            probe.unlink(missing_ok=True)
        for parent in (folder, folder / "checkpoints", folder / "best"):
            for leftover in parent.glob(".*.tmp"):
                shutil.rmtree(leftover, ignore_errors=True)


def newest_whole(
    folder: Path, ranks: Ranks, place: Place, warn: Callable[[str], None]
) -> tuple[Path, RunState] | None:
    """The newest checkpoint that every rank finds whole, None where the run has none yet; all ranks together.

    Raises:
        CheckpointError: there are checkpoints and all of them are damaged.
    """
    names = ranks.gather([[p.name for p in find(folder)]])
    common = set.intersection(*map(set, names))
    refused = []
    for name in sorted(common, key=lambda name: step_of(Path(name)), reverse=True):
        path = folder / "checkpoints" / name
        problem = _problem(path, ranks, place)
        if problem is None:
            return path, load_state(path)
        refused.append(f"{path} is damaged ({problem})")
        warn(f"{refused[-1]} and left out")
    if refused:
        raise CheckpointError(
            f"{refused[-1]}, and {folder} has no other checkpoint: start anew in another run.dir"
        )
    return None


def given(path: Path, ranks: Ranks, place: Place) -> tuple[Path, RunState]:
    """The checkpoint that run.resume names; all ranks together.

    Raises:
        CheckpointError: it is not there, not finished or damaged.
    """
    problems = [p for p in ranks.gather([_missing(path)]) if p is not None]
    found = problems[0] if problems else _problem(path, ranks, place)
    if found is not None:
        raise _refused(path, found)
    step_of(path)
    return path, load_state(path)


def check_given(resume: str) -> None:
    """What this process alone can say of run.resume, before a run directory is made for it.

    Raises:
        CheckpointError: it names a folder that is not there or not finished.
    """
    if resume not in ("auto", "never") and (found := _missing(Path(resume))) is not None:
        raise _refused(Path(resume), found)


def _missing(path: Path) -> str | None:
    if not path.is_dir():
        return "there is no such folder"
    if not manifest.is_closed(path):
        return f"it was never finished, or is no checkpoint (no {manifest.MANIFEST})"
    return None


def _refused(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"run.resume = {path}: {why}; name another checkpoint, or run.resume=auto")


def load_state(checkpoint: Path) -> RunState:
    """The loop's part of a checkpoint."""
    return RunState.model_validate(json.loads((checkpoint / STATE_FILE).read_text()))


def set_aside_newer(folder: Path, step: int) -> list[Path]:
    """Rename the checkpoints after a step to NAME.set-aside; returns the new paths."""
    aside = []
    for path in (folder / "checkpoints").glob("step-*"):
        if _NAME.fullmatch(path.name) and step_of(path) > step:
            aside.append(path.with_name(f"{path.name}.set-aside"))
            shutil.rmtree(aside[-1], ignore_errors=True)
            path.rename(aside[-1])
    return aside


def replace(new: Path, target: Path) -> None:
    """Give a folder its final name; an old one of that name goes once the new one is there."""
    old = target.with_name(f".{target.name}.old.tmp")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    new.rename(target)
    manifest.sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def make_empty(folder: Path) -> None:
    """A new folder, whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _problem(path: Path, ranks: Ranks, place: Place) -> str | None:
    """What any rank finds wrong with its share of the files: each is read once, by one rank."""
    found = manifest.problem(path, place.share(manifest.listed(path)))
    return next((p for p in ranks.gather([found]) if p is not None), None)
