"""One turn of the loop: Algorithm 1 of Reinforce-Ada (arXiv 2510.04996).

    lines 3-12   sample_pools   rounds of M samples a prompt until its exit condition holds
    lines 15-19  build_group    balanced down-sampling, baseline over the whole pool, advantages
    line 21      learner.update the clipped policy gradient, Eq. 3
                 load_weights   the engine samples the next step from the new policy

Departures from the paper's listing, none of which changes the law of the pools:
- no barrier after a round: each prompt goes on as soon as its own samples are verified (sampling.py);
- groups without signal are left out of the batch (`uniform_groups: keep` restores the denominator).
"""

import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from adarl.advantages import Advantage
from adarl.groups import build_group
from adarl.metrics import PoolStats, pool_stats
from adarl.sampling import Elimination, RoundSize, SampleRequest
from adarl.seeds import derive_seed
from adarl.types import Group, Pool, Prompt, Sample, ScoredSample, Verification


class Engine(Protocol):
    """Draws samples. A request comes back once, complete: exactly one round of one prompt."""

    def submit(self, request: SampleRequest) -> None: ...
    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]: ...
    @property
    def num_unfinished(self) -> int: ...
    def sleep(self) -> None: ...
    def load_weights(self, weights: Iterator[tuple[str, Any]]) -> None: ...


class Verifier(Protocol):
    """Grades responses in other processes."""

    def submit(
        self, key: Hashable, responses: Sequence[str], answer: str, truncated: Sequence[bool] | None = None
    ) -> None: ...
    def poll(self, timeout: float = 0.0) -> list[tuple[Any, tuple[Verification, ...]]]: ...


class Learner(Protocol):
    """Owns the policy. All ranks call `update` and `weights` together."""

    def update(self, groups: Sequence[Group], positions: Sequence[int]) -> dict[str, float]: ...
    def weights(self) -> Iterator[tuple[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What a step needs to know of the recipe."""

    group_size: int
    round_size: RoundSize
    advantage: Advantage
    keep_uniform_groups: bool = False  # leave groups without signal in the batch, with advantage 0


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
    """What one rank saw of a step."""

    pools: list[Pool]
    groups: list[Group]
    stats: list[PoolStats]
    update: dict[str, float]


def sample_pools(
    prompts: Sequence[Prompt],
    engine: Engine,
    verifier: Verifier,
    round_size: RoundSize,
    seed: int,
    watch: Stopwatch | None = None,
) -> list[Pool]:
    """Algorithm 1, lines 3-12: the pools of the prompts, in their order.

    Finished rounds go to the verifier at once and verdicts are taken between decoding steps; this
    function waits only when the engine has nothing left to decode.
    """
    watch = watch or Stopwatch()
    elimination = Elimination(prompts, round_size, seed)
    waiting: dict[Hashable, tuple[SampleRequest, tuple[Sample, ...]]] = {}  # at the verifier
    for request in elimination.start():
        engine.submit(request)
    while elimination.num_active:
        with watch("generate"):
            for request, samples in engine.poll():
                waiting[request.key] = request, samples
                texts, truncated = [s.text for s in samples], [s.truncated for s in samples]
                verifier.submit(request.key, texts, request.prompt.answer, truncated)
        with watch("verify_wait"):
            verdicts = verifier.poll(timeout=0.0 if engine.num_unfinished else 1.0)
        for key, verifications in verdicts:
            request, samples = waiting.pop(key)
            scored = map(ScoredSample, samples, verifications)
            for next_request in elimination.complete(request, scored):
                engine.submit(next_request)
    return elimination.pools


def train_step(
    prompts: Sequence[Prompt],
    positions: Sequence[int],
    engine: Engine,
    verifier: Verifier,
    learner: Learner,
    settings: StepSettings,
    seed: int,
    watch: Stopwatch,
) -> StepResult:
    """Sample, group, update, hand over the weights.

    Args:
        prompts: this rank's share of the step's prompts.
        positions: their positions among the step's prompts over all ranks.
        seed: names the draws of this step.
    """
    pools = sample_pools(prompts, engine, verifier, settings.round_size, seed, watch)
    groups = [
        build_group(pool, settings.group_size, settings.advantage, derive_seed("group", seed, pool.prompt.id))
        for pool in pools
    ]
    trained = [(g, p) for g, p in zip(groups, positions, strict=True) if g.has_signal or settings.keep_uniform_groups]
    with watch("update"):
        engine.sleep()
        update = learner.update([g for g, _ in trained], [p for _, p in trained])
    with watch("sync"):
        engine.load_weights(learner.weights())
    stats = [pool_stats(pool, group) for pool, group in zip(pools, groups, strict=True)]
    return StepResult(pools, groups, stats, update)


