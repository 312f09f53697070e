"""Kill a run at random moments, resume it each time, and compare its metrics with those of a run that was left alone.

    python -m bench.kills [--kills 10] [--seed 0] [--json] [--dir DIR] [RECIPE] [key=value ...]

Every other kill waits for a save and falls into it. Real engine, learner and verifier; SIGKILL to the whole
process group. Prints what differs; ends with 1 if anything does.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KEYS = ("validation=null", "tracking.samples_every=0", "run.save_every=2", "data.prompts_per_step=8")


def command(recipe: str, folder: Path, keys: list[str]) -> list[str]:
    adarl = str(Path(sys.executable).parent / "adarl")
    return [adarl, "train", recipe, f"run.dir={folder}", *KEYS, *keys]


def rows(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without the times."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in whole]


def kill_once(arguments: list[str], folder: Path, in_a_save: bool, rng: random.Random) -> str | None:
    """Start the run, kill it at a random moment after it has gone on; what it was at, None if it ended before."""
    with (folder.parent / "log").open("a") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)
    before, deadline = len(rows(folder)), time.monotonic() + 600
    delay = rng.uniform(0.0, 0.5)
    saving = False
    while process.poll() is None and time.monotonic() < deadline:
        saving = any((folder / "checkpoints").glob(".step-*.tmp"))
        if saving if in_a_save else len(rows(folder)) > before:
            time.sleep(rng.uniform(0.0, 0.02) if in_a_save else delay)
            break
        time.sleep(0.001)
    if process.poll() is not None:
        return None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = any((folder / "checkpoints").glob(".step-*.tmp"))
    return f"{'in the save after' if left else 'after'} step {len(rows(folder))}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recipe", nargs="?", default="recipes/tiny_cpu.yaml")
    parser.add_argument("keys", nargs="*")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    home = given.dir or Path(tempfile.mkdtemp(prefix="adarl-kills-"))
    home.mkdir(parents=True, exist_ok=True)
    rng, keys = random.Random(given.seed), [*given.keys, f"run.max_steps={given.steps}"]
    straight, killed = home / "straight", home / "killed"
    with (home / "log").open("a") as log:
        subprocess.run(command(given.recipe, straight, keys), check=True, stdout=log, stderr=log)
        moments = []
        for number in range(given.kills):
            moment = kill_once(command(given.recipe, killed, keys), killed, number % 2 == 1, rng)
            if moment is not None:
                moments.append(moment)
                print(f"kill {number + 1}: {moment}", file=sys.stderr, flush=True)
        subprocess.run(command(given.recipe, killed, keys), check=True, stdout=log, stderr=log)
    expected, got = rows(straight), rows(killed)
    differing = [a["step"] for a, b in zip(expected, got, strict=False) if a != b]
    steps = [row["step"] for row in got]
    ok = not differing and steps == list(range(1, given.steps + 1))
    result = {"kills": moments, "steps": len(steps), "differing_steps": differing, "equal": ok}
    print(json.dumps(result) if given.json else "\n".join(f"{k}: {v}" for k, v in result.items()))
    if given.dir is None:
        shutil.rmtree(home)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
