"""The loop over steps: turn, validate, save, and know when to stop."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adarl.checkpoint import RunState
from adarl.config import Recipe
from adarl.draws import StepSettings, Stopwatch
from adarl.metrics import sampling_metrics
from adarl.run_folder import dump_samples
from adarl.seeds import derive_seed
from adarl.step import StepResult, train_step
from adarl.stopping import StopRequest
from adarl.together import RankError

if TYPE_CHECKING:
    from adarl.engine import VllmEngine
    from adarl.learner import Learner
    from adarl.prompts import PromptStream
    from adarl.saves import Saves
    from adarl.tracker import Tracker
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
