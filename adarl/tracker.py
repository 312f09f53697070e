"""Where a run's numbers go: metrics.jsonl always, a line on the console, wandb when asked."""

import json
import logging
from pathlib import Path
from typing import Any

from rich.console import Console

from adarl.config import Recipe

log = logging.getLogger(__name__)

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
        path = folder / "metrics.jsonl"
        kept = [row for row in read_metrics(folder) if row["step"] <= last_step]
        temporary = path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in kept))
        temporary.replace(path)
        self._file = path.open("a", buffering=1)
        self._wandb = _start_wandb(folder, recipe) if recipe.tracking.wandb != "off" else None

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """One step, on rank 0."""
        self._file.write(json.dumps({"step": step, **metrics}) + "\n")
        shown = "  ".join(
            f"{name} {_short(metrics[key])}" for key, name in CONSOLE_KEYS.items() if key in metrics
        )
        note = "" if metrics.get("update/updates") else "  no prompt had a signal: update skipped"
        self._console.print(f"step {step}/{self._max_steps}  {shown}{note}", highlight=False)
        if self._wandb is not None:
            try:
                self._wandb.log(metrics, step=step)
            except Exception as error:  # tracking must never cost the run
                log.warning("wandb failed and is left out from here on: %s", error)
                self._wandb = None

    def close(self) -> None:
        """Flush and close; wandb finishes its upload."""
        self._file.close()
        if self._wandb is not None:
            try:
                self._wandb.finish()
            except Exception as error:
                log.warning("wandb did not finish: %s", error)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's metrics.jsonl; a last line that was cut while written is left out."""
    path = folder / "metrics.jsonl"
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

        online = recipe.tracking.wandb == "online" and bool(wandb.api.api_key)
        if recipe.tracking.wandb == "online" and not online:
            log.warning(
                "no wandb key is set (`wandb login`): tracking offline, `wandb sync` uploads it later"
            )
        return wandb.init(
            project=recipe.tracking.project,
            name=folder.name,
            dir=str(folder),
            mode="online" if online else "offline",
            config=recipe.model_dump(),
        )
    except Exception as error:
        log.warning("wandb could not start and is left out: %s", error)
        return None
