"""Runs of the real stack in subprocesses, and what they left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TIMEOUT = 420  # seconds; the first run of all builds the base model


def run(*command: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the installed environment in the project's folder."""
    result = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=PROJECT,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **env},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if check and result.returncode != 0:
        raise AssertionError(
            f"{' '.join(command)} ended with {result.returncode}:\n{result.stdout}\n{result.stderr}"
        )
    return result


def train(folder: Path, *overrides: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`adarl train recipes/tiny_cpu.yaml` into a folder."""
    return run("adarl", "train", "recipes/tiny_cpu.yaml", f"run.dir={folder}", *overrides, **env)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without the times."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


def pools(folder: Path, step: int) -> list[dict[str, Any]]:
    """The samples of a step over all ranks, by prompt."""
    files = sorted((folder / "samples").glob(f"step-{step:06d}.rank-*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted(rows, key=lambda row: (row["prompt_id"], row["index"]))
