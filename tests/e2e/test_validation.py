"""Validation during training on the real stack."""

import json
from pathlib import Path

from tests.e2e import runs


def validations(folder: Path):
    return [json.loads(line) for line in (folder / "validation.jsonl").read_text().splitlines()]


def test_training_draws_and_learns_the_same_with_and_without_validation(whole_run, tmp_path):
    lines = validations(whole_run)
    assert [line["step"] for line in lines] == [0, 2, 4, 6, 8]
    assert {line["validation/problems"] for line in lines} == {256}
    assert 0.2 < lines[0]["validation/avg_at_4"] < 0.4
    assert lines[0]["validation/avg_at_4"] != lines[-1]["validation/avg_at_4"]

    runs.train(tmp_path / "run", "run.max_steps=4", "validation=null")
    assert validations(tmp_path / "run") == []
    assert runs.metrics(tmp_path / "run") == runs.metrics(whole_run)[:4]
    assert runs.pools(tmp_path / "run", 4) == runs.pools(whole_run, 4)
