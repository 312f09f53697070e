"""Which prompts a step samples."""

import pytest

from adarl.config import DataSettings
from adarl.prompts import DataError, load_problems
from tests.loops import prompts_of, recipe_of, run_steps

MANY = prompts_of(*["", "0", "01", "012", "0123"] * 12)

SELECTIONS = {
    "shuffled": {},
    "bayesian": {"kind": "bayesian", "bayesian": {"candidates": 3, "forgetting": 0.5}},
    "adaptive_difficulty": {"kind": "adaptive_difficulty", "adaptive_difficulty": {"candidates": 4}},
    "skip_uniform": {"kind": "skip_uniform"},
    "screened": {"kind": "screened", "screened": {"samples": 2, "max_rounds": 4}},
}


@pytest.mark.parametrize("strategy", ["uniform", "balanced", "filtered"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_several_ranks_and_a_resume_choose_what_one_run_on_one_rank_chooses(name, strategy):
    recipe = recipe_of(6, SELECTIONS[name], strategy=strategy)
    whole = run_steps(recipe, MANY, steps=5)
    assert run_steps(recipe, MANY, steps=5, resume=True, order=3) == whole
    assert run_steps(recipe, MANY, steps=5, world_size=3, resume=True) == whole


def chosen(seen) -> str:
    """How many prompts of each pass rate a step sampled: those of 0, 1/4, 1/2, 3/4 and 1."""
    counts = [0] * 5
    for pool in seen.pools.values():
        counts[len(pool.prompt.answer)] += 1
    return "/".join(map(str, counts))


def test_shuffled_brings_each_prompt_once_an_epoch():
    steps = run_steps(recipe_of(12, strategy="uniform"), MANY, steps=5)
    assert sorted(p for seen in steps for p in seen.pools) == sorted(p.id for p in MANY)


def test_bayesian_comes_to_prompts_of_one_half():
    recipe = recipe_of(12, {"kind": "bayesian"}, strategy="uniform")
    steps = run_steps(recipe, MANY, steps=30)
    middle = [sum(0 < len(p.prompt.answer) < 4 for p in seen.pools.values()) for seen in steps]
    assert sum(middle[:2]) < 0.8 * 24  # nothing known: 3 in 5 are neither hopeless nor solved
    assert sum(middle[-8:]) > 0.9 * 96
    assert all(len(seen.pools) == 12 for seen in steps)


def test_adaptive_difficulty_follows_the_reward():
    """T <- clip(T + 50 tanh(2 (R - 0.5)), 0, 100): from easy (0) up to where half of the answers are right."""
    recipe = recipe_of(12, {"kind": "adaptive_difficulty"}, strategy="uniform")
    steps = run_steps(recipe, MANY, steps=12)
    targets = [seen.notes["selection/target_difficulty"] for seen in steps]
    assert targets[0] == 0.0
    assert chosen(steps[0]) == "0/0/0/0/12"  # difficulty 0: always right
    assert targets[1] == pytest.approx(50 * 0.7615942)  # R = 1: tanh(1)
    assert chosen(steps[1]) == "0/0/0/12/0" or chosen(steps[1]) == "0/0/12/0/0"
    assert 30 < sum(targets[4:]) / 8 < 70


def test_skip_uniform_goes_past_prompts_that_stay_uniform():
    prompts = prompts_of(*["", "01", "0123", "01"] * 15)
    recipe = recipe_of(12, {"kind": "skip_uniform"}, strategy="uniform", group_size=8)
    steps = run_steps(recipe, prompts, steps=40)
    assert all(len(seen.pools) == 12 for seen in steps)
    signal = [sum(p.is_mixed for p in seen.pools.values()) / 12 for seen in steps]
    assert sum(signal[:5]) / 5 == pytest.approx(0.5, abs=0.02)  # first epoch: half of the prompts are mixed
    assert sum(signal[-15:]) / 15 > 0.75  # targets: a quarter uniform
    assert steps[0].notes["selection/skipped"] == 0
    assert sum(seen.notes["selection/skipped"] for seen in steps[-10:]) > 50


def test_skip_uniform_moves_its_chances_after_the_first_epoch():
    prompts = prompts_of(*[""] * 24)
    recipe = recipe_of(12, {"kind": "skip_uniform"}, strategy="uniform")
    notes = [seen.notes for seen in run_steps(recipe, prompts, steps=4)]
    assert [n["selection/hard_chance"] for n in notes] == pytest.approx([0.5, 0.5, 0.49, 0.48])
    assert [n["selection/easy_chance"] for n in notes] == pytest.approx([0.5, 0.5, 0.51, 0.52])


def test_screened_continues_mixed_prompts_and_counts_what_it_drew_for_the_others():
    recipe = recipe_of(6, {"kind": "screened", "screened": {"samples": 4}}, strategy="uniform", group_size=8)
    (seen,) = run_steps(recipe, MANY, steps=1)
    assert len(seen.trained) == 6
    sizes = sorted(pool.size for pool in seen.pools.values())
    assert sizes.count(8) == 6
    assert set(sizes) == {4, 8}
    assert all(p.is_mixed for p in seen.pools.values() if p.size == 8)
    assert not any(p.is_mixed for p in seen.pools.values() if p.size == 4)
    assert [s.sample.round for s in seen.trained[min(seen.trained)].samples] == [0] * 4 + [1] * 4


def test_screened_says_how_many_are_missing():
    recipe = recipe_of(
        6, {"kind": "screened", "screened": {"max_rounds": 2}}, strategy="uniform", group_size=8
    )
    (seen,) = run_steps(recipe, prompts_of(*[""] * 20), steps=1)
    assert (len(seen.trained), len(seen.pools), seen.notes["selection/missing"]) == (0, 12, 6)


def test_difficulties_are_read_where_the_selection_wants_them(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_text('{"id": "a", "problem": "1+1", "answer": "2", "hardness": 30}\n')
    selection = {"kind": "adaptive_difficulty", "adaptive_difficulty": {"column": "hardness"}}
    wanted = DataSettings(path=str(file), prompts_per_step=1, selection=selection)
    assert load_problems(str(file), wanted)[0].difficulty == 30.0
    assert load_problems(str(file), DataSettings(path=str(file), prompts_per_step=1))[0].difficulty is None
    file.write_text('{"id": "a", "problem": "1+1", "answer": "2", "hardness": 101}\n')
    with pytest.raises(DataError, match="difficulty 101 is not a number from 0 to 100"):
        load_problems(str(file), wanted)
