"""One step of 512 prompts on many GPUs, simulated: `python -m bench.scale [--gpus N] [--json]`.

The schedule is the product's own state machine; only decoding is a model. What is assumed:

- a 7 B model in bfloat16 on H100s, one engine a GPU, decoding b sequences takes
  t(b) = 6 ms + 0.036 ms * b a token: 15.2 GB of weights at 3.35 TB/s and 1.5 ms around the kernels; a
  sequence adds 22 us of arithmetic and 14 us for reading 800 tokens of its KV cache;
- response lengths lognormal with median 600 tokens and sigma 0.8, cut at 4096; pass rates Beta(0.3, 0.7);
- verification and prefill take no time; the update takes 8 P flops a token (old log-probabilities,
  forward, backward) at 300 TFLOP/s a GPU on 4 responses a prompt, and weights and bookkeeping 2 s.

Lengths and outcomes are fixed by seed for each prompt and index, so every schedule draws the same samples.
"""

import heapq
import statistics
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

import typer

from adarl.budgets import posterior_elimination
from adarl.exit_conditions import balanced
from adarl.sampling import Elimination, RoundSize, SampleRequest, elimination, uniform
from adarl.types import Pool, Sample, ScoredSample
from bench._compare import finish
from bench._streams import CORRECT, INCORRECT, is_correct, prompts, response_length

BASE_SECONDS, SEQUENCE_SECONDS = 6e-3, 36e-6
MEDIAN, SIGMA, CAP = 600, 0.8, 4096
PARAMETERS, FLOPS = 7.6e9, 300e12
OTHER_SECONDS = 2.0
GROUP_SIZE, ROUND, ROUNDS = 4, 8, 4
GRPO, REFERENCE = "uniform, n = 4 (GRPO)", "balanced, barrier after each round"
EARLY, TAKEOVER = "balanced, no barrier, early launch", "  + idle ranks take over"


@dataclass(slots=True)
class Rank:
    """One engine: all its sequences advance by one token every t(b) seconds."""

    clock: float = 0.0  # seconds
    tokens: int = 0  # decoded by every sequence since the start
    running: list[tuple[int, int, int]] = field(default_factory=list)  # (ends at token, request, index)
    busy: float = 0.0  # seconds with anything to decode

    def next_end(self) -> float:
        """When the next sequence ends, if nothing is added before."""
        return self.clock + (self.running[0][0] - self.tokens) * self._token_seconds()

    def advance(self, until: float) -> None:
        """Let time pass; sequences keep decoding."""
        if self.running:
            self.tokens += round((until - self.clock) / self._token_seconds())
            self.busy += until - self.clock
        self.clock = until

    def _token_seconds(self) -> float:
        return BASE_SECONDS + SEQUENCE_SECONDS * len(self.running)


class Launch(Enum):
    """When a prompt's next round can start."""

    BARRIER = "every prompt's round is complete"
    ROUND = "its own round is complete"
    EARLY = "the rest of its round cannot change the decision"


class Simulation:
    """A step on several ranks. With `takeover`, a prompt's next round goes to a rank that has nothing to do."""

    def __init__(
        self,
        pools: list[Pool],
        rule: RoundSize,
        num_ranks: int,
        seed: int,
        launch: Launch,
        takeover: bool = False,
    ):
        self.ranks = [Rank() for _ in range(num_ranks)]
        self.machine = Elimination(pools, rule, seed)
        self.home = {pool.label: i % num_ranks for i, pool in enumerate(pools)}
        self.seed, self.launch, self.takeover = seed, launch, takeover
        self.requests: list[SampleRequest] = []
        self.held: dict[int, list[int]] = {}  # ended samples that the machine has not heard of, by request

    def run(self) -> list[Pool]:
        """Turn until every pool is resolved."""
        for request in self.machine.start():
            self._submit(request, 0.0)
        while active := [r for r in self.ranks if r.running]:
            rank = min(active, key=Rank.next_end)
            rank.advance(rank.next_end())
            while rank.running and rank.running[0][0] <= rank.tokens:
                _, number, index = heapq.heappop(rank.running)
                self.held.setdefault(number, []).append(index)
                whole = len(self.held[number]) == len(self.requests[number].indices)
                if self.launch is Launch.EARLY or (self.launch is Launch.ROUND and whole):
                    self._tell(number, rank.clock)
            if self.launch is Launch.BARRIER and not any(r.running for r in self.ranks):
                for number in list(self.held):
                    self._tell(number, rank.clock)
        return self.machine.pools

    @property
    def seconds(self) -> float:
        """When the last rank was done."""
        return max(r.clock for r in self.ranks)

    def _tell(self, number: int, now: float) -> None:
        """Give the machine what has ended of a request since it last heard."""
        request = self.requests[number]
        indices = self.held.pop(number)
        for following in self.machine.receive(request, [self._sample(request, i) for i in sorted(indices)]):
            self._submit(following, now)

    def _sample(self, request: SampleRequest, index: int) -> ScoredSample:
        verdict = CORRECT if is_correct(request.prompt.id, index, self.seed) else INCORRECT
        return ScoredSample(Sample(request.prompt.id, request.round, index, "", (), (), False), verdict)

    def _submit(self, request: SampleRequest, now: float) -> None:
        rank = self.ranks[self._route(request)]
        rank.advance(max(now, rank.clock))
        for index in request.indices:
            length = response_length(request, index, self.seed, MEDIAN, SIGMA, CAP)
            heapq.heappush(rank.running, (rank.tokens + length, len(self.requests), index))
        self.requests.append(request)

    def _route(self, request: SampleRequest) -> int:
        if self.takeover and request.round:
            idle = next(
                (r for r, rank in enumerate(self.ranks) if not rank.running), self.home[request.label]
            )
            self.home[request.label] = idle
        return self.home[request.label]


