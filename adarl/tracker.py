"""Where a run's numbers go: metrics.jsonl always, a line on the console, wandb when asked."""

import json
import logging
import os
import secrets
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from adarl.config import Recipe

log = logging.getLogger(__name__)

METRICS, VALIDATION = "metrics.jsonl", "validation.jsonl"
WANDB_ID = "wandb-run-id"

CONSOLE_KEYS = {
    "reward/first_round": "reward",
    "groups/signal_share": "signal",
    "sampling/samples": "samples",
    "update/loss": "loss",
    "update/grad_norm": "grad",
    "update/entropy": "entropy",
    "gap/mean_abs": "gap",
    "time/step": "s",
}


class Tracker:
    """Writes one line a step. A resumed run keeps the lines up to its checkpoint and goes on after them.

    Args:
        folder: the run directory.
        recipe: the resolved recipe, shown to wandb.
        last_step: the step of the checkpoint that the run goes on from; 0 for a new run.
    """

    def __init__(self, folder: Path, recipe: Recipe, last_step: int, console: Console):
        self._console = console
        self._max_steps = recipe.run.max_steps
        self._files = {name: _go_on(folder, name, last_step) for name in (METRICS, VALIDATION)}
        self._wandb = _start_wandb(folder, recipe) if recipe.tracking.wandb != "off" else None

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """One step, on rank 0."""
        self._files[METRICS].write(json.dumps({"step": step, **metrics}) + "\n")
        shown = "  ".join(
            f"{name} {_short(metrics[key])}" for key, name in CONSOLE_KEYS.items() if key in metrics
        )
        note = "" if metrics.get("update/updates") else "  no prompt had a signal: update skipped"
        self._console.print(f"step {step}/{self._max_steps}  {shown}{note}", highlight=False)
        self._to_wandb(step, metrics)

    def log_validation(self, step: int, metrics: dict[str, float]) -> None:
        """A validation of the policy after a step (0: the start), on rank 0."""
        self._files[VALIDATION].write(json.dumps({"step": step, **metrics}) + "\n")
        shown = "  ".join(
            f"{key.removeprefix('validation/')} {_short(value)}" for key, value in metrics.items()
        )
        self._console.print(f"validation after step {step}  {shown}", highlight=False)
        self._to_wandb(step, metrics)

    def _to_wandb(self, step: int, metrics: dict[str, float]) -> None:
        if self._wandb is not None:
            try:
                self._wandb.log(metrics, step=step)
            except Exception as error:  # tracking must never cost the run
                log.warning("wandb failed and is left out from here on: %s", error)
                self._wandb = None

    def sync(self) -> None:
        """Bring the lines to the disk: a checkpoint must not be newer than they are."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Flush and close; wandb finishes its upload."""
        for file in self._files.values():
            file.close()
        if self._wandb is not None:
            try:
                self._wandb.finish()
            except Exception as error:
                log.warning("wandb did not finish: %s", error)


def _go_on(folder: Path, name: str, last_step: int) -> TextIO:
    """The file, cut to the lines up to a step and open for those after it."""
    path = folder / name
    rows = read_metrics(folder, name) if last_step else []  # a new start validates its step 0 anew
    kept = [row for row in rows if row["step"] <= last_step]
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(json.dumps(row) + "\n" for row in kept))
    temporary.replace(path)
    return path.open("a", buffering=1)


def read_metrics(folder: Path, name: str = METRICS) -> list[dict[str, Any]]:
    """The whole lines of a run's metrics.jsonl; a last line that was cut while written is left out."""
    path = folder / name
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            rows.append(json.loads(line))
    return rows


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _start_wandb(folder: Path, recipe: Recipe) -> Any:
    """A wandb run, or None with a warning: no key, no network and no wandb are no reason to fail."""
    try:
        import wandb

        identity = folder / WANDB_ID
        if not identity.exists():
            identity.write_text(secrets.token_hex(4) + "\n")
        online = recipe.tracking.wandb == "online" and bool(wandb.api.api_key)
        if recipe.tracking.wandb == "online" and not online:
            log.warning(
                "no wandb key is set (`wandb login`): tracking offline, `wandb sync` uploads it later"
            )
        return wandb.init(
            project=recipe.tracking.project,
            name=folder.name,
            id=identity.read_text().strip(),
            resume="allow",  # a resumed run goes on in the same one
            dir=str(folder),
            mode="online" if online else "offline",
            config=recipe.model_dump(),
        )
    except Exception as error:
        log.warning("wandb could not start and is left out: %s", error)
        return None
