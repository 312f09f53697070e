"""What the verifier benches read: labelled cases, golds of the evaluation sets, pools like those of a training step."""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[1] / "../shared/data"


@dataclass(frozen=True)
class Case:
    """One labelled response. `strict_label` is the label if an answer without a box must not count."""

    id: str
    gold: str
    response: str
    label: bool
    kind: str
    strict_label: bool


def read_cases(path: Path) -> list[Case]:
    rows = read_rows(path)
    return [
        Case(
            row["id"],
            row["gold"],
            row["response"],
            row["label"],
            row["kind"],
            row.get("strict_label", row["label"]),
        )
        for row in rows
    ]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file; one clear sentence where it is missing or broken."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SystemExit(
            f"bench.verifier cannot read {path}: {error.strerror}; give the path of a JSONL file"
        ) from error
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except json.JSONDecodeError as error:
        raise SystemExit(f"bench.verifier: {path} is not JSONL ({error}): one JSON object a line") from error


def golds(name: str) -> list[str]:
    """The gold answers of an evaluation set of the shared data, `math500` for example."""
    return [str(row["answer"]) for row in read_rows(SHARED / "eval" / f"{name}.jsonl")]


def shuffled_pairs(answers: list[str], seed: int = 0) -> list[tuple[str, str]]:
    """(response, gold): each gold boxed, against the gold of another problem."""
    others = answers[:]
    random.Random(seed).shuffle(others)
    return [
        (f"So the answer is $\\boxed{{{answer}}}$.", gold)
        for answer, gold in zip(answers, others, strict=True)
    ]


def realistic_pools(answers: list[str], size: int = 8, seed: int = 0) -> list[tuple[list[str], str]]:
    """(responses, gold): about half of each pool is right, written in several ways; wrong answers repeat."""
    chance = random.Random(seed)
    pools = []
    for gold in answers:
        wrong = [chance.choice(answers) for _ in range(2)]
        forms = [
            gold,
            f" {gold} ",
            f"{{{gold}}}",
            rf"\displaystyle {gold}",
            gold.replace(r"\frac", r"\dfrac"),
        ]
        stated = [
            chance.choice(forms) if chance.random() < 0.5 else chance.choice(wrong) for _ in range(size)
        ]
        pools.append(([f"{'Let us think. ' * 40}\nThe answer is \\boxed{{{one}}}." for one in stated], gold))
    return pools


def baits(chance: random.Random) -> str:
    """A response that is built to hang or to blow up whoever reads it."""
    high = chance.randint(10**6, 10**9)
    return chance.choice(
        [
            rf"\boxed{{{high % 9 + 2}^{{{high % 7 + 3}^{{{high % 8 + 4}^{{9}}}}}}}}",
            rf"\boxed{{{high}!}}",
            rf"\boxed{{\binom{{{high}}}{{{high // 2}}}}}",
            "x" * 1_000_000 + str(high),
            "\\boxed{" * 20_000 + str(high),
            rf"\boxed{{\left(\frac{{13}}{{10}}\right)^{{{high}}}}}",
            rf"\boxed{{\sum_{{k=1}}^{{{high}}} \frac{{1}}{{k^k}}}}",
            r"\boxed{" + "\\sqrt{" * 300 + str(high) + "}" * 301,
            r"\boxed{" + "+".join(["1"] * 4_000) + "}",
            rf"\boxed{{\tan^{{400}}({high}x)+\sin^{{300}}(x+{high}y)\cdot(x+y+z)^{{999}}}}",
        ]
    )


def flat(pools: Iterable[tuple[list[str], str]]) -> list[tuple[str, str]]:
    return [(response, gold) for responses, gold in pools for response in responses]
