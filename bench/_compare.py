"""Ours against theirs in one process, in turns, by medians; the last line printed is one JSON object."""

import gc
import json
import statistics
import time
from collections.abc import Callable
from typing import Any


def in_turns(ours: Callable[[], int], theirs: Callable[[], int], rounds: int) -> dict[str, Any]:
    """Run both `rounds` times alternately and compare their rates.

    Each call returns how many tokens it handled. One call of each before the clock starts warms both.

    Returns:
        ratio: median tokens/s of ours over that of theirs; and both medians.
    """
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    ours(), theirs()
    for i in range(rounds):
        pair = [("ours", ours), ("theirs", theirs)]
        for name, call in pair if i % 2 == 0 else reversed(pair):  # whoever runs second finds warmer caches
            gc.collect()
            start = time.perf_counter()
            tokens = call()
            rates[name].append(tokens / (time.perf_counter() - start))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "ratio": round(medians["ours"] / medians["theirs"], 4),
        "ours_tokens_per_second": round(medians["ours"], 1),
        "theirs_tokens_per_second": round(medians["theirs"], 1),
        "rounds": rounds,
    }


def finish(result: dict[str, Any], as_json: bool) -> None:
    """Print the result: in words, and as one last line of JSON when asked."""
    if not as_json:
        for key, value in result.items():
            print(f"{key:32} {value}")
    else:
        print(json.dumps(result), flush=True)
