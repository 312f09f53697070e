"""What a finished run says of itself."""

from pathlib import Path
from statistics import fmean

from adarl.tracker import read_metrics

WINDOW = 10  # steps that the first and the last reward are averaged over


def summarise(folder: Path, seconds: float) -> str:
    """Where the run lies and what the reward did, in three lines."""
    rows = read_metrics(folder)
    rewards = [row["reward/first_round"] for row in rows]
    samples = sum(row["sampling/samples"] for row in rows)
    window = min(WINDOW, len(rows))
    return (
        f"adarl: run in {folder} (metrics.jsonl, samples/, checkpoints/, model/)\n"
        f"adarl: first-round mean reward {fmean(rewards[:window]):.3f} (first {window} steps) -> "
        f"{fmean(rewards[-window:]):.3f} (last {window} of {len(rows)} steps), {samples} samples\n"
        f"adarl: {seconds:.0f} s in all, {fmean(row['time/step'] for row in rows):.2f} s a step"
    )
