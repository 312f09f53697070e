"""Simulated streams: the product's state machine fed with coin flips instead of an engine and a verifier."""

from collections.abc import Callable, Sequence
from functools import cache
from math import comb, exp, lgamma, log
from random import Random
from threading import Barrier, Thread
from typing import Any

from adarl.sampling import Elimination, RoundSize, SampleRequest
from adarl.seeds import derive_seed
from adarl.types import Pool, ScoredSample
from tests.conftest import make_pool, make_prompt, scored


@cache
def outcome(correct: bool, index: int, round: int) -> ScoredSample:
    return scored(correct, index, round)


class Streams:
    """What the j-th sample of prompt i would turn out to be, whoever asks for it and when.

    Args:
        pass_rates: one a prompt.
    """

    def __init__(self, pass_rates: Sequence[float], seed: int, cap: int = 64):
        rng = Random(seed)
        self.correct = {f"p{i}": [rng.random() < p for _ in range(cap)] for i, p in enumerate(pass_rates)}

    @property
    def pools(self) -> list[Pool]:
        return [Pool(make_prompt(id)) for id in self.correct]

    def answer(self, request: SampleRequest) -> list[ScoredSample]:
        outcomes = self.correct[request.prompt.id]
        return [outcome(outcomes[j], j, request.round) for j in request.indices]


def run(streams: Streams, rule: RoundSize, pools: Sequence[Pool] | None = None) -> list[Pool]:
    """One prompt after another; each request comes back whole."""
    machine = Elimination(streams.pools if pools is None else pools, rule, seed=0)
    waiting = machine.start()
    while waiting:
        request = waiting.pop()
        waiting += machine.receive(request, streams.answer(request))
    return machine.pools


def run_shuffled(streams: Streams, rule: RoundSize, order: Random) -> list[Pool]:
    """Barrier-free, samples coming back one at a time in any order."""
    machine = Elimination(streams.pools, rule, seed=0)
    waiting = [(request, sample) for request in machine.start() for sample in streams.answer(request)]
    while waiting:
        request, sample = waiting.pop(order.randrange(len(waiting)))
        for following in machine.receive(request, [sample]):
            waiting += [(following, s) for s in streams.answer(following)]
    assert machine.num_active == 0
    return machine.pools


def run_with_barrier(streams: Streams, rule: RoundSize) -> list[Pool]:
    """All prompts finish a round before any starts its next, as in the paper's listing."""
    machine = Elimination(streams.pools, rule, seed=0)
    waiting = machine.start()
    while waiting:
        waiting = [r for request in waiting for r in machine.receive(request, streams.answer(request))]
    return machine.pools


Paths = dict[tuple[int, int, int], int]
"""(correct, incorrect, rounds) of a resolved pool -> how many sequences of outcomes lead there."""


def paths(rule: RoundSize) -> Paths:
    """The exact law of a rule, by counting: follow every sequence of outcomes until the rule asks for no more."""
    open_: Paths = {(0, 0, 0): 1}
    closed: Paths = {}
    while open_:
        following: Paths = {}
        for (correct, incorrect, rounds), ways in open_.items():
            m = rule(make_pool("+" * correct + "-" * incorrect))
            if m == 0:
                closed[correct, incorrect, rounds] = ways
            for x in range(m + 1) if m else ():
                state = (correct + x, incorrect + m - x, rounds + 1)
                following[state] = following.get(state, 0) + ways * comb(m, x)
        open_ = following
    return closed


def probability(ways: int, correct: int, incorrect: int, p: float | str) -> float:
    """Of `ways` sequences with these outcomes, at pass rate p or under "beta(a,b)"."""
    if isinstance(p, float):
        return ways * p**correct * (1 - p) ** incorrect
    a, b = map(float, p.removeprefix("beta(").removesuffix(")").split(","))
    return exp(
        log(ways) + lgamma(a + correct) + lgamma(b + incorrect) - lgamma(a + b + correct + incorrect)
        - lgamma(a) - lgamma(b) + lgamma(a + b)
    )  # fmt: skip


def on_ranks(world_size: int, work: Callable[[int, Callable[[Sequence[Any]], list[Any]]], Any]) -> list[Any]:
    """Run `work(rank, gather)` on as many threads and return what each gave; gather joins their lists."""
    barrier, results, shared = Barrier(world_size), [None] * world_size, [[]] * world_size
    failures: list[BaseException] = []

    def gather_of(rank: int) -> Callable[[Sequence[Any]], list[Any]]:
        def gather(records: Sequence[Any]) -> list[Any]:
            shared[rank] = list(records)
            barrier.wait(timeout=20)
            joined = [r for part in shared for r in part]
            barrier.wait(timeout=20)
            return joined

        return gather

    def run_rank(rank: int) -> None:
        try:
            results[rank] = work(rank, gather_of(rank))
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [Thread(target=run_rank, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def pass_rates(count: int, seed: int, a: float = 0.3, b: float = 0.7) -> list[float]:
    """Draws of the population's Beta(a, b)."""
    rng = Random(derive_seed("pass rates", seed))
    return [rng.betavariate(a, b) for _ in range(count)]
