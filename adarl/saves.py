"""What a run keeps of itself: checkpoints, the best models, the final model."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adarl import checkpoint
from adarl.checkpoint import RunState
from adarl.config import RunSettings
from adarl.export import read_score, write_step
from adarl.together import Place

if TYPE_CHECKING:
    from adarl.learner import Learner


@dataclass(frozen=True, slots=True)
class Saves:
    """Writes into the run directory; all ranks together. Every method raises RankError where a disk fails."""

    folder: Path
    learner: "Learner"
    place: Place
    settings: RunSettings

    def checkpoint(self, state: RunState) -> None:
        """Save the whole state under its step; with run.best=checkpoint the best ones stay beside the newest."""
        best = self._best_checkpoints(state) if self.settings.best == "checkpoint" else set()

        def fill(temporary: Path) -> None:
            self.learner.save(temporary, on_each_node=not self.place.is_shared)
            if self.place.is_keeper:
                self.learner.write_model_files(temporary / checkpoint.MODEL_FILES)

        checkpoint.save(
            self.folder, self.learner, self.place, state, fill,
            spared=lambda old: checkpoint.step_of(old) in best, keep_last=self.settings.keep_last,
        )  # fmt: skip

    def best_model(self, step: int, score: float) -> None:
        """Export the policy into best/ if its score is among the run.keep_best highest, in place of the lowest."""
        folder = self.folder / "best"
        held = (
            {checkpoint.step_of(p): read_score(p) for p in folder.glob("step-??????*")}
            if self._writes
            else {}
        )
        held |= {step: score}
        kept = self.learner.gather([best_steps(held, self.settings.keep_best)])[0]
        if step not in kept:
            return

        def fill(temporary: Path) -> None:
            self.learner.export(temporary)
            if self._writes:
                write_step(temporary, step, score)

        self._write_model(folder / f"step-{step:06d}", fill)
        if self._writes:
            for old in set(held) - set(kept):
                shutil.rmtree(folder / f"step-{old:06d}")

    def final_model(self, step: int) -> None:
        """Export the policy into model/."""

        def fill(temporary: Path) -> None:
            self.learner.export(temporary)
            if self._writes:
                write_step(temporary, step)

        self._write_model(self.folder / "model", fill)

    def is_best(self, state: RunState) -> bool:
        """Whether a state's score is among the run.keep_best highest of the checkpoints that there are."""
        return state.step in self._best_checkpoints(state)

    def _best_checkpoints(self, state: RunState) -> set[int]:
        states = [checkpoint.load_state(p) for p in checkpoint.find(self.folder)] + [state]
        scores = {s.step: s.score for s in states if s.score is not None}
        return set(self.learner.gather([best_steps(scores, self.settings.keep_best)])[0])

    def _write_model(self, target: Path, fill: Callable[[Path], None]) -> None:
        """Only where rank 0 is: it alone has the whole model."""
        checkpoint.write_whole(target, self.learner, self.place, fill, everywhere=False)

    @property
    def _writes(self) -> bool:
        return self.learner.rank == 0


def best_steps(scores: dict[int, float], count: int) -> list[int]:
    """The steps of the highest scores, best first; of equal ones the earlier."""
    return sorted(scores, key=lambda step: (-scores[step], step))[:count]
