import pytest
import yaml

from adarl.config import EngineSettings
from adarl.errors import UserError
from adarl.prompts import Problem
from adarl.verifier import VerifierSettings
from eval.benchmarks import ProblemSet
from eval.cli import with_changes
from eval.models import PAPER_SUFFIX, PAPER_SYSTEM_PROMPT, LoadedModel, Model, find_models, prompt_settings
from eval.plan import Sampling, make_plan


class Characters:
    """A tokenizer of one token a character."""

    chat_template = None

    def apply_chat_template(self, messages, chat_template, add_generation_prompt, tokenize):
        return "|".join(m["content"] for m in messages)

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [ord(c) for c in text]}


def make_run(folder, data):
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")
    (folder / "recipe.yaml").write_text(yaml.safe_dump({"data": data}))
    return folder


def test_a_model_is_found_by_what_it_is(tmp_path):
    local = tmp_path / "my-model"
    local.mkdir()
    (local / "config.json").write_text("{}")
    run = make_run(tmp_path / "run-1", {})
    given = ["Qwen/Qwen2.5-Math-1.5B", str(local), str(run), "prepared:tiny_arithmetic/model"]
    assert [(m.name, m.path) for m in find_models(given)] == [
        ("Qwen2.5-Math-1.5B", "Qwen/Qwen2.5-Math-1.5B"),
        ("my-model", str(local)),
        ("run-1", str(run / "model")),
        ("tiny_arithmetic", "prepared:tiny_arithmetic/model"),
    ]


def test_models_of_one_name_get_their_paths_as_names(tmp_path):
    runs = [str(make_run(tmp_path / part / "r", {})) for part in ("a", "b")]
    names = [m.name for m in find_models(runs)]
    assert len(set(names)) == 2
    assert [name[-6:] for name in names] == ["__a__r", "__b__r"]
    with pytest.raises(UserError, match="named twice"):
        find_models([runs[0], runs[0]])


def test_a_run_without_a_model_is_an_error_that_says_how_to_get_one(tmp_path):
    (tmp_path / "checkpoints" / "step-000050").mkdir(parents=True)
    (tmp_path / "recipe.yaml").write_text("{}")
    with pytest.raises(UserError) as caught:
        find_models([str(tmp_path)])
    assert "newest checkpoint is step-000050" in str(caught.value)
    assert f"adarl train {tmp_path}/recipe.yaml run.dir={tmp_path}" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no MODEL named"),
        (["a/b/c"], "there is no such folder, and it is not the form of a hub id"),
        (["./nowhere"], "there is no such folder"),
        (["/"], "holds neither a model"),
    ],
)
def test_what_is_no_model_is_a_sentence(given, message):
    with pytest.raises(UserError, match=message):
        find_models(given)


def test_other_weights_have_another_fingerprint(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"a" * 100)
    model = Model("m", "m", str(tmp_path))
    before = model.fingerprint
    (tmp_path / "model.safetensors").write_bytes(b"a" * 99 + b"b")
    assert model.fingerprint != before
    assert Model("m", "o/m", "o/m").fingerprint == "o/m"


def test_problems_are_put_as_in_the_paper_unless_a_run_or_the_user_says_otherwise(tmp_path):
    def put(model, *given):
        settings = prompt_settings(model, *given)
        return settings.system_prompt, settings.prompt_suffix, len(settings.examples)

    hub = Model("m", "o/m", "o/m")
    assert put(hub, None, None) == (PAPER_SYSTEM_PROMPT, PAPER_SUFFIX, 0)
    assert put(hub, "", " Think.") == ("", " Think.", 0)
    data = {"system_prompt": None, "prompt_suffix": "!", "examples": [{"problem": "1+1", "response": "2"}]}
    (run,) = find_models([str(make_run(tmp_path / "run", data))])
    assert put(run, None, None) == (None, "!", 1)
    assert put(run, "Be brief.", None) == ("Be brief.", "!", 1)


def plan(context, max_new_tokens=10):
    sets = [ProblemSet("b", (Problem("0", "1+1", "2"), Problem("1", "10+10", "20")), 2, "b.jsonl")]
    model = Model("m", "o/m", "o/m")
    settings = prompt_settings(model, "S", "?")
    sampling = Sampling(k=2, max_new_tokens=max_new_tokens)
    loaded = LoadedModel(Characters(), context)
    return make_plan(model, loaded, sets, sampling, settings, EngineSettings(), VerifierSettings())


def test_problems_are_rendered_by_training_s_code():
    tasks = plan(None).tasks
    assert ["".join(map(chr, t.prompt.token_ids)) for t in tasks] == ["S|1+1?", "S|10+10?"]


def test_a_response_may_fill_what_the_prompt_leaves_of_the_context():
    assert (plan(None).max_sequence, plan(None).cut_note) == (18, None)  # the longest prompt has 8
    assert (plan(18).max_sequence, plan(18).cut_note) == (18, None)
    assert plan(12).max_sequence == 12
    assert plan(12).cut_note == (
        "the context of m is 12 tokens: beside the longest prompt a response has 4 tokens, not 10"
    )


def test_a_prompt_that_fills_the_context_is_an_error():
    with pytest.raises(
        UserError, match="problem 1 of b makes a prompt of 8 tokens, but the context of m is 8"
    ):
        plan(8)


def test_settings_are_changed_by_key_and_value():
    changed = with_changes(EngineSettings(), ["dtype=float32", "kv_cache_gib=2"], "--engine")
    assert (changed.dtype, changed.kv_cache_gib) == ("float32", 2.0)
    with pytest.raises(UserError, match="--engine dtyp=x: give key=value with one of the keys dtype"):
        with_changes(EngineSettings(), ["dtyp=x"], "--engine")
    with pytest.raises(UserError, match="--engine: dtype = 'int8'"):
        with_changes(EngineSettings(), ["dtype=int8"], "--engine")
