"""The edge policy of ALGORITHMS.md, section 6, through whole steps and through the machine; and length bias."""

from random import Random
from statistics import fmean

import pytest

from adarl.advantages import Estimator, global_mean, stratified
from adarl.config import RecipeError, load_recipe
from adarl.exit_conditions import balanced
from adarl.groups import build_group, keep_balanced
from adarl.sampling import Elimination, elimination
from adarl.types import Pool, Sample, ScoredSample, Verdict, Verification
from tests.conftest import make_pool, make_prompt
from tests.loops import DigitEngine, prompts_of, recipe_of, run_steps


@pytest.mark.parametrize(("answer", "reward"), [("0123", 1.0), ("", 0.0)])
def test_all_right_and_all_wrong_pools_are_sampled_to_the_cap_and_dropped(answer, reward):
    prompts = prompts_of(answer, "01")
    (seen,) = run_steps(recipe_of(2, strategy="balanced"), prompts, steps=1)
    assert seen.pools["p000"].size == 16
    assert list(seen.trained) == ["p001"]
    kept = recipe_of(2, strategy="balanced", algorithm={"uniform_groups": "keep"})
    (seen,) = run_steps(kept, prompts, steps=1)
    assert seen.trained["p000"].advantages == (0.0, 0.0, 0.0, 0.0)
    assert seen.trained["p000"].baseline == reward


def test_a_pool_smaller_than_n_is_kept_whole_and_normalised_by_n():
    pool = make_pool("+-")
    group = build_group(pool, keep_balanced(4), Estimator(stratified(4)), seed=0)
    assert group.samples == pool.samples
    assert group.advantages == (1.0, -1.0)  # 4 * 1/4, as in a pool of any size


def test_an_odd_group_gives_its_extra_place_to_the_incorrect():
    group = build_group(make_pool("+" * 9 + "-" * 9), keep_balanced(5), Estimator(global_mean), seed=0)
    assert [s.correct for s in group.samples].count(True) == 2
    (seen,) = run_steps(
        recipe_of(3, strategy="balanced", group_size=3), prompts_of("0", "01", "012"), steps=1
    )
    for pool in seen.pools.values():
        assert pool.size == 16 or (pool.num_correct >= 1 and pool.num_incorrect >= 2)


def test_groups_of_two_work_and_of_one_are_refused(tmp_path):
    (seen,) = run_steps(recipe_of(4, strategy="balanced", group_size=2), prompts_of(*["01"] * 4), steps=1)
    assert all(sorted(g.advantages)[0] < 0 < sorted(g.advantages)[1] for g in seen.trained.values())
    assert all(len(g.samples) == 2 for g in seen.trained.values())
    file = tmp_path / "one.yaml"
    file.write_text(
        "{run: {max_steps: 1}, model: {path: m}, data: {path: d, prompts_per_step: 2},"
        " sampling: {group_size: 1, max_response_tokens: 4}}"
    )
    with pytest.raises(
        RecipeError, match=r"sampling.group_size = 1: input should be greater than or equal to 2"
    ):
        load_recipe(file)


def test_the_last_round_is_what_is_left_below_a_cap_that_is_no_multiple_of_m():
    pool = make_pool("-" * 4)  # from a screening of four; then rounds of 5 up to 10
    machine = Elimination([pool], elimination(balanced(2, 2), 5, 2), seed=0)
    sizes = []
    waiting = machine.start()
    while waiting:
        sizes.append(len(waiting[0].indices))
        waiting = machine.receive(waiting[0], [wrong(waiting[0], i) for i in waiting[0].indices])
    assert sizes == [5, 1]
    assert machine.pools[0].size == 10


def wrong(
    request, index: int, verdict: Verdict = Verdict.INCORRECT, tokens: int = 1, truncated: bool = False
):
    sample = Sample(
        request.prompt.id, request.round, index, "", tuple(range(tokens)), (-1.0,) * tokens, truncated
    )
    return ScoredSample(sample, Verification(verdict, float(verdict.is_correct)))


@pytest.mark.parametrize("failing", [0, 2])
def test_a_verifier_error_is_drawn_again_and_never_wrong(failing):
    machine = Elimination([Pool(make_prompt())], elimination(balanced(2, 2), 4, 1), seed=0)
    (request,) = machine.start()
    verdicts = [Verdict.CORRECT if i != failing else Verdict.ERROR for i in range(4)]
    (again,) = machine.receive(request, [wrong(request, i, verdict) for i, verdict in enumerate(verdicts)])
    assert (again.indices, again.round) == ((failing,), 0)
    assert machine.receive(again, [wrong(again, failing, Verdict.CORRECT)]) == []
    assert (machine.pools[0].num_correct, machine.pools[0].num_incorrect) == (4, 0)


def test_a_reward_that_is_no_number_is_drawn_again_too():
    machine = Elimination([Pool(make_prompt())], elimination(balanced(1, 1), 2, 1), seed=0)
    (request,) = machine.start()
    void = ScoredSample(wrong(request, 1).sample, Verification(Verdict.INCORRECT, float("nan")))
    (again,) = machine.receive(request, [wrong(request, 0), void])
    assert again.indices == (1,)
    machine.receive(again, [wrong(again, 1, Verdict.CORRECT)])
    assert [s.reward for s in machine.pools[0].samples] == [0.0, 1.0]


