"""A whole GRPO step of ours beside TRL's GRPOTrainer: `python -m bench.step [--json]`.

48 prompts x 4 of recipes/tiny_cpu.yaml with `sampling.strategy=uniform` and `algorithm.advantage=grpo`: the same
base model, prompts, group size, length limit, learning rate, clipping, float32 on both sides, the same libraries
preloaded, in turns: two processes that each take one step on command. TRL is the newest release, put into an
environment of its own on top of ours; it generates with transformers, because its colocated vLLM does not run on
CPU. Its reward is the cheapest there is (the last box, to the letter), ours math-verify in other processes; every step of
ours checks that both give the same numbers. Once with both under DeepSpeed ZeRO-3, once with both without ZeRO.
"""

import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from adarl.launch import preload_libraries
from bench._compare import finish
from bench._turns import Worker

GRPO = ["sampling.strategy=uniform", "algorithm.advantage=grpo", "run.max_steps=1"]
FORMS = {"zero3": ["learner.zero_stage=3"], "plain": ["learner.zero_stage=0"]}
PHASES = ("generate", "verify_wait", "old_logprobs", "update", "sync")
WARM = 3  # steps before the clock starts


def trl_environment() -> Path:
    """The interpreter of an environment with TRL on top of ours, made where there is none yet.

    Raises:
        SystemExit: TRL cannot be installed.
    """
    folder = Path(tempfile.gettempdir()) / f"adarl-bench-trl-{os.getuid()}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ["-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--upgrade", "trl"]
    found = subprocess.run([sys.executable, *install], capture_output=True, text=True)
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SystemExit(f"bench.step: TRL cannot be installed into {folder}: {reason}")
    return python


def trl_version(python: Path) -> str:
    code = "from importlib.metadata import version; print(version('trl'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def compare(python: Path, overrides: list[str], rounds: int) -> dict[str, Any]:
    """Both in turns; medians of the seconds a step, and ours taken apart."""
    preloaded = {"LD_PRELOAD": os.environ.get("LD_PRELOAD", "")}
    ours = Worker([sys.executable, "-m", "bench._step_ours", *GRPO, *overrides], preloaded)
    theirs = Worker([str(python), "-m", "bench._step_trl", *GRPO, *overrides], preloaded)
    steps: dict[str, list[dict[str, Any]]] = {"ours": [], "trl": []}
    try:
        for i in range(WARM + rounds):
            pair = [("ours", ours), ("trl", theirs)]
            for name, worker in pair if i % 2 == 0 else reversed(pair):
                answer = worker.step()
                if i >= WARM:
                    steps[name].append(answer)
    finally:
        ours.close()
        theirs.close()
    seconds = {name: statistics.median(s["seconds"] for s in found) for name, found in steps.items()}
    mine = steps["ours"]
    phases = {phase: statistics.median(s["phases"].get(phase, 0.0) for s in mine) for phase in PHASES}
    rest = [s["seconds"] - sum(s["phases"].get(phase, 0.0) for phase in PHASES) for s in mine]
    phases["rest"] = statistics.median(rest)
    return {
        "ratio": round(seconds["ours"] / seconds["trl"], 3),
        "ours_seconds": round(seconds["ours"], 4),
        "trl_seconds": round(seconds["trl"], 4),
        "rest_share": round(phases["rest"] / seconds["ours"], 4),
        "phases": {phase: round(value, 4) for phase, value in phases.items()},
        "same_rewards": all(s["same_rewards"] for s in mine),
        "reward": {name: round(sum(s["reward"] for s in found) / rounds, 3) for name, found in steps.items()},
        "tokens": {name: sum(s["tokens"] for s in found) // rounds for name, found in steps.items()},
    }


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="timed steps of each")] = 15,
    form: Annotated[str, typer.Option(help="zero3, plain or both")] = "both",
    overrides: Annotated[list[str] | None, typer.Argument(help="section.key=value, for both")] = None,
) -> None:
    """Seconds a step of both, in turns."""
    preload_libraries()
    python = trl_environment()
    forms = {name: keys for name, keys in FORMS.items() if form in (name, "both")}
    found = {name: compare(python, [*keys, *(overrides or [])], rounds) for name, keys in forms.items()}
    first = next(iter(found.values()))
    result: dict[str, Any] = {f"ratio_to_trl_{name}": value["ratio"] for name, value in found.items()}
    result |= {"rest_share": max(value["rest_share"] for value in found.values()), "phases": first["phases"]}
    result |= {"trl": trl_version(python), "rounds": rounds} | found
    finish(result, as_json)


if __name__ == "__main__":
    typer.run(main)
