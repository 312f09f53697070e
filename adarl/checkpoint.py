"""Checkpoints of a run: written under a temporary name, renamed when whole, found again by step."""

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from adarl.learner import Learner

STATE_FILE = "state.json"
_NAME = re.compile(r"step-(\d{6})")


class RunState(BaseModel):
    """What the loop itself has to know to go on: everything else is in the learner's state."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int = 0  # steps done
    policy_version: int = 0  # updates done
    data_position: int = 0  # of the prompt stream
    selection: dict[str, Any] = {}  # what the selection and the strategy remember
    strategy: dict[str, Any] = {}


def save(folder: Path, learner: "Learner", state: RunState, keep_last: int) -> Path:
    """Save on all ranks together; returns the checkpoint's folder.

    A folder named step-NNNNNN is always whole: it gets that name as the last thing.
    """
    checkpoints = folder / "checkpoints"
    target = checkpoints / f"step-{state.step:06d}"
    temporary = checkpoints / f".{target.name}.tmp"
    if learner.rank == 0:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    learner.barrier()
    learner.save(temporary)
    learner.barrier()
    if learner.rank == 0:
        (temporary / STATE_FILE).write_text(state.model_dump_json(indent=2) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
        for old in find(folder)[:-keep_last]:
            shutil.rmtree(old)
    learner.barrier()
    return target


def find(folder: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = [
        p
        for p in (folder / "checkpoints").glob("step-*")
        if _NAME.fullmatch(p.name) and (p / STATE_FILE).exists()
    ]
    return sorted(found)


def load_state(checkpoint: Path) -> RunState:
    """The loop's part of a checkpoint."""
    return RunState.model_validate(json.loads((checkpoint / STATE_FILE).read_text()))