def update_seconds(num_ranks: int, num_prompts: int) -> float:
    """8 P flops a token on 4 responses a prompt, over all GPUs."""
    mean = MEDIAN * 2.718281828 ** (SIGMA * SIGMA / 2)
    return num_prompts * GROUP_SIZE * mean * 8 * PARAMETERS / (num_ranks * FLOPS)


def simulate(num_ranks: int, num_prompts: int, seed: int) -> dict[str, dict[str, Any]]:
    """Seconds of each schedule, and what they are made of."""
    plain = elimination(balanced(2, 2), ROUND, ROUNDS)
    futility = posterior_elimination(2, 2, ROUND, ROUNDS, first_round=ROUND, futility=0.5)
    posterior = posterior_elimination(
        2, 2, ROUND, ROUNDS, first_round=GROUP_SIZE, futility=0.5, confidence=0.5
    )
    variants: dict[str, tuple[RoundSize, Launch, bool]] = {
        GRPO: (uniform(GROUP_SIZE), Launch.ROUND, False),
        REFERENCE: (plain, Launch.BARRIER, False),
        "balanced, no barrier": (plain, Launch.ROUND, False),
        EARLY: (plain, Launch.EARLY, False),
        "  + futility": (futility, Launch.EARLY, False),
        "  + futility, posterior-sized rounds": (posterior, Launch.EARLY, False),
        TAKEOVER: (plain, Launch.EARLY, True),
    }
    rows: dict[str, dict[str, Any]] = {}
    pools_of: dict[str, list[Pool]] = {}
    fixed = update_seconds(num_ranks, num_prompts) + OTHER_SECONDS
    for name, (rule, launch, takeover) in variants.items():
        simulation = Simulation(
            [Pool(p) for p in prompts(num_prompts)], rule, num_ranks, seed, launch, takeover
        )
        pools_of[name] = simulation.run()
        busy = [r.busy for r in simulation.ranks]
        rows[name] = {
            "generate_seconds": simulation.seconds,
            "step_seconds": simulation.seconds + fixed,
            "samples": sum(p.size for p in pools_of[name]),
            "signal_share": sum(p.has_signal for p in pools_of[name]) / num_prompts,
            "waiting_share": 1 - sum(busy) / (len(busy) * simulation.seconds),
        }
    assert pools_of[REFERENCE] == pools_of["balanced, no barrier"] == pools_of[EARLY] == pools_of[TAKEOVER]
    return rows


def average(num_ranks: int, num_prompts: int, seeds: int) -> dict[str, dict[str, Any]]:
    """Means over seeds 0 to `seeds`, exclusive, and each schedule's step time in units of GRPO's."""
    runs = [simulate(num_ranks, num_prompts, seed) for seed in range(seeds)]
    rows = {
        name: {key: round(statistics.fmean(run[name][key] for run in runs), 3) for key in row}
        for name, row in runs[0].items()
    }
    first = rows[GRPO]["step_seconds"]
    for row in rows.values():
        row["times_grpo"] = round(row["step_seconds"] / first, 2)
    return rows


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    gpus: Annotated[list[int] | None, typer.Option(help="numbers of GPUs; default 8 and 64")] = None,
    num_prompts: Annotated[int, typer.Option("--prompts", min=1)] = 512,
    seeds: Annotated[int, typer.Option(min=1, help="seeds of lengths and outcomes to average over")] = 5,
) -> None:
    """Print where the time goes."""
    result: dict[str, Any] = {}
    for num_ranks in gpus or [8, 64]:
        rows = average(num_ranks, num_prompts, seeds)
        result[f"gpus_{num_ranks}"] = rows
        fixed = update_seconds(num_ranks, num_prompts) + OTHER_SECONDS
        print(
            f"{num_ranks} GPUs; update and sync {fixed:.1f} s in every row; every balanced row draws the same pools"
        )
        header = ("generate s", "step s", "x GRPO", "samples", "signal", "waiting")
        print(f"{'':40}" + "".join(f"{h:>11}" for h in header))
        for name, row in rows.items():
            keys = (
                "generate_seconds",
                "step_seconds",
                "times_grpo",
                "samples",
                "signal_share",
                "waiting_share",
            )
            print(
                f"{name:40}" + "".join(f"{row[k]:>11.4g}" if row[k] < 1 else f"{row[k]:>11.5g}" for k in keys)
            )
        print()
    finish(result, as_json)


if __name__ == "__main__":
    typer.run(main)