class EmptyEngine(DigitEngine):
    """Ends every response at once: no token, no text."""

    def poll(self):
        return [
            (request, tuple(Sample(s.prompt_id, s.round, s.index, "", (), (), False) for s in samples))
            for request, samples in super().poll()
        ]


class CutEngine(DigitEngine):
    """Every response is cut at the length limit, and what was cut off would have been right half of the time."""

    def poll(self):
        return [
            (
                request,
                tuple(
                    Sample(s.prompt_id, s.round, s.index, s.text, s.token_ids, s.engine_logprobs, True)
                    for s in samples
                ),
            )
            for request, samples in super().poll()
        ]


def test_empty_responses_are_wrong_and_nothing_is_trained_on(monkeypatch):
    monkeypatch.setattr("tests.loops.DigitEngine", EmptyEngine)
    (seen,) = run_steps(recipe_of(2, strategy="balanced"), prompts_of("\0", "\0"), steps=1)
    assert [p.size for p in seen.pools.values()] == [16, 16]
    assert not seen.trained


def test_with_every_sample_truncated_and_masked_the_pools_are_as_before_and_no_loss_is_left(monkeypatch):
    prompts = prompts_of("01", "012")
    (plain,) = run_steps(recipe_of(2, strategy="balanced"), prompts, steps=1)
    monkeypatch.setattr("tests.loops.DigitEngine", CutEngine)
    recipe = recipe_of(2, strategy="balanced")
    (seen,) = run_steps(recipe, prompts, steps=1)
    assert [p.size for p in seen.pools.values()] == [p.size for p in plain.pools.values()]
    assert all(p.num_truncated == p.size for p in seen.stats)
    masked = recipe.model_copy(
        update={"verifier": recipe.verifier.model_copy(update={"mask_truncated": True})}
    )
    (seen,) = run_steps(masked, prompts, steps=1)
    assert [p.size for p in seen.pools.values()] == [p.size for p in plain.pools.values()]
    assert not seen.trained


def length_of(seed: int, label: str, index: int, correct: bool) -> float:
    """Lognormal tokens: correct responses have a median of 545, incorrect ones of 812."""
    draw = Random(f"{seed}/{label}/{index}").gauss(0.0, 1.0)
    return (545.0 if correct else 812.0) * 2.718281828459045 ** ((0.5 if correct else 0.7) * draw)


def timed_pools(num_prompts: int, pass_rate: float):
    """Run the machine on a clock: a sample returns when its length is decoded, whatever order that makes.

    Returns the pools and when each sample ended, by (label, index).
    """
    pools = [Pool(make_prompt(f"p{i}")) for i in range(num_prompts)]
    machine = Elimination(pools, elimination(balanced(2, 2), 8, 4), seed=0)
    clock, running, ended = 0.0, [], {}

    def submit(requests):
        for request in requests:
            for index in request.indices:
                correct = Random(f"c/{request.label}/{index}").random() < pass_rate
                running.append((clock + length_of(0, request.label, index, correct), request, index, correct))

    submit(machine.start())
    while running:
        running.sort(key=lambda job: job[0])
        clock, request, index, correct = running.pop(0)
        ended[request.label, index] = clock
        verdict = Verdict.CORRECT if correct else Verdict.INCORRECT
        submit(machine.receive(request, [wrong(request, index, verdict)]))
    return machine.pools, ended


def kept_over_population(pools, keep) -> tuple[float, float]:
    """Mean length of the kept correct and incorrect samples over that of all that could be drawn."""
    ratios = []
    for correct in (True, False):
        kept = [
            length_of(0, p.label, i, correct)
            for p in pools
            for i in keep(p)
            if p.samples[i].correct is correct
        ]
        median, sigma = (545.0, 0.5) if correct else (812.0, 0.7)
        ratios.append(fmean(kept) / (median * 2.718281828459045 ** (sigma**2 / 2)))
    return ratios[0], ratios[1]


@pytest.mark.parametrize("pass_rate", [0.1, 0.5])
def test_kept_responses_have_the_lengths_of_the_population(pass_rate):
    """400 prompts, about 600 kept of a kind: standard errors of the ratios below 0.04; 3.5 of them allowed."""
    pools, ended = timed_pools(400, pass_rate)
    ours = kept_over_population(
        pools, lambda p: [s.sample.index for s in build_group(p, keep_balanced(4), Estimator(global_mean), seed=len(p.label)).samples]
    )  # fmt: skip
    assert ours == pytest.approx((1.0, 1.0), abs=0.14)

    def first_to_arrive(pool):
        order = sorted(range(pool.size), key=lambda i: ended[pool.label, i])
        correct = [i for i in order if pool.samples[i].correct][:2]
        return correct + [i for i in order if not pool.samples[i].correct][: 4 - len(correct)]

    biased = kept_over_population(pools, first_to_arrive)  # deliberately wrong: the test must see it
    assert biased[1] < 0.75
    if pass_rate == 0.5:
        assert biased[0] < 0.8
