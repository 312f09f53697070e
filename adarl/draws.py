"""Sampling inside a step: the state machine turned by an engine and a verifier, on this rank's share of the prompts."""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from adarl.advantages import Estimator
from adarl.groups import Selector
from adarl.protocols import Engine, GradientNorms, Ranks, Source, Stream, Verifier
from adarl.sampling import Elimination, RoundSize, SampleRequest
from adarl.selection import Selection
from adarl.strategies import Strategy
from adarl.types import Pool, Prompt, Sample, ScoredSample, Verification


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What a step is made of, built from the recipe."""

    prompts_per_step: int
    selection: Selection
    strategy: Strategy
    select: Selector
    estimator: Estimator
    keep_uniform_groups: bool = False  # leave groups without signal in the batch, with advantage 0
    shape_reward: Callable[[Verification, Sample], Verification] = lambda found, sample: found
    is_masked: Callable[[ScoredSample], bool] = lambda scored: False  # counts in the pool, carries no loss


@dataclass(slots=True)
class Stopwatch:
    """Seconds by the phase of the step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start


def run_elimination(
    elimination: Elimination,
    engine: Source,
    verifier: Verifier,
    shape_reward: Callable[[Verification, Sample], Verification],
    watch: Stopwatch,
) -> list[Pool]:
    """Turn the state machine until every pool is resolved.

    Finished samples go to the verifier at once and verdicts are taken between decoding steps; this
    function waits only when the engine has nothing left to decode.
    """
    waiting: dict[Hashable, tuple[SampleRequest, tuple[Sample, ...]]] = {}  # at the verifier
    tickets = count()
    with watch("generate"):
        for request in elimination.start():
            engine.submit(request)
    while elimination.num_active:
        with watch("generate"):
            for request, samples in engine.poll():
                ticket = next(tickets)
                waiting[ticket] = request, samples
                texts, truncated = [s.text for s in samples], [s.truncated for s in samples]
                verifier.submit(ticket, texts, request.prompt.answer, truncated)
        with watch("verify_wait"):
            verdicts = verifier.poll(timeout=0.0 if engine.num_unfinished else 1.0)
        for ticket, verifications in verdicts:
            request, samples = waiting.pop(ticket)
            scored = map(ScoredSample, samples, map(shape_reward, verifications, samples))
            for next_request in elimination.receive(request, scored):
                engine.submit(next_request)
    return elimination.pools


@dataclass(slots=True)
class StepSampler:
    """What selection and strategy work with in one step (adarl.sampling.Sampler)."""

    engine: Engine
    verifier: Verifier
    ranks: Ranks
    settings: StepSettings
    seed: int
    watch: Stopwatch
    stream: Stream
    norms: GradientNorms
    drawn: dict[str, Pool] = field(default_factory=dict)  # by label: every pool that samples were drawn for
    _occurrences: Counter[str] = field(default_factory=Counter)
    _started: int = 0

    @property
    def num_prompts(self) -> int:
        return self.stream.num_prompts

    def take(self, count: int) -> list[Prompt]:
        return self.stream.take(count)

    def start(self, prompts: Sequence[Prompt]) -> list[Pool]:
        rank, world_size = self.ranks.rank, self.ranks.world_size
        mine = []
        for prompt in prompts:
            if self._started % world_size == rank:
                mine.append(Pool(prompt, occurrence=self._occurrences[prompt.id]))
            self._occurrences[prompt.id] += 1
            self._started += 1
        return mine

    def more(self, count: int) -> list[Pool]:
        return self.settings.selection.choose(count, self)

    def draw(self, pools: Sequence[Pool], round_size: RoundSize) -> list[Pool]:
        machine = Elimination(pools, round_size, self.seed)
        shape = self.settings.shape_reward
        drawn = run_elimination(machine, self.engine, self.verifier, shape, self.watch)
        self.drawn |= {pool.label: pool for pool in drawn if pool.size}
        return drawn

    def gather(self, records: Sequence[Any]) -> list[Any]:
        return self.ranks.gather(records)

    def gradient_norms(self, pools: Sequence[Pool]) -> list[float]:
        accepted = [[s.sample for s in pool.samples if s.correct] for pool in pools]
        with self.watch("gradient_norms"):
            norms = self.norms(
                [(pool.prompt, s) for pool, samples in zip(pools, accepted, strict=True) for s in samples]
            )
        values = iter(norms)
        sums = [[next(values) for _ in samples] for samples in accepted]
        return [sum(of_pool) / len(of_pool) if of_pool else 0.0 for of_pool in sums]


class OneRank:
    """A process without others."""

    rank = 0
    world_size = 1

    def gather(self, records: Sequence[Any]) -> list[Any]:
        return list(records)


@dataclass(frozen=True, slots=True)
class _Given:
    """A stream that ends: nothing is drawn beyond the prompts that were given."""

    num_prompts: int

    def take(self, count: int) -> list[Prompt]:
        return []


def sample_pools(
    prompts: Sequence[Prompt],
    engine: Engine,
    verifier: Verifier,
    settings: StepSettings,
    seed: int,
    watch: Stopwatch,
) -> list[Pool]:
    """Lines 3-12 alone: the pools of these prompts by the recipe's strategy, on this process, without a learner."""
    stream = _Given(len(prompts))
    norms: GradientNorms = lambda samples: [1.0] * len(samples)  # noqa: E731
    sampler = StepSampler(engine, verifier, OneRank(), settings, seed, watch, stream, norms)
    return settings.strategy.sample(sampler.start(prompts), sampler)
