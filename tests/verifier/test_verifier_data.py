"""The shared cases and golds, where they are there."""

import json
from pathlib import Path
from typing import Any

import pytest

from adarl.types import Verdict
from adarl.verifier import Verifier, VerifierSettings, parse_error
from bench._verifier_data import read_cases
from bench.verifier import run_cases

DATA = Path(__file__).parents[2] / "../shared/data"
pytestmark = pytest.mark.skipif(
    not DATA.exists(), reason="../shared/data is not there: its cases are not ours to copy"
)

# The project's decisions on the cases that the data leaves open, as in the table of docs/verifier.md.
POLICY = {
    "p-01": True, "p-02": True, "p-03": True, "p-04": True, "p-05": True, "p-06": True, "p-07": False, "p-08": True,
    "p-09": False, "p-10": True, "p-11": True, "p-12": False, "p-13": False, "p-14": False, "p-15": True, "p-16": False,
    "p-17": False, "p-18": False, "p-19": True, "p-20": False, "p-21": True, "p-22": True, "p-23": False, "p-24": False,
    "p-25": False, "p-26": True, "p-27": False, "p-28": False,
}  # fmt: skip


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def test_the_open_cases_are_graded_as_labelled() -> None:
    result = run_cases(read_cases(DATA / "verifier/open.jsonl"), workers=2)
    assert result["accuracy"] >= 0.97
    assert result["strict_accuracy"] >= 0.97
    assert result["false_positives"] <= 0.01 * result["false_cases"]
    assert (result["hangs"], result["errors"]) == (0, 0)
    for kind in ("adversarial", "empty", "truncated"):
        assert "false_positive" not in result["by_kind"][kind]


def test_policy_cases_are_decided_as_documented(math: Verifier) -> None:
    cases = rows("verifier/policy_cases.jsonl")
    found = math.verify([case["response"] for case in cases], [case["gold"] for case in cases])
    assert {case["id"]: one.verdict.is_correct for case, one in zip(cases, found, strict=True)} == POLICY


@pytest.mark.parametrize(
    ("name", "text_only"),
    [("math500", 0), ("olympiadbench_674", 0), ("minerva_math", 1), ("aime24", 0), ("aime25", 0), ("hmmt24", 0),
     ("hmmt25", 0), ("brumo25", 0), ("amc23", 0), ("cmimc25", 0)],
)  # fmt: skip
def test_every_gold_is_its_own_answer(math: Verifier, name: str, text_only: int) -> None:
    golds = [str(row["answer"]) for row in rows(f"eval/{name}.jsonl")]
    found = math.verify([rf"\boxed{{{gold}}}" for gold in golds], golds)
    assert [gold for gold, one in zip(golds, found, strict=True) if one.verdict is not Verdict.CORRECT] == []
    assert sum(parse_error(gold, VerifierSettings()) is not None for gold in golds) == text_only


def test_e_notation_golds_accept_powers_of_ten(math: Verifier) -> None:
    golds = [str(row["answer"]) for row in rows("eval/minerva_math.jsonl")]
    written = [
        gold.split("e")
        for gold in golds
        if gold.replace("e", "", 1).strip("+-.0123456789") == "" and "e" in gold
    ]
    assert len(written) == 58
    answers = [rf"\boxed{{{mantissa} \times 10^{{{exponent}}}}}" for mantissa, exponent in written]
    found = math.verify(answers, ["e".join(parts) for parts in written])
    wrong = [rf"\boxed{{{mantissa} \times 10^{{{int(exponent) + 1}}}}}" for mantissa, exponent in written]
    crossed = math.verify(wrong, ["e".join(parts) for parts in written])
    assert sum(one.verdict.is_correct for one in found) == 58
    assert sum(one.verdict.is_correct for one in crossed) == 0
