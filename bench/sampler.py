"""What the sampler costs and saves: `python -m bench.sampler [--json]`.

1. The scheduler alone: 512 prompts x 32 samples with an engine and a verifier that answer at once.
2. The schedule on the real CPU engine: balanced, n = 4, M = 8, N = 4, 48 prompts with pass rates
   Beta(0.3, 0.7) and lognormal response lengths (median 20, sigma 0.9, cap 200), both fixed by seed for
   each sample; without a barrier against a barrier after each round, in turns in one process.
3. What the posterior rules save: samples on the same streams, population Beta(0.3, 0.7), cap 32.
"""

import os
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adarl.budgets import posterior_elimination
from adarl.draws import Stopwatch, run_elimination
from adarl.exit_conditions import balanced
from adarl.launch import preload_libraries, prepare_environment
from adarl.sampling import Elimination, RoundSize, SampleRequest, elimination
from adarl.types import Pool, Sample, Verification
from bench._compare import finish
from bench._streams import INCORRECT, StandInVerifier, prompts, response_length

if TYPE_CHECKING:
    from adarl.engine import VllmEngine

ROUND, ROUNDS = 8, 4
PLAIN = elimination(balanced(2, 2), ROUND, ROUNDS)
MEDIAN, SIGMA, CAP = 20, 0.9, 200
RECIPE = "recipes/tiny_cpu.yaml"


def _keep(found: Verification, sample: Sample) -> Verification:
    return found


class InstantEngine:
    """Returns at once what it was asked for; samples are made beforehand, so that they cost the clock nothing."""

    def __init__(self, samples: dict[tuple[str, int], tuple[Sample, ...]]):
        self._samples = samples
        self._queue: list[SampleRequest] = []

    def submit(self, request: SampleRequest) -> None:
        self._queue.append(request)

    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]:
        queue, self._queue = self._queue, []
        return [(r, self._samples[r.prompt.id, r.round]) for r in queue]

    @property
    def num_unfinished(self) -> int:
        return len(self._queue)


class InstantVerifier:
    """Finds everything incorrect, so that every prompt takes all its rounds."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, tuple[Verification, ...]]] = []

    def submit(self, key: Any, responses: Sequence[str], answer: str, truncated: Any = None) -> None:
        self._done.append((key, (INCORRECT,) * len(responses)))

    def poll(self, timeout: float = 0.0) -> list[tuple[Any, tuple[Verification, ...]]]:
        done, self._done = self._done, []
        return done


def scheduler_cost(num_prompts: int, steps: int) -> dict[str, Any]:
    """Median seconds a step, and how much memory grew from step 10 to the last."""
    chosen = prompts(num_prompts)
    samples = {
        (p.id, r): tuple(Sample(p.id, r, ROUND * r + i, "x", (1,), (-1.0,), False) for i in range(ROUND))
        for p in chosen
        for r in range(ROUNDS)
    }
    seconds, early = [], 0
    for step in range(steps):
        start = time.perf_counter()
        machine = Elimination([Pool(p) for p in chosen], PLAIN, seed=step)
        pools = run_elimination(machine, InstantEngine(samples), InstantVerifier(), _keep, Stopwatch())
        seconds.append(time.perf_counter() - start)
        assert sum(pool.size for pool in pools) == num_prompts * ROUND * ROUNDS
        del machine, pools
        if step == min(9, steps - 1):
            early = _resident()
    return {
        "scheduler_seconds_per_step": round(statistics.median(seconds[1:] or seconds), 4),
        "scheduler_memory_growth_mib": round((_resident() - early) / 2**20, 2),
    }


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class FixedLengths:
    """The real engine with each sample's length given: one vLLM request a sample, end of text ignored."""

    def __init__(self, engine: "VllmEngine", seed: int):
        self._core = engine.llm.llm_engine
        self._seed = seed
        self._places: dict[str, tuple[SampleRequest, int]] = {}
        self._running: Counter[str] = Counter()  # samples by prompt
        self.steps = 0
        self.running_at_step: list[int] = []  # prompts with a sample being decoded

    def submit(self, request: SampleRequest) -> None:
        from vllm import SamplingParams

        self._running[request.label] += len(request.indices)
        for index in request.indices:
            length = response_length(request, index, self._seed, MEDIAN, SIGMA, CAP)
            params = SamplingParams(temperature=1.0, max_tokens=length, ignore_eos=True, detokenize=False)
            prompt = {"prompt_token_ids": list(request.prompt.token_ids)}
            name = f"{request.label}#{index}"
            self._places[name] = request, index
            self._core.add_request(name, prompt, params)

    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]:
        if not self._places:
            return []
        self.running_at_step.append(len(+self._running))
        self.steps += 1
        ended = [self._places.pop(output.request_id) for output in self._core.step() if output.finished]
        self._running.subtract(request.label for request, _ in ended)
        return [(request, (stand_in(request.prompt.id, request.round, index),)) for request, index in ended]

    @property
    def num_unfinished(self) -> int:
        return len(self._places)


def stand_in(prompt_id: str, round: int, index: int) -> Sample:
    """A sample that says which draw it is; StandInVerifier knows its outcome."""
    return Sample(prompt_id, round, index, f"{prompt_id}:{index}", (1,), (-1.0,), False)


