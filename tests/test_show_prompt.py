"""`adarl check --show-prompt` prints what the model sees, exactly."""

import json

import pytest
from typer.testing import CliRunner

from adarl.cli import app
from adarl.errors import UserError
from data_prep import tiny_arithmetic

RECIPE = """
run: {max_steps: 1}
model: {path: DIR/model}
data: {path: DIR/data.jsonl, prompts_per_step: 1, max_prompt_tokens: 12, system_prompt: "1+1=2", prompt_suffix: "="}
sampling: {max_response_tokens: 20}
"""


@pytest.fixture
def recipe(tmp_path):
    tiny_arithmetic.make_tokenizer().save_pretrained(tmp_path / "model")
    tiny_arithmetic.make_model().config.save_pretrained(tmp_path / "model")
    (tmp_path / "data.jsonl").write_text(json.dumps({"id": "a", "problem": "3*4", "answer": "12"}))
    (tmp_path / "r.yaml").write_text(RECIPE.replace("DIR", str(tmp_path)))
    return tmp_path / "r.yaml"


def test_text_and_tokens_of_the_first_prompt(recipe):
    shown = CliRunner().invoke(app, ["check", "--show-prompt", str(recipe)]).stdout.splitlines()
    assert shown[0].startswith("problem a of ")
    assert shown[0].endswith("/model: none; the plain one of adarl/prompts.py")
    # The tokenizer has no line feed: the empty line between the messages vanishes.
    assert shown[1:] == [
        "---- text",
        "1+1=23*4=",
        "---- 9 tokens (limit data.max_prompt_tokens = 12)",
        "5:'1' 14:'+' 5:'1' 17:'=' 6:'2' 7:'3' 16:'*' 8:'4' 17:'='",
        "---- gold",
        "12",
    ]


def test_a_model_that_cannot_be_loaded_is_a_sentence(recipe):
    recipe.write_text(recipe.read_text().replace("/model}", "/nowhere}"))
    with pytest.raises(UserError, match="nowhere: no model can be loaded from there"):
        CliRunner().invoke(app, ["check", "--show-prompt", str(recipe)], catch_exceptions=False)
