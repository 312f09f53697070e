"""Small builders that many tests share."""

from pathlib import Path

import pytest

from adarl.types import Pool, Prompt, Sample, ScoredSample, Verdict, Verification

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """The problem sets that lie beside the project on the developers' machines."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the data sets in {SHARED_DATA}, which are not part of the project")
    return SHARED_DATA


def make_prompt(id: str = "p", answer: str = "4") -> Prompt:
    return Prompt(id=id, problem="2+2=", answer=answer, token_ids=(1, 2, 3))


def scored(
    correct: bool, index: int = 0, round: int = 0, prompt_id: str = "p", num_tokens: int = 2
) -> ScoredSample:
    """A sample that was found correct or incorrect."""
    sample = Sample(prompt_id, round, index, "text", tuple(range(num_tokens)), (-0.5,) * num_tokens, False)
    verdict = Verdict.CORRECT if correct else Verdict.INCORRECT
    return ScoredSample(sample, Verification(verdict, float(correct)))


def make_pool(outcomes: str, samples_per_round: int = 4, id: str = "p") -> Pool:
    """A pool from a string of + (correct) and - (incorrect), cut into rounds."""
    samples = [scored(o == "+", i, i // samples_per_round, id) for i, o in enumerate(outcomes)]
    return Pool(make_prompt(id), tuple(samples))