class WithBarrier:
    """Holds finished samples back until nothing is left to decode: the paper's listing."""

    def __init__(self, engine: FixedLengths):
        self._engine = engine
        self._held: list[tuple[SampleRequest, tuple[Sample, ...]]] = []

    def submit(self, request: SampleRequest) -> None:
        self._engine.submit(request)

    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]:
        self._held += self._engine.poll()
        if self._engine.num_unfinished:
            return []
        held, self._held = self._held, []
        return held

    @property
    def num_unfinished(self) -> int:
        return self._engine.num_unfinished


class Watched(Elimination):
    """Notes how many prompts could run at each engine step, and at which step the last request was made."""

    def watch(self, engine: FixedLengths) -> None:
        self._engine = engine
        self.active_at_step: list[int] = []
        self.last_start = 0

    def receive(self, request: SampleRequest, samples: Any) -> list[SampleRequest]:
        following = super().receive(request, samples)
        if following:
            self.last_start = self._engine.steps
        return following


def schedule(num_prompts: int, turns: int, seed: int) -> dict[str, Any]:
    """Engine steps, seconds and occupancy of both schedules on the real engine, and that the pools are the same."""
    from adarl.build import build_engine
    from adarl.config import load_recipe
    from adarl.prepared import locate

    changes = [
        f"sampling.max_response_tokens={CAP}",
        "engine.vllm={hf_overrides: {max_position_embeddings: 256}}",
    ]
    recipe = load_recipe(RECIPE, changes)
    engine = build_engine(recipe, locate(recipe.model.path), distributed=False)
    chosen = prompts(num_prompts)
    rows: dict[str, list[tuple[float, int]]] = {"free": [], "barrier": []}
    occupancy: list[float] = []
    pools: dict[str, list[Pool]] = {}
    for turn in range(turns + 1):
        for name in ("free", "barrier") if turn % 2 else ("barrier", "free"):
            lengths = FixedLengths(engine, seed)
            machine = Watched([Pool(p) for p in chosen], PLAIN, seed)
            machine.watch(lengths)
            source = WithBarrier(lengths) if name == "barrier" else lengths
            start = time.perf_counter()
            pools[name] = run_elimination(
                machine, _noting(source, machine), StandInVerifier(seed), _keep, Stopwatch()
            )
            if turn:  # the first warms up
                rows[name].append((time.perf_counter() - start, lengths.steps))
                if name == "free":
                    occupancy.append(_occupancy(machine, lengths))
    assert pools["free"] == pools["barrier"], "the schedule changed the pools"
    seconds = {name: statistics.median(s for s, _ in row) for name, row in rows.items()}
    steps = {name: row[0][1] for name, row in rows.items()}
    return {
        "barrier_steps_ratio": round(steps["free"] / steps["barrier"], 4),
        "barrier_ratio": round(seconds["free"] / seconds["barrier"], 4),
        "occupancy": round(min(occupancy), 4),
        "engine_steps": steps,
        "seconds": {name: round(s, 3) for name, s in seconds.items()},
        "samples": sum(p.size for p in pools["free"]),
    }


def _noting(engine: Any, machine: Watched) -> Any:
    """The engine, with the number of unresolved prompts noted before each decoding step."""
    poll = engine.poll

    def noted() -> Any:
        if engine.num_unfinished:
            machine.active_at_step.append(machine.num_active)
        return poll()

    engine.poll = noted
    return engine


def _occupancy(machine: Watched, lengths: FixedLengths) -> float:
    """Share of engine steps, until the last round of the last prompt starts, with every unresolved prompt running."""
    until = machine.last_start
    pairs = list(zip(machine.active_at_step, lengths.running_at_step, strict=True))[:until]
    return sum(active == running for active, running in pairs) / len(pairs)


def samples_saved(group_size: int, num_prompts: int, seed: int) -> float:
    """Share of samples that the posterior rules save against plain `balanced` on the same streams."""
    half = group_size // 2
    rules: dict[str, RoundSize] = {
        "plain": elimination(balanced(half, half), ROUND, ROUNDS),
        "posterior": posterior_elimination(
            half, half, ROUND, ROUNDS, first_round=group_size, futility=0.5, confidence=0.5
        ),
    }
    drawn = {}
    for name, rule in rules.items():
        machine = Elimination([Pool(p) for p in prompts(num_prompts)], rule, seed)
        pools = run_elimination(machine, _Streams(), StandInVerifier(seed), _keep, Stopwatch())
        drawn[name] = sum(p.size for p in pools)
    return round(1 - drawn["posterior"] / drawn["plain"], 4)


class _Streams(InstantEngine):
    """Whole rounds at once, of samples that say which draw they are."""

    def __init__(self) -> None:
        super().__init__({})

    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]:
        queue, self._queue = self._queue, []
        return [(r, tuple(stand_in(r.prompt.id, r.round, i) for i in r.indices)) for r in queue]


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    turns: Annotated[int, typer.Option(min=1)] = 7,
    steps: Annotated[int, typer.Option(min=11, help="steps of the scheduler alone")] = 100,
    seed: Annotated[int, typer.Option(help="of lengths and outcomes")] = 0,
) -> None:
    """All three parts."""
    preload_libraries()
    prepare_environment()
    result = scheduler_cost(512, steps)
    result["samples_saved"] = {f"n={n}": samples_saved(n, 4000, seed) for n in (4, 8)}
    result |= schedule(48, turns, seed)
    finish(result, as_json)


if __name__ == "__main__":
    typer.run(main)
