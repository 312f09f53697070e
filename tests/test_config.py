"""A recipe is read whole or refused in a sentence."""

from pathlib import Path

import pytest

from adarl.config import RecipeError, SamplingSettings, load_recipe

MINIMAL = """
run: {max_steps: 2}
model: {path: some/model}
data: {path: some/data, prompts_per_step: 8}
sampling: {max_response_tokens: 16}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(MINIMAL)
    return path


def test_defaults_are_the_papers(recipe):
    r = load_recipe(recipe)
    assert r.name == "small"
    assert (r.sampling.strategy, r.sampling.group_size, r.sampling.samples_per_round, r.sampling.num_rounds) == (
        "balanced", 4, 8, 4,
    )  # fmt: skip
    assert (r.algorithm.clip_low, r.algorithm.clip_high, r.learner.lr, r.learner.warmup_updates) == (
        0.2,
        0.28,
        1e-6,
        10,
    )
    assert r.sampling.max_samples == 32


def test_the_command_line_wins_over_the_file(recipe):
    r = load_recipe(recipe, ["run.seed=3", "sampling.strategy=uniform", "learner.betas=[0.8,0.9]"])
    assert (r.run.seed, r.sampling.strategy, r.learner.betas) == (3, "uniform", (0.8, 0.9))
    assert r.sampling.max_samples == 4


def test_a_recipe_extends_another(recipe, tmp_path):
    child = tmp_path / "child.yaml"
    child.write_text("extends: small.yaml\ndata: {prompts_per_step: 4}\n")
    r = load_recipe(child)
    assert (r.name, r.data.path, r.data.prompts_per_step) == ("child", "some/data", 4)


def test_extends_in_a_circle_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("extends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n")
    with pytest.raises(RecipeError, match="break the circle"):
        load_recipe(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("sampling.group_sise=4", "unknown key sampling.group_sise: did you mean 'group_size'?"),
        ("nonsense=4", "unknown key nonsense: known here: algorithm, data,"),
        ("learner.lora.rnk=4", "unknown key learner.lora.rnk: did you mean 'rank'?"),
        ("validation={path: p, evry: 2}", "unknown key validation.evry: did you mean 'every'?"),
        ("sampling.group_size=1", "sampling.group_size = 1: input should be greater than or equal to 2"),
        ("sampling.samples_per_round=0", "sampling.samples_per_round = 0: input should be greater"),
        ("sampling.num_rounds=many", "sampling.num_rounds = 'many': input should be a valid integer"),
        (
            "sampling={strategy: balanced, samples_per_round: 1, num_rounds: 3}",
            "= 3 is less than sampling.group_size",
        ),
        ("sampling.temperature=0", "sampling.temperature = 0: input should be greater than 0"),
        (
            "sampling.strategy=best",
            "sampling.strategy = 'best': input should be 'uniform', 'positive_focused',",
        ),
        ("learner.lr=.inf", "learner.lr = inf: input should be a finite number"),
        (
            "algorithm.updates_per_step=9",
            "algorithm.updates_per_step = 9 is more than data.prompts_per_step = 8",
        ),
        ("data.path=null", "data.path = None: input should be a valid string"),
        ("verifier.extraction=first", "verifier.extraction is 'first': choose one of last_boxed"),
        ("--run.seed=1", "override '--run.seed=1' is not of the form section.key=value"),
        ("run.seed", "override 'run.seed' is not of the form section.key=value"),
        ("run.dir=${nowhere}", "Interpolation key 'nowhere' not found"),
        ("run.seed=[", "override 'run.seed=[': the value is not readable as YAML"),
        ("run=[1]", "override 'run=[1]': Cannot merge incompatible container types"),
    ],
)
def test_a_mistake_is_a_sentence_that_names_the_key(recipe, override, sentence):
    with pytest.raises(RecipeError) as error:
        load_recipe(recipe, [override])
    assert sentence in str(error.value)


def test_every_mistake_is_reported_at_once(recipe):
    with pytest.raises(RecipeError) as error:
        load_recipe(recipe, ["run.seed=-1", "learner.lr=-1", "data.prompts=3"])
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("- a\n- b\n", "a recipe is a mapping of sections"),
        ("a: [", "not readable as YAML"),
        ("", "model is not set: every recipe needs it"),
        ("run: 3\n", "run = 3"),
    ],
)
def test_a_file_that_is_no_recipe(tmp_path, content, sentence):
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(RecipeError, match=r".") as error:
        load_recipe(path)
    assert sentence in str(error.value)


def test_a_recipe_that_is_not_there(tmp_path):
    with pytest.raises(RecipeError, match="there is no such recipe"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(RecipeError, match="is a folder"):
        load_recipe(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["sampling.min_correct=30", "sampling.min_incorrect=3"], "= 33 can never be met by"),
        (
            ["sampling.strategy=positive_focused", "sampling.min_incorrect=2"],
            "sampling.min_incorrect = 2 means nothing to positive_focused",
        ),
        (
            ["sampling.strategy=estimated", "sampling.estimated.min_samples=8"],
            "sampling.group_size = 4 is the mean budget and has to lie between sampling.estimated.min_samples = 8",
        ),
        (
            ["sampling.strategy=downsampled", "sampling.downsampled.rollouts=3"],
            "sampling.downsampled.rollouts = 3 is less than sampling.group_size = 4",
        ),
        (["algorithm.clip_low=1.0"], "algorithm.clip_low = 1.0 lets the ratio fall to zero"),
        (
            ["algorithm.objective=cispo", "algorithm.ratio=sequence"],
            "has no form for algorithm.ratio = sequence",
        ),
        (
            ["algorithm.objective=cispo", "algorithm.dual_clip=10"],
            "algorithm.dual_clip = 10.0 belongs to objective = clip",
        ),
        (
            ["sampling.strategy=filtered", "algorithm.uniform_groups=keep"],
            "sampling.strategy = filtered replaces groups without signal, and algorithm.uniform_groups = keep would",
        ),
        (
            ["data.selection.kind=screened", "sampling.strategy=estimated"],
            "data.selection.kind = screened draws before sampling.strategy = estimated has set its budgets",
        ),
        (
            ["data.selection.kind=screened", "sampling.strategy=uniform"],
            "data.selection.screened.samples = 4 leaves nothing of the 4 samples",
        ),
        (
            ["data.selection.kind=skip_uniform", "data.selection.skip_uniform.start=0.99"],
            "start = 0.99 lies outside",
        ),
        (["sampling.posterior.futility=1"], "sampling.posterior.futility = 1: input should be less than 1"),
        (
            ["sampling.posterior.tau=0.5"],
            "unknown key sampling.posterior.tau: known here: confidence, futility",
        ),
    ],
)
def test_combinations_that_cannot_be_are_a_sentence(recipe, overrides, sentence):
    with pytest.raises(RecipeError) as error:
        load_recipe(recipe, overrides)
    assert sentence in str(error.value)


def test_quotas_default_to_the_strategys():
    def quotas(**keys):
        return SamplingSettings(max_response_tokens=1, **keys).quotas

    assert quotas() == (2, 2)
    assert quotas(group_size=5) == (2, 3)
    assert quotas(min_correct=1, min_incorrect=3) == (1, 3)
    assert quotas(strategy="positive_focused") == (1, 0)
    assert quotas(strategy="positive_focused", min_correct=16) == (16, 0)
    assert quotas(strategy="uniform") == (0, 0)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "learner.deepspeed.gradient_accumulation_steps=4",
            "is for learner.max_tokens_per_microbatch to say",
        ),
        ("learner.deepspeed.zero_optimization.stage=1", "is for learner.zero_stage to say"),
        ("learner.deepspeed.bf16={enabled: false}", "is for learner.dtype to say"),
    ],
)
def test_what_follows_from_the_recipe_cannot_be_set_behind_its_back(recipe, override, sentence):
    with pytest.raises(RecipeError, match=sentence):
        load_recipe(recipe, [override])
