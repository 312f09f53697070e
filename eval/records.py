"""What an evaluation keeps of a sample and of a problem, as records and as lines of JSON."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adarl.types import Sample, Verdict, Verification


@dataclass(frozen=True, slots=True)
class SampleResult:
    """One response and what the verifier says of it."""

    text: str
    num_tokens: int
    truncated: bool  # cut by the length limit
    verdict: Verdict
    answer: str | None  # the extracted final answer, None where there is none
    token_digest: str  # of the token ids: two samples with the same one are the same token for token

    @property
    def correct(self) -> bool:
        return self.verdict.is_correct

    def to_row(self, with_text: bool = True) -> dict[str, Any]:
        """Plain values, for one line of JSON; `from_row` is its inverse, but for a text that was left out."""
        return {
            "verdict": self.verdict.value,
            "answer": self.answer,
            "num_tokens": self.num_tokens,
            "truncated": self.truncated,
            "token_digest": self.token_digest,
            **({"text": self.text} if with_text else {}),
        }

    @staticmethod
    def from_row(row: Mapping[str, Any]) -> "SampleResult":
        return SampleResult(
            text=row.get("text", ""),
            num_tokens=row["num_tokens"],
            truncated=row["truncated"],
            verdict=Verdict(row["verdict"]),
            answer=row["answer"],
            token_digest=row["token_digest"],
        )


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """All samples of one problem, in the order of their indices."""

    benchmark: str
    id: str
    problem: str
    gold: str
    samples: tuple[SampleResult, ...]

    @property
    def num_samples(self) -> int:
        return len(self.samples)

    @property
    def num_correct(self) -> int:
        return sum(s.correct for s in self.samples)

    @property
    def mean(self) -> float:
        """Share of the samples that are correct."""
        return self.num_correct / self.num_samples


def sample_result(sample: Sample, found: Verification) -> SampleResult:
    """What is kept of a verified sample."""
    return SampleResult(
        text=sample.text,
        num_tokens=len(sample.token_ids),
        truncated=sample.truncated,
        verdict=found.verdict,
        answer=found.answer,
        token_digest=token_digest(sample.token_ids),
    )


def token_digest(token_ids: Sequence[int]) -> str:
    """64 bits of the token ids' SHA-256, in hexadecimal."""
    return hashlib.sha256(" ".join(map(str, token_ids)).encode()).hexdigest()[:16]
