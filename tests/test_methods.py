"""Recipes of other methods: they differ from Reinforce-Ada's in what they are about, and say where it is from."""

import re
from pathlib import Path

import pytest

from adarl.config import load_recipe
from adarl.parts import step_settings

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
METHODS = {  # strategy, group size, advantage, ratio, aggregation, uniform groups, clip_low, clip_high
    "grpo": ("uniform", 4, "grpo", "token", "sequence_mean_token_mean", "keep", 0.2, 0.2),
    "dapo": ("filtered", 4, "grpo", "token", "token_mean", "drop", 0.2, 0.28),
    "drgrpo": ("uniform", 4, "group_mean", "token", "token_sum_norm", "keep", 0.2, 0.2),
    "gspo": ("uniform", 4, "grpo", "sequence", "sequence_mean_token_mean", "keep", 3e-4, 4e-4),
    "raftpp": ("uniform", 4, "raft", "token", "token_mean", "drop", 0.2, 0.2),
    "gvm_raft": ("two_stage", 8, "raft", "token", "token_mean", "drop", 0.2, 0.2),
    "reinforcepp": ("uniform", 4, "reinforce_pp_baseline", "token", "token_mean", "keep", 0.2, 0.2),
    "reinforce_ada_pos": ("positive_focused", 4, "global_mean", "token", "token_mean", "drop", 0.2, 0.28),
    "reinforce_ada_balance": ("balanced", 4, "global_mean", "token", "token_mean", "drop", 0.2, 0.28),
    "reinforce_ada_est": ("estimated", 8, "inverse_sqrt", "token", "token_mean", "drop", 0.2, 0.28),
    "reinforce_ada_lean": ("balanced", 4, "global_mean", "token", "token_mean", "drop", 0.2, 0.28),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_differs_in_sampling_and_algorithm_alone_and_cites_its_paper(name):
    path = RECIPES / f"{name}.yaml"
    base, recipe = load_recipe(RECIPES / "qwen25_math_7b.yaml"), load_recipe(path)
    sampling, algorithm = recipe.sampling, recipe.algorithm
    assert METHODS[name] == (
        sampling.strategy, sampling.group_size, algorithm.advantage, algorithm.ratio, algorithm.aggregation,
        algorithm.uniform_groups, algorithm.clip_low, algorithm.clip_high,
    )  # fmt: skip
    changed = {"name", "sampling", "algorithm"}
    assert recipe.model_dump(exclude=changed) == base.model_dump(exclude=changed)
    assert re.search(r"arXiv \d{4}\.\d{5}", path.read_text().split("extends:")[0])
    step_settings(recipe)


def test_only_our_own_recipe_has_the_posterior_rules_on():
    on = [
        name
        for name in METHODS
        if load_recipe(RECIPES / f"{name}.yaml").sampling.posterior.futility is not None
    ]
    assert on == ["reinforce_ada_lean"]
