import random

import pytest
from transformers import AutoTokenizer

from data_prep import smollm2
from data_prep import tiny_arithmetic as tiny


@pytest.mark.parametrize(
    ("a", "op", "b", "text", "answer"),
    [(37, "+", 58, "37+58=", "95"), (3, "-", 12, "3-12=", "-9"), (12, "*", 11, "12*11=", "132")],
)
def test_a_problem_and_its_answer(a, op, b, text, answer):
    assert tiny.problem(a, op, b) == (text, answer, op)


def test_a_corrupted_answer_is_one_digit_away():
    rng = random.Random(0)
    for answer in ("95", "-9", "0", "132"):
        for _ in range(50):
            wrong = tiny.corrupt(answer, rng)
            assert len(wrong) == len(answer)
            assert sum(x != y for x, y in zip(wrong, answer, strict=True)) == 1


def test_the_split_has_the_promised_sizes_and_no_overlap():
    train, heldout = tiny.split(seed=0)
    assert (len(train), len(heldout)) == (9000, 256)
    assert (len(set(train)), len(set(heldout))) == (6392, 256)
    assert not set(train) & set(heldout)
    assert [sum(p.op == op for p in heldout) for op in "+-*"] == [102, 77, 77]
    assert [sum(p.op == op for p in train) for op in "+-*"] == [3600, 2700, 2700]


def test_the_split_depends_on_the_seed_alone():
    assert tiny.split(seed=3) == tiny.split(seed=3)
    assert tiny.split(seed=3) != tiny.split(seed=4)


def test_rows_have_unique_stable_ids():
    rows = tiny.rows([tiny.problem(1, "+", 2), tiny.problem(9, "-", 4)], "train")
    assert rows == [
        {"id": "train-00000", "problem": "1+2=", "answer": "3"},
        {"id": "train-00001", "problem": "9-4=", "answer": "5"},
    ]


def test_encoding_trains_the_response_only():
    ids, labels = tiny.encode("3+4=", "7", width=10)
    assert ids == [7, 14, 8, 17, 2, 11, 3, 1, 0, 0]
    assert labels == [-100, -100, -100, -100, 2, 11, 3, 1, -100, -100]


def test_the_learning_rate_warms_up_and_decays():
    assert tiny.learning_rate_factor(0) == 0
    assert tiny.learning_rate_factor(25) == pytest.approx(0.5 * (1 - 25 / 1500))
    assert tiny.learning_rate_factor(750) == pytest.approx(0.5)
    assert tiny.learning_rate_factor(1500) == pytest.approx(0.03)


def test_the_saved_tokenizer_reads_as_auto_tokenizer_and_round_trips(tmp_path):
    tiny.make_tokenizer().save_pretrained(tmp_path)
    tiny.make_model().config.save_pretrained(tmp_path)  # AutoTokenizer chooses its class by it
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "37 + 58=\\boxed{-95}"
    ids = tokenizer(text).input_ids
    assert ids == [7, 11, 18, 14, 18, 9, 12, 17, 2, 15, 13, 9, 3]
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([2, 13, 9, 3, tokenizer.eos_token_id], skip_special_tokens=True) == "\\boxed{95}"
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, len(tokenizer)) == (0, 1, 19)
    assert tokenizer.chat_template is None


def test_the_model_has_the_promised_size():
    assert sum(p.numel() for p in tiny.make_model().parameters()) == 790_912


def test_smollm2_prompts_ask_for_a_boxed_answer_and_do_not_overlap():
    train, heldout = smollm2.split()
    assert (len(train), len(heldout)) == (495, 64)
    assert not set(train) & set(heldout)
    assert ("What is 7 * 8? Put the final answer in \\boxed{}.", "56") in train + heldout
    assert all(int(answer) >= 0 for _, answer in train + heldout)
