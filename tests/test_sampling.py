"""Elimination as a state machine: what is asked for, and that no interleaving changes the pools."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adarl.exit_conditions import balanced, positive_focused
from adarl.sampling import Elimination, SampleRequest, SamplingError, elimination, uniform
from adarl.seeds import derive_seed
from adarl.types import Pool, Sample, ScoredSample, Verdict, Verification
from tests.conftest import make_pool, make_prompt, scored

BALANCED = elimination(balanced(2, 2), samples_per_round=4, num_rounds=3)


def draw(request: SampleRequest, pass_rate: float = 0.3) -> list[ScoredSample]:
    """Stands in for engine and verifier: outcomes that depend on the request's seed alone."""
    rng = Random(request.seed)
    samples = []
    for index in request.indices:
        verdict = Verdict.CORRECT if rng.random() < pass_rate else Verdict.INCORRECT
        sample = Sample(request.prompt.id, request.round, index, "", (rng.randrange(99),), (-1.0,), False)
        samples.append(ScoredSample(sample, Verification(verdict, float(verdict.is_correct))))
    return samples


def start(*ids: str) -> list[Pool]:
    return [Pool(make_prompt(id)) for id in ids or ("p",)]


def run(machine: Elimination, pick: Random | None = None) -> list[Pool]:
    """Return rounds one at a time: oldest first, or whichever `pick` chooses."""
    waiting = machine.start()
    while waiting:
        request = waiting.pop(pick.randrange(len(waiting)) if pick else 0)
        waiting += machine.receive(request, draw(request))
    assert machine.num_active == 0
    return machine.pools


def run_with_barrier(machine: Elimination) -> list[Pool]:
    """All prompts finish a round before any starts its next, as in the paper's listing."""
    waiting = machine.start()
    while waiting:
        waiting = [r for request in waiting for r in machine.receive(request, draw(request))]
    return machine.pools


def test_uniform_draws_the_group_in_one_round():
    pools = run(Elimination(start(), uniform(4), seed=0))
    assert (pools[0].size, pools[0].num_rounds) == (4, 1)


@pytest.mark.parametrize(
    ("outcomes", "size"),
    [("", 4), ("++++", 4), ("++--", 0), ("-----------", 1), ("------------", 0)],
)
def test_elimination_asks_for_rounds_until_resolved_or_capped(outcomes, size):
    assert BALANCED(make_pool(outcomes)) == size


def test_the_last_round_is_cut_at_the_cap():
    round_size = elimination(positive_focused(1), samples_per_round=5, num_rounds=2)
    assert round_size(make_pool("-" * 8)) == 2


def test_requests_carry_consecutive_indices_and_their_round():
    machine = Elimination(start(), elimination(balanced(9, 9), 4, 3), seed=0)
    seen = []
    waiting = machine.start()
    while waiting:
        seen.append((waiting[0].round, waiting[0].indices))
        waiting = machine.receive(waiting[0], draw(waiting[0]))
    assert seen == [(0, (0, 1, 2, 3)), (1, (4, 5, 6, 7)), (2, (8, 9, 10, 11))]


def test_seeds_differ_between_prompts_rounds_and_steps_and_never_between_runs():
    first = Elimination(start("a", "b"), BALANCED, seed=1).start()
    again = Elimination(start("a", "b"), BALANCED, seed=1).start()
    other = Elimination(start("a", "b"), BALANCED, seed=2).start()
    assert [r.seed for r in first] == [r.seed for r in again]
    assert len({r.seed for r in first + other}) == 4


