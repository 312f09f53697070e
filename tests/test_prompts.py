"""Problems of a data set become prompts; the stream of them is seeded and resumable."""

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from adarl.config import DataSettings, load_recipe
from adarl.prompts import DataError, PromptStream, build_prompts, load_problems, render
from tests.conftest import make_prompt

SETTINGS = DataSettings(path="set", prompts_per_step=2)
ROWS = [{"id": "a", "problem": "one two", "answer": "3"}, {"id": "b", "problem": "two two", "answer": "4"}]


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return str(path)


@pytest.fixture
def tokenizer():
    words = ["<unk>", "one", "two", "sys", "please", "<u>", "</u>"]
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


def test_a_jsonl_file_and_a_folder_of_them(tmp_path):
    path = write(tmp_path / "x.jsonl", ROWS)
    assert [(p.id, p.problem, p.answer) for p in load_problems(path, SETTINGS)] == [
        ("a", "one two", "3"), ("b", "two two", "4"),
    ]  # fmt: skip
    write(tmp_path / "y.jsonl", [{"id": "c", "problem": "one", "answer": "1"}])
    assert [p.id for p in load_problems(str(tmp_path), SETTINGS)] == ["a", "b", "c"]


def test_columns_are_mapped_and_may_lie_in_a_struct(tmp_path):
    path = write(tmp_path / "x.jsonl", [{"q": "one", "reward_model": {"ground_truth": 7}}])
    settings = DataSettings(
        path=path, prompts_per_step=1, id=None, problem="q", answer="reward_model.ground_truth"
    )
    assert [(p.id, p.problem, p.answer) for p in load_problems(path, settings)] == [("0", "one", "7")]


# The columns of the authors' released sets, as recipes/base/reinforce_ada.yaml maps them.
RELEASED = {"problem": "one two", "gt": "3", "prompt": [{"role": "user", "content": "one two"}]}
TAKEN_TWICE = "one two Let's think step by step and output the final answer within \\boxed{}."


def test_the_authors_sets_load_by_the_paper_s_recipe(tmp_path):
    path = write(tmp_path / "x.jsonl", [RELEASED, RELEASED | {"gt": 4}])
    recipe = load_recipe("recipes/qwen25_math_7b.yaml", [f"data.path={path}"])
    assert [(p.id, p.problem, p.answer) for p in load_problems(path, recipe.data)] == [
        ("0", "one two", "3"), ("1", "one two", "4"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "column", "sentence"),
    [
        (RELEASED, "prompt", "column 'prompt' holds a list, not a text (a list of messages is a prompt"),
        (RELEASED | {"q": TAKEN_TWICE}, "q", "holds an instruction to reason step by step"),
        (RELEASED | {"q": "<|im_start|>user\none"}, "q", "holds '<|im_start|>', so it is rendered"),
    ],
)
def test_a_prompt_that_is_rendered_already_is_refused_with_a_hint(tmp_path, row, column, sentence):
    path = write(tmp_path / "x.jsonl", [row])
    settings = DataSettings(path=path, prompts_per_step=1, id=None, problem=column, answer="gt")
    with pytest.raises(DataError) as error:
        load_problems(path, settings)
    assert "row 0: " in str(error.value)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [{"id": "a", "question": "one", "answer": "1"}],
            "row 0: no column 'problem'; set data.problem to one of: id,",
        ),
        ([ROWS[0], ROWS[0]], "row 1: id 'a' stands in row 0 too; make ids unique or set data.id: null"),
        ([{"id": "a", "problem": "one", "answer": " "}], "row 0: column 'answer' is empty; drop the row"),
        ([{"id": "a", "problem": None, "answer": "1"}], "row 0: column 'problem' is empty; drop the row"),
    ],
)
def test_a_bad_row_is_named(tmp_path, rows, sentence):
    with pytest.raises(DataError) as error:
        load_problems(write(tmp_path / "x.jsonl", rows), SETTINGS)
    assert sentence in str(error.value)


def test_what_is_no_data_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "bad.jsonl").write_text('{"id": 1\n')
    (tmp_path / "x.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "nothing.jsonl").touch()
    for path, sentence in [
        ("bad.jsonl", "not readable"), ("x.txt", "cannot read '.txt' files"),
        ("empty", "a data folder holds files of one kind"), ("nothing.jsonl", "is empty"), ("none", "neither a local file or folder nor"),
    ]:  # fmt: skip
        with pytest.raises(DataError, match=sentence):
            load_problems(str(tmp_path / path), SETTINGS)


def test_a_tokenizer_without_template_gets_the_texts_alone(tokenizer):
    settings = DataSettings(path="x", prompts_per_step=1, system_prompt="sys", prompt_suffix=" please")
    assert tokenizer.decode(render("one two", settings, tokenizer)) == "sys one two please"


def test_a_tokenizers_own_template_is_used(tokenizer):
    tokenizer.chat_template = "{% for m in messages %}<u> {{ m.content }} </u>{% endfor %}"
    assert tokenizer.decode(render("one", SETTINGS, tokenizer)) == "<u> one </u>"


def test_long_prompts_and_unreadable_golds_are_left_out_and_counted(tokenizer, tmp_path):
    rows = [
        *ROWS,
        {"id": "c", "problem": "one one one one", "answer": "1"},
        {"id": "d", "problem": "one", "answer": "?"},
    ]
    path = write(tmp_path / "x.jsonl", rows)
    settings = DataSettings(path=path, prompts_per_step=2, max_prompt_tokens=3)
    bad = lambda gold: "not a number" if gold == "?" else None  # noqa: E731
    prompts, notes = build_prompts(load_problems(path, settings), settings, tokenizer, bad)
    assert [(p.id, p.token_ids) for p in prompts] == [("a", (1, 2)), ("b", (2, 2))]
    assert notes == [
        "1 prompts are longer than data.max_prompt_tokens = 3",
        "1 gold answers cannot be graded against, for example d: not a number",
    ]
    with pytest.raises(
        DataError, match=r"2 of 4 prompts can be trained on, but data.prompts_per_step = 3: lower it"
    ):
        build_prompts(
            load_problems(path, settings), settings.model_copy(update={"prompts_per_step": 3}), tokenizer, bad
        )


PROMPTS = [make_prompt(f"p{i}") for i in range(10)]


def test_the_stream_goes_on_from_its_position():
    stream = PromptStream(PROMPTS, seed=1)
    steps = [[p.id for p in stream.take(4)] for _ in range(6)]
    again = PromptStream(PROMPTS, seed=1, position=0)
    for _ in range(3):
        again.take(4)
    resumed = PromptStream(PROMPTS, seed=1, position=again.position)
    assert [[p.id for p in resumed.take(4)] for _ in range(3)] == steps[3:]


def test_no_prompt_comes_twice_in_a_step_and_epochs_differ():
    stream = PromptStream(PROMPTS, seed=1)
    steps = [[p.id for p in stream.take(4)] for _ in range(5)]
    assert all(len(set(step)) == 4 for step in steps)
    assert not set(steps[0]) & set(steps[1])
    assert steps[0] != steps[2]
    assert stream.position == 24  # two steps an epoch of ten, the fifth step opens the third


def test_the_order_depends_on_the_seed():
    assert PromptStream(PROMPTS, 1).take(10) != PromptStream(PROMPTS, 2).take(10)
