import json

import pytest

from adarl.config import DataSettings
from adarl.errors import UserError
from adarl.prompts import load_problems
from adarl.types import Verdict
from data_prep.pass_rate import counts, rate_row
from data_prep.select import BANDS, read_rates, select
from eval.records import ProblemResult, SampleResult
from tests.eval_fakes import result


def test_bands_are_the_authors_of_16_responses():
    taken = {band.name: [c for c in range(17) if band.takes(c, 16)] for band in BANDS}
    assert taken == {"moderate": list(range(1, 17)), "easy": [1, 2, 3, 4, 5], "hard": [1, 2]}


def test_bands_are_shares_of_other_numbers_of_responses():
    taken = {band.name: [c for c in range(9) if band.takes(c, 8)] for band in BANDS}
    assert taken == {"moderate": list(range(1, 9)), "easy": [1, 2], "hard": [1]}


def test_a_row_counts_what_was_graded():
    assert rate_row(result("p", ["4", "5", "", "4"]), keep_responses=False) == {
        "id": "p",
        "problem": "problem p",
        "answer": "4",
        "num_samples": 4,
        "num_correct": 2,
        "num_truncated": 1,
        "mean_tokens": 25.0,
        "verdicts": {"correct": 2, "incorrect": 1, "no_answer": 1},
    }
    failed = SampleResult("t", 5, False, Verdict.ERROR, None, "d")
    good = SampleResult("u", 5, False, Verdict.CORRECT, "4", "e")
    row = rate_row(ProblemResult("train", "p", "q", "4", (failed, good)), keep_responses=True)
    assert (row["num_samples"], row["num_correct"]) == (1, 1)
    assert row["responses"][1] == {"text": "u", "answer": "4", "verdict": "correct"}


def test_counts_of_all_prompts():
    rows = [
        rate_row(result(str(i), answers), False)
        for i, answers in enumerate([["4", "4"], ["5", "5"], ["4", "5"]])
    ]
    assert counts(rows) == {
        "prompts": 3,
        "mean_pass_rate": 0.5,
        "never_correct": 1,
        "always_correct": 1,
        "verdicts": {"correct": 3, "incorrect": 3},
    }


def rates(folder, numbers, errors=0):
    folder.mkdir()
    rows = [rate_row(result(f"p{i}", ["4"] * n + ["5"] * (16 - n)), False) for i, n in enumerate(numbers)]
    for row in rows[:errors]:
        row["num_samples"] = 15
    (folder / "pass_rates.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = {
        "model": "o/m",
        "model_fingerprint": "o/m",
        "model_revision": None,
        "data": str(folder / "problems.jsonl"),
        "k": 16,
        "temperature": 1.0,
        "max_response_tokens": 2048,
        "seed": 3,
        "dtype": "bfloat16",
        "verifier": {"kind": "math", "extraction": "last_boxed"},
        "left_out": ["2 prompts are longer than data.max_prompt_tokens = 16"],
        "date": "2026-11-29",
        **counts(rows),
    }
    # In place of what data_prep.collect notes, with which pass_rate's own summary shares a folder here.
    summary["sources"] = {"math": {"licence": "MIT", "read": 12, "duplicate": 2, "kept": 10}}
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def test_the_sets_load_as_training_data(tmp_path):
    folder = rates(tmp_path / "rates", [0, 1, 2, 3, 5, 6, 16])
    select(folder, tmp_path / "sets")
    assert sorted(p.name for p in (tmp_path / "sets").iterdir()) == [
        "README.md",
        "easy.parquet",
        "hard.parquet",
        "moderate.parquet",
        "pass_rates.png",
    ]
    for name, expected in {
        "moderate": ["p1", "p2", "p3", "p4", "p5", "p6"],
        "easy": ["p1", "p2", "p3", "p4"],
        "hard": ["p1", "p2"],
    }.items():
        path = str(tmp_path / "sets" / f"{name}.parquet")
        problems = load_problems(path, DataSettings(path=path, prompts_per_step=1))
        assert [p.id for p in problems] == expected
    assert (problems[0].problem, problems[0].answer) == ("problem p1", "4")


def test_the_card_says_where_the_set_comes_from(tmp_path):
    select(rates(tmp_path / "rates", [0, 1, 1, 5]), tmp_path / "sets")
    card = (tmp_path / "sets" / "README.md").read_text()
    for line in (
        "| hard | 2 | solved at least once, at most 12.5 % of the times (2 of 16) |",
        "- licence: math: MIT",
        "- model: o/m, fingerprint o/m, bfloat16",
        "- seed: 3",
        "- date: 2026-11-29",
        "- math: 12 read, 2 duplicate, 10 kept",
        "- 2 prompts are longer than data.max_prompt_tokens = 16",
        "| 1 | 2 | ######################################## |",
        "| 0 | 1 | #################### |",
    ):
        assert line in card.splitlines(), line


def test_prompts_that_were_not_graded_are_left_out(tmp_path, capsys):
    select(rates(tmp_path / "rates", [1, 1], errors=1), tmp_path / "sets")
    assert "1 prompts left out, on whose responses the verifier failed" in capsys.readouterr().out


def test_an_empty_set_is_not_written(tmp_path, capsys):
    select(rates(tmp_path / "rates", [8]), tmp_path / "sets")
    assert not (tmp_path / "sets" / "hard.parquet").exists()
    assert "no prompt is hard: hard.parquet was not written" in capsys.readouterr().out


def test_unfinished_rates_are_a_sentence(tmp_path):
    with pytest.raises(UserError, match="holds no finished pass rates"):
        read_rates(tmp_path)
