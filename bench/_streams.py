"""Stand-ins that fix outcomes and lengths by seed, so that a bench measures a schedule and nothing else."""

import math
from collections.abc import Hashable, Sequence
from random import Random

from adarl.sampling import SampleRequest
from adarl.seeds import derive_seed
from adarl.types import Prompt, Verdict, Verification

ALPHA, BETA = (
    0.3,
    0.7,
)  # of the Beta law of pass rates: many prompts near 0, some near 1, as in the paper's sets


def prompts(count: int, token_ids: tuple[int, ...] = (4,)) -> list[Prompt]:
    """Prompts whose pass rate depends on their id."""
    return [Prompt(f"p{i}", "", "", token_ids) for i in range(count)]


def pass_rate(prompt_id: str, seed: int) -> float:
    """p ~ Beta(0.3, 0.7), fixed by prompt and seed."""
    return Random(derive_seed("pass rate", seed, prompt_id)).betavariate(ALPHA, BETA)


def response_length(
    request: SampleRequest, index: int, seed: int, median: float, sigma: float, cap: int
) -> int:
    """A length in tokens, lognormal with the given median, fixed by prompt, index and seed; in [1, cap]."""
    rng = Random(derive_seed("length", seed, request.prompt.id, index))
    return max(1, min(cap, round(rng.lognormvariate(math.log(median), sigma))))


def is_correct(prompt_id: str, index: int, seed: int) -> bool:
    """Bernoulli(p) for the prompt's p, fixed by prompt, index and seed."""
    return Random(derive_seed("verdict", seed, prompt_id, index)).random() < pass_rate(prompt_id, seed)


CORRECT, INCORRECT = Verification(Verdict.CORRECT, 1.0), Verification(Verdict.INCORRECT, 0.0)


class StandInVerifier:
    """Answers at once. A response's text is `prompt id:index`."""

    def __init__(self, seed: int):
        self._seed = seed
        self._done: list[tuple[Hashable, tuple[Verification, ...]]] = []

    def submit(
        self, key: Hashable, responses: Sequence[str], answer: str, truncated: Sequence[bool] | None = None
    ) -> None:
        self._done.append((key, tuple(self._verdict(response) for response in responses)))

    def poll(self, timeout: float = 0.0) -> list[tuple[Hashable, tuple[Verification, ...]]]:
        done, self._done = self._done, []
        return done

    def _verdict(self, response: str) -> Verification:
        prompt_id, _, index = response.partition(":")
        return CORRECT if is_correct(prompt_id, int(index), self._seed) else INCORRECT
