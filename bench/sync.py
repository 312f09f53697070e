"""Weights to the engine against a plain copy of the same bytes: `python -m bench.sync [--json]`.

Ours gathers the learner's ZeRO-3 shards bucket by bucket and reloads vLLM; theirs copies each whole tensor into another
of its shape. In turns in one process a model: tiny_cpu's and SmolLM2-135M. `extra_mib` is what resident memory reaches
above its level before a sync, with buckets of 16 MiB (the largest tensor, the embedding, is a bucket of its own).
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import psutil
import typer

from adarl.config import load_recipe
from adarl.launch import preload_libraries, prepare_environment
from bench._compare import finish

RECIPES = {"tiny": "recipes/tiny_cpu.yaml", "smollm2_135m": "recipes/smollm2_135m_cpu.yaml"}
BUCKET_MIB = 16
MIB = 1 << 20


def measure(name: str, rounds: int) -> dict[str, Any]:
    """One model, in this process."""
    prepare_environment()
    recipe = load_recipe(RECIPES[name], [f"learner.sync_bucket_mib={BUCKET_MIB}", "engine.kv_cache_gib=0.25"])

    import torch

    from adarl.build import build_engine, build_learner
    from adarl.prepared import locate
    from adarl.ranks import start_ranks

    model_path = locate(recipe.model.path)
    learner = build_learner(recipe, model_path, start_ranks(recipe.learner))
    engine = build_engine(recipe, model_path, distributed=False)
    source = [weight.clone() for _, weight in learner.weights()]
    target = [torch.empty_like(weight) for weight in source]

    def sync() -> None:
        engine.load_weights(learner.weights())

    def gather() -> None:
        for _ in learner.weights():
            pass

    def copy() -> None:
        for whole, other in zip(source, target, strict=True):
            other.copy_(whole)

    calls: dict[str, Callable[[], None]] = {"sync": sync, "gather": gather, "copy": copy}
    seconds: dict[str, list[float]] = {key: [] for key in calls}
    for i in range(rounds + 1):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            if i:  # the first of each warms
                seconds[key].append(time.perf_counter() - start)
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    before = _reset_peak()
    sync()
    result = {
        "ratio_to_copy": round(medians["sync"] / medians["copy"], 2),
        "seconds": {key: round(value, 5) for key, value in medians.items()},
        "mib": round(sum(w.nbytes for w in source) / MIB, 1),
        "largest_tensor_mib": round(max(w.nbytes for w in source) / MIB, 1),
        "extra_mib": round(_peak() - before, 1),
        "bucket_mib": BUCKET_MIB,
        "dtype": recipe.learner.dtype,
    }
    engine.shutdown()
    return result


def _reset_peak() -> float:
    """Let the process's peak of resident memory start anew; the level now, in MiB."""
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")
    return psutil.Process().memory_info().rss / MIB


def _peak() -> float:
    """The highest level since then, in MiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    rounds: Annotated[int, typer.Option(min=1)] = 9,
    model: Annotated[str, typer.Option(help=f"one of {', '.join(RECIPES)}; all when not given")] = "",
    inside: Annotated[bool, typer.Option("--inside", hidden=True)] = False,
) -> None:
    """Seconds a sync and a copy, by model."""
    preload_libraries()
    if inside:
        print(json.dumps(measure(model, rounds)), flush=True)
        return
    found = {}
    for name in [model] if model else RECIPES:
        command = ["-m", "bench.sync", "--inside", "--model", name, "--rounds", str(rounds)]
        done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"bench.sync: {name} ended with {done.returncode}, see above")
        found[name] = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    ratios = {name: value["ratio_to_copy"] for name, value in found.items()}
    finish({"ratio_to_copy": ratios} | found, as_json)


if __name__ == "__main__":
    typer.run(main)