def test_a_seed_is_the_same_on_every_machine():
    assert derive_seed("a", 1) == 8390313410132574505
    assert derive_seed("a", 11) != derive_seed("a1", 1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_any_interleaving_gives_the_pools_of_the_barrier(seed, order):
    pools = start(*(f"p{i}" for i in range(12)))
    expected = run_with_barrier(Elimination(pools, BALANCED, seed))
    assert run(Elimination(pools, BALANCED, seed), Random(order)) == expected


def run_by_samples(machine: Elimination, pick: Random) -> list[Pool]:
    """Return single samples, each time whichever `pick` chooses of all that are being drawn."""
    waiting = [(r, s) for r in machine.start() for s in draw(r)]
    while waiting:
        request, sample = waiting.pop(pick.randrange(len(waiting)))
        waiting += [(r, s) for r in machine.receive(request, [sample]) for s in draw(r)]
    assert machine.num_active == 0
    return machine.pools


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_any_order_of_single_samples_gives_the_pools_of_the_barrier(seed, order):
    prompts = [make_prompt(f"p{i}") for i in range(8)]
    expected = run_with_barrier(Elimination([Pool(p) for p in prompts], BALANCED, seed))
    assert run_by_samples(Elimination([Pool(p) for p in prompts], BALANCED, seed), Random(order)) == expected


def outcomes(request: SampleRequest, verdicts: str) -> list[ScoredSample]:
    """The first samples of a request with the given outcomes, + or -."""
    return [scored(v == "+", i, request.round) for i, v in zip(request.indices, verdicts, strict=False)]


def test_a_hopeless_round_starts_the_next_one_before_its_last_sample_is_back():
    machine = Elimination([Pool(make_prompt())], BALANCED, seed=0)
    (first,) = machine.start()
    assert machine.receive(first, outcomes(first, "--")) == []  # two more could still meet the quotas
    (second,) = machine.receive(first, outcomes(first, "---")[2:])
    assert (second.round, second.indices) == (1, (4, 5, 6, 7))
    assert machine.pools[0].size == 0  # nothing is in the pool before its round is complete
    assert machine.receive(second, outcomes(second, "++++")) == []
    assert machine.pools[0].size == 0
    assert machine.receive(first, [scored(False, 3)]) == []
    assert [s.correct for s in machine.pools[0].samples] == [False] * 4 + [True] * 4
    assert machine.num_active == 0


def test_the_last_round_starts_nothing_early():
    machine = Elimination([Pool(make_prompt())], elimination(balanced(2, 2), 4, 1), seed=0)
    (request,) = machine.start()
    assert machine.receive(request, outcomes(request, "---")) == []


def test_which_samples_failed_together_does_not_matter():
    pools = []
    for chunks in ([[0, 1, 2, 3]], [[1], [3, 0], [2]]):
        machine = Elimination([Pool(make_prompt())], uniform(4), seed=0)
        (request,) = machine.start()
        waiting = []
        for chunk in chunks:
            failed = {1, 2}
            samples = [
                ScoredSample(s.sample, Verification(Verdict.ERROR, 0.0)) if s.sample.index in failed else s
                for s in draw(request)
                if s.sample.index in chunk
            ]
            waiting += machine.receive(request, samples)
        for redraw in waiting:
            machine.receive(redraw, draw(redraw))
        pools.append(machine.pools)
    assert pools[0] == pools[1]


def test_two_ranks_draw_what_one_rank_draws():
    pools = start(*(f"p{i}" for i in range(9)))
    whole = run(Elimination(pools, BALANCED, seed=5))
    halves = [run(Elimination(pools[rank::2], BALANCED, seed=5)) for rank in range(2)]
    assert [halves[i % 2][i // 2] for i in range(9)] == whole


def test_a_failed_verification_is_drawn_again_and_never_counted_as_wrong():
    machine = Elimination(start(), uniform(4), seed=0)
    (request,) = machine.start()
    samples = draw(request)
    samples[2] = ScoredSample(samples[2].sample, Verification(Verdict.ERROR, 0.0))
    (redraw,) = machine.receive(request, samples)
    assert (redraw.indices, redraw.round, redraw.attempt) == ((2,), 0, 1)
    assert redraw.seed != request.seed
    assert machine.receive(redraw, draw(redraw)) == []
    pool = machine.pools[0]
    assert [s.sample.index for s in pool.samples] == [0, 1, 2, 3]
    assert all(s.verification.verdict is not Verdict.ERROR for s in pool.samples)


def test_a_verifier_that_fails_again_and_again_stops_the_run_by_name():
    machine = Elimination(start("p7"), uniform(2), seed=0)
    waiting = machine.start()
    with pytest.raises(SamplingError, match="failed 3 times on prompt 'p7'"):
        for _ in range(3):
            request = waiting[0]
            failed = [ScoredSample(s.sample, Verification(Verdict.ERROR, 0.0)) for s in draw(request)]
            waiting = machine.receive(request, failed)


def test_a_prompt_twice_in_a_step_has_other_draws_the_second_time():
    pools = [Pool(make_prompt("a")), Pool(make_prompt("b")), Pool(make_prompt("a"), occurrence=1)]
    first, other, again = Elimination(pools, BALANCED, seed=0).start()
    assert len({first.seed, other.seed, again.seed}) == 3
    assert len({first.key, other.key, again.key}) == 3
    alone = Elimination(pools[2:], BALANCED, seed=0).start()
    assert alone == [again]
    assert [p.occurrence for p in run(Elimination(pools, BALANCED, seed=0))] == [0, 0, 1]


def test_two_pools_of_one_label_are_refused():
    with pytest.raises(ValueError, match="number occurrences"):
        Elimination(start("a", "a"), BALANCED, seed=0)


def test_a_pool_with_samples_goes_on_where_it_stood():
    begun = make_pool("----")
    (request,) = Elimination([begun], BALANCED, seed=0).start()
    assert (request.round, request.indices) == (1, (4, 5, 6, 7))
    whole = run(Elimination(start(), BALANCED, seed=3))
    part = run(Elimination(start(), uniform(4), seed=3))
    assert run(Elimination(part, BALANCED, seed=3)) == whole


def test_a_round_that_nobody_waits_for_is_refused():
    machine = Elimination(start(), BALANCED, seed=0)
    (request,) = machine.start()
    machine.receive(request, draw(request))
    with pytest.raises(ValueError, match="is not one that is waited for"):
        machine.receive(request, draw(request))
