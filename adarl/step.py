"""One turn of the loop: Algorithm 1 of Reinforce-Ada (arXiv 2510.04996).

    line 2       selection.choose  the step's prompts
    lines 3-12   strategy.sample   rounds of M samples a prompt until its exit condition holds
    lines 15-19  build_group       balanced down-sampling, baseline over the whole pool, advantages
    line 21      learner.update    the clipped policy gradient, Eq. 3
                 load_weights      the engine samples the next step from the new policy

Departures from the paper's listing, none of which changes the law of the pools:
- no barrier after a round: each prompt goes on as soon as its own samples are verified (sampling.py);
- groups without signal are left out of the batch (`uniform_groups: keep` restores the denominator).
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from adarl.advantages import Estimator
from adarl.groups import Selector, build_group, unused, whitened, without
from adarl.metrics import PoolStats, pool_stats
from adarl.sampling import Elimination, RoundSize, SampleRequest
from adarl.seeds import derive_seed
from adarl.selection import Selection
from adarl.strategies import Strategy
from adarl.types import Group, Pool, Prompt, Sample, ScoredSample, Verification


class Source(Protocol):
    """Draws samples. Each poll returns samples that have ended since the last one, by their requests."""

    def submit(self, request: SampleRequest) -> None: ...
    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]: ...
    @property
    def num_unfinished(self) -> int: ...


class Engine(Source, Protocol):
    """A source whose weights follow the policy's."""

    def sleep(self) -> None: ...
    def load_weights(self, weights: Iterator[tuple[str, Any]]) -> None: ...


class Verifier(Protocol):
    """Grades responses in other processes."""

    def submit(
        self, key: Hashable, responses: Sequence[str], answer: str, truncated: Sequence[bool] | None = None
    ) -> None: ...
    def poll(self, timeout: float = 0.0) -> list[tuple[Any, tuple[Verification, ...]]]: ...


class Ranks(Protocol):
    """The processes of the run. All of them call `gather` together."""

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def gather(self, records: Sequence[Any]) -> list[Any]: ...


class Learner(Ranks, Protocol):
    """Owns the policy. All ranks call its methods together."""

    def gradient_norms(self, samples: Sequence[tuple[Prompt, Sample]]) -> list[float]: ...
    def update(self, groups: Sequence[Group], seed: int) -> dict[str, float]: ...
    def weights(self) -> Iterator[tuple[str, Any]]: ...


GradientNorms = Callable[[Sequence[tuple[Prompt, Sample]]], list[float]]


class Stream(Protocol):
    """The prompts of the data in seeded order, the same on every rank."""

    @property
    def num_prompts(self) -> int: ...
    def take(self, count: int) -> list[Prompt]: ...


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


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step: pools and groups of this rank, the rest of all ranks."""

    pools: list[Pool]  # every pool that was drawn
    groups: list[Group]  # one a pool; without samples where the pool is not trained on
    stats: list[PoolStats]
    notes: dict[str, float]  # what selection and strategy say of the step
    update: dict[str, float]


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


def train_step(
    stream: Stream,
    engine: Engine,
    verifier: Verifier,
    learner: Learner,
    settings: StepSettings,
    seed: int,
    watch: Stopwatch,
) -> StepResult:
    """Choose prompts, sample, group, update, hand over the weights.

    Args:
        seed: names the draws of this step, the same on every rank.
    """
    sampler = StepSampler(engine, verifier, learner, settings, seed, watch, stream, learner.gradient_norms)
    chosen = settings.selection.choose(settings.prompts_per_step, sampler)
    pools = [pool for pool in settings.strategy.sample(chosen, sampler) if pool.size]
    groups = [
        build_group(pool, settings.select, settings.estimator, derive_seed("group", seed, pool.label))
        for pool in pools
    ]
    if settings.estimator.whitened:
        groups = whitened(groups, learner.gather)
    in_loss = [without(group, settings.is_masked) for group in groups]
    trained = [g for g in in_loss if g.has_signal or settings.keep_uniform_groups]
    with watch("update"):
        engine.sleep()
        update = learner.update(trained, derive_seed("update", seed))
    with watch("sync"):
        engine.load_weights(learner.weights())
    built = {group.label: group for group in groups}
    drawn = list(sampler.drawn.values())
    groups = [built.get(pool.label) or unused(pool) for pool in drawn]
    stats = learner.gather([pool_stats(pool, group) for pool, group in zip(drawn, groups, strict=True)])
    stats.sort(key=lambda s: (s.prompt_id, s.occurrence))  # the same order however prompts lay on the ranks
    notes = settings.selection.observe(stats) | settings.strategy.observe(stats)
    return StepResult(drawn, groups, stats, notes, update)


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
