"""Validation during training on the real stack; that it changes nothing is in test_train."""

import json


def test_validation_writes_a_line_at_the_start_every_second_step_and_at_the_end(whole_run):
    lines = [json.loads(line) for line in (whole_run / "validation.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 2, 4, 6, 8]
    assert {line["validation/problems"] for line in lines} == {256}
    assert 0.2 < lines[0]["validation/avg_at_4"] < 0.4
    assert lines[0]["validation/avg_at_4"] != lines[-1]["validation/avg_at_4"]
