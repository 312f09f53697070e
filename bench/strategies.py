"""The README's result: `python -m bench.strategies [--json]` trains tiny_cpu with each strategy and seed.

Runs lie in runs/strategies/<strategy>-<seed>; one that is finished there is not made again. Writes the
figure docs/tiny_cpu.svg and prints the table.
"""

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from adarl.report import WINDOW
from adarl.tracker import read_metrics
from bench._compare import finish

RECIPE = "recipes/tiny_cpu.yaml"
ROOT = Path("runs/strategies")
FIGURE = Path("docs/tiny_cpu.svg")
STRATEGIES = {"uniform": "GRPO (uniform, n = 4)", "balanced": "Reinforce-Ada (balanced, n = 4)"}


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="seeds 0 to this, exclusive")] = 3,
    steps: Annotated[int, typer.Option(min=1)] = 100,
) -> None:
    """Train, then compare."""
    runs = {s: [_run(s, seed, steps) for seed in range(seeds)] for s in STRATEGIES}
    _plot(runs)
    print(f"{'strategy':34} {'reward':>16} {'signal':>7} {'samples a step':>15} {'s a step':>9}")
    result: dict[str, Any] = {}
    for strategy, label in STRATEGIES.items():
        finals = [statistics.fmean(_column(rows, "reward/first_round")[-WINDOW:]) for rows in runs[strategy]]
        row = {
            "reward": [round(final, 4) for final in finals],
            "signal_share": _mean(runs[strategy], "groups/signal_share"),
            "samples_per_step": _mean(runs[strategy], "sampling/samples"),
            "seconds_per_step": _mean(runs[strategy], "time/step"),
        }
        result[strategy] = row
        print(
            f"{label:34} {' '.join(f'{f:.3f}' for f in finals):>16} {row['signal_share']:7.2f} "
            f"{row['samples_per_step']:15.0f} {row['seconds_per_step']:9.2f}"
        )
    finish(result, as_json)


def _run(strategy: str, seed: int, steps: int) -> list[dict[str, Any]]:
    folder = ROOT / f"{strategy}-{seed}"
    rows = read_metrics(folder)
    if len(rows) < steps:
        overrides = [f"sampling.strategy={strategy}", f"run.seed={seed}", f"run.max_steps={steps}"]
        command = [
            str(Path(sys.executable).parent / "adarl"),
            "train",
            RECIPE,
            f"run.dir={folder}",
            *overrides,
        ]
        subprocess.run(command, check=True)
        rows = read_metrics(folder)
    return rows[:steps]


def _column(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows]


def _mean(runs: list[list[dict[str, Any]]], key: str) -> float:
    return round(statistics.fmean(value for rows in runs for value in _column(rows, key)), 4)


def _plot(runs: dict[str, list[list[dict[str, Any]]]]) -> None:
    """First-round mean reward by step: the mean over seeds, with each seed behind it."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "adarl"  # the same bytes for the same runs
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), constrained_layout=True)
    for panel, key, title in (
        (axes[0], "reward/first_round", "first-round mean reward"),
        (axes[1], "groups/signal_share", "share of groups with a gradient"),
    ):
        for colour, (strategy, label) in zip(("tab:gray", "tab:blue"), STRATEGIES.items(), strict=True):
            curves = [_smooth(_column(rows, key)) for rows in runs[strategy]]
            for curve in curves:
                panel.plot(range(1, len(curve) + 1), curve, color=colour, alpha=0.25, linewidth=0.8)
            mean = [statistics.fmean(values) for values in zip(*curves, strict=True)]
            panel.plot(range(1, len(mean) + 1), mean, color=colour, linewidth=1.8, label=label)
        panel.set(xlabel="step", title=title, ylim=(0, 1.03))
        panel.grid(alpha=0.3)
    axes[0].legend(loc="lower right", frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})


def _smooth(values: list[float], width: int = 5) -> list[float]:
    """Mean over the last few steps."""
    return [statistics.fmean(values[max(0, i + 1 - width) : i + 1]) for i in range(len(values))]


if __name__ == "__main__":
    typer.run(main)
