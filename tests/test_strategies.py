"""Strategies that look at more than one prompt, and what all of them have in common."""

import pytest

from tests.loops import prompts_of, recipe_of, run_steps

MIXED = prompts_of(*["", "0", "01", "012", "0123"] * 6)

RECIPES = {
    "uniform": dict(strategy="uniform"),
    "positive_focused": dict(strategy="positive_focused"),
    "balanced": dict(strategy="balanced"),
    "posterior": dict(strategy="balanced", posterior={"futility": 0.5, "confidence": 0.5}),
    "quotas": dict(strategy="balanced", min_correct=1, min_incorrect=3),
    "estimated": dict(strategy="estimated", estimated={"min_samples": 2, "max_samples": 12}),
    "filtered": dict(strategy="filtered", filtered={"max_rounds": 3}),
    "two_stage": dict(strategy="two_stage", two_stage={"pilot_samples": 4}),
    "downsampled": dict(strategy="downsampled", downsampled={"rollouts": 8}),
}


def estimator_of(name: str) -> dict[str, str]:
    return {"advantage": "reinforce_pp_baseline" if name in ("uniform", "downsampled") else "global_mean"}


@pytest.mark.parametrize("name", RECIPES)
def test_several_ranks_and_a_resume_give_what_one_run_on_one_rank_gives(name):
    recipe = recipe_of(algorithm=estimator_of(name), **RECIPES[name])
    whole = run_steps(recipe, MIXED, steps=4)
    assert any(seen.trained for seen in whole)
    assert run_steps(recipe, MIXED, steps=4, resume=True, order=9) == whole
    assert run_steps(recipe, MIXED, steps=4, world_size=2) == whole
    assert run_steps(recipe, MIXED, steps=4, world_size=3, resume=True) == whole


def test_quotas_of_their_own_rule_the_exit():
    (seen,) = run_steps(recipe_of(**RECIPES["quotas"]), prompts_of(*["01"] * 6), steps=1)
    for pool in seen.pools.values():
        met = []
        for size in (4, 8, 12, 16):
            correct = sum(s.correct for s in pool.samples[:size])
            met.append(correct >= 1 and size - correct >= 3)
        assert pool.size == 4 * (1 + met.index(True))


def test_filtered_refills_with_exactly_what_is_missing():
    hopeless = prompts_of(*["", "01", "0123", "01"] * 20)
    recipe = recipe_of(6, strategy="filtered", filtered={"max_rounds": 10})
    steps = run_steps(recipe, hopeless, steps=3)
    for seen in steps:
        assert len(seen.trained) == 6
        assert all(g.has_signal for g in seen.trained.values())
        assert seen.notes["groups/missing"] == 0
        assert sum(p.is_mixed for p in seen.pools.values()) == 6  # no accepted group was thrown away
    assert [seen.position for seen in steps] == [sum(len(s.pools) for s in steps[: i + 1]) for i in range(3)]


def test_filtered_keeps_what_it_has_when_the_rounds_are_used_up():
    recipe = recipe_of(4, strategy="filtered", filtered={"max_rounds": 3})
    (seen,) = run_steps(recipe, prompts_of(*["", "0123"] * 10), steps=1)
    assert (len(seen.trained), seen.notes["groups/missing"], seen.notes["sampling/generation_rounds"]) == (
        0,
        4,
        3,
    )
    assert len(seen.pools) == 12
    (seen,) = run_steps(recipe, prompts_of(*["", "01"] * 10), steps=1)
    assert len(seen.trained) + seen.notes["groups/missing"] == 4
    assert len(seen.trained) > 0


def test_filtered_costs_n_over_the_chance_of_a_mixed_group():
    """n / (1 - p^n - q^n) samples a group: 4 / (1 - 2/16) = 4.571 at p = 1/2."""
    recipe = recipe_of(100, strategy="filtered")
    steps = run_steps(recipe, prompts_of(*["01"] * 400), steps=12)
    samples, groups = (
        sum(f(s) for s in steps)
        for f in (lambda s: sum(p.size for p in s.pools.values()), lambda s: len(s.trained))
    )
    assert groups == 1200
    # rejections before an acceptance are geometric: standard deviation 4 sqrt(1/8) / (7/8) = 1.616 samples
    assert samples / groups == pytest.approx(4.571, abs=4.5 * 1.616 / 1200**0.5)


def test_estimated_spends_its_total_where_pass_rates_are_low_and_trains_on_all():
    recipe = recipe_of(4, strategy="estimated", group_size=8, estimated={"min_samples": 2, "max_samples": 20})
    steps = run_steps(recipe, prompts_of("0", "01", "012", "0123"), steps=12)
    sizes = [{label: pool.size for label, pool in seen.pools.items()} for seen in steps]
    assert sizes[0] == {"p000": 8, "p001": 8, "p002": 8, "p003": 8}  # nothing known yet
    assert all(sum(s.values()) == 32 and min(s.values()) >= 2 for s in sizes)
    late = {label: sum(s[label] for s in sizes[4:]) / 8 for label in sizes[0]}
    # 1 / sqrt(p + 0.01) at p = .25, .5, .75, 1, scaled to a sum of 32
    assert late == pytest.approx({"p000": 11.2, "p001": 8.0, "p002": 6.6, "p003": 5.7}, abs=1.2)
    assert all(
        seen.trained[label].samples == seen.pools[label].samples for seen in steps for label in seen.trained
    )


def test_two_stage_trains_on_the_second_stage_alone_and_gives_nothing_to_the_hopeless():
    recipe = recipe_of(
        4, strategy="two_stage", two_stage={"pilot_samples": 8}, algorithm={"advantage": "raft"}
    )
    (seen,) = run_steps(recipe, prompts_of("", "0", "012", "0123"), steps=1)
    sizes = [pool.size for pool in seen.pools.values()]
    assert sizes[0] == 8  # no correct pilot response
    assert sum(sizes) == 4 * 8 + 4 * 4
    for label, group in seen.trained.items():
        assert all(s.sample.round == 1 for s in group.samples)
        assert len(group.samples) == seen.pools[label].size - 8


def test_downsampled_keeps_the_group_that_varies_most():
    recipe = recipe_of(
        5, strategy="downsampled", downsampled={"rollouts": 8}, algorithm={"advantage": "grpo"}
    )
    (seen,) = run_steps(recipe, prompts_of("", "0", "01", "012", "0123"), steps=1)
    assert {pool.size for pool in seen.pools.values()} == {8}
    kept = {
        0: 0,
        1: 1,
        2: 2,
        3: 2,
        4: 2,
        5: 2,
        6: 2,
        7: 3,
        8: 4,
    }  # correct among 8 -> correct among the 4 kept
    for label, group in seen.trained.items():
        assert sum(s.correct for s in group.samples) == kept[seen.pools[label].num_correct]


def test_a_prompt_twice_in_a_batch_has_two_pools_of_its_own():
    twice = prompts_of("0", "0")
    recipe = recipe_of(2, strategy="filtered", filtered={"max_rounds": 8})
    # Two prompts and steps of two: a refill brings one of them again, out of the next epoch.
    whole = run_steps(recipe, twice, steps=8)
    again = [p for seen in whole for p in seen.pools.values() if p.occurrence]
    assert again
    for seen in whole:
        for pool in (p for p in seen.pools.values() if p.occurrence):
            first = seen.pools[pool.prompt.id]
            assert [s.sample.text for s in pool.samples] != [s.sample.text for s in first.samples]
    assert run_steps(recipe, twice, steps=8, world_size=2) == whole
