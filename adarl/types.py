"""The records that flow through a step: prompts -> samples -> scored samples -> pools -> groups.

Every record is frozen: a stage returns new records and never edits those it was given. The
notation of the paper (arXiv 2510.04996) is given where a record has a name there.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import isnan


class Verdict(StrEnum):
    """What the verifier found. Each kind is counted in the metrics of every step."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNPARSABLE = "unparsable"  # there is a final answer, but it cannot be read
    NO_ANSWER = "no_answer"  # the response states no final answer, for example because it was truncated
    TIMEOUT = "timeout"  # grading this answer was stopped at its time limit
    ERROR = "error"  # the verifier itself failed: says nothing about the response

    @property
    def is_correct(self) -> bool:
        return self is Verdict.CORRECT


@dataclass(frozen=True, slots=True)
class Prompt:
    """One problem of the training set, as the model sees it."""

    id: str  # unique in the data set; seeds derive from it
    problem: str  # the text of the data set
    answer: str  # the gold answer as the data set writes it
    token_ids: tuple[int, ...]  # the rendered chat template
    difficulty: float | None = None  # from 0 (easy) to 100, where the recipe names a column of them


@dataclass(frozen=True, slots=True)
class Verification:
    """The verifier's finding on one response."""

    verdict: Verdict
    reward: float  # 1.0 for correct and 0.0 otherwise, unless the recipe shapes it
    answer: str | None = None  # the extracted final answer, None where there is none
    seconds: float = 0.0  # time spent grading


@dataclass(frozen=True, slots=True)
class Sample:
    """One response with its tokens and the engine's log-probabilities of them."""

    prompt_id: str
    round: int  # from 0
    index: int  # position in the pool, from 0 over all rounds
    text: str
    token_ids: tuple[int, ...]
    engine_logprobs: tuple[float, ...]  # natural log, one a token; none where nobody trains on the sample
    truncated: bool  # cut by the length limit


@dataclass(frozen=True, slots=True)
class ScoredSample:
    """A sample and what the verifier says of it."""

    sample: Sample
    verification: Verification

    @property
    def correct(self) -> bool:
        return self.verification.verdict.is_correct

    @property
    def reward(self) -> float:
        return self.verification.reward

    @property
    def is_void(self) -> bool:
        """Grading failed: it says nothing about the response, which is drawn again and never counted."""
        return self.verification.verdict is Verdict.ERROR or isnan(self.reward)


def label(prompt_id: str, occurrence: int) -> str:
    """Names a pool within its step: the prompt's id, and which of them it is where a prompt comes again."""
    return prompt_id if occurrence == 0 else f"{prompt_id}\x1f{occurrence}"


@dataclass(frozen=True, slots=True)
class Pool:
    """All samples of one prompt in a step, S_x, in the order of their indices."""

    prompt: Prompt
    samples: tuple[ScoredSample, ...] = ()
    occurrence: int = 0  # the same prompt's pools of one step are numbered: each has draws of its own

    def with_round(self, samples: tuple[ScoredSample, ...]) -> "Pool":
        return replace(self, samples=self.samples + samples)

    @property
    def label(self) -> str:
        return label(self.prompt.id, self.occurrence)

    @property
    def size(self) -> int:
        return len(self.samples)

    @property
    def num_correct(self) -> int:
        return sum(s.correct for s in self.samples)

    @property
    def num_incorrect(self) -> int:
        return self.size - self.num_correct

    @property
    def num_rounds(self) -> int:
        return 1 + self.samples[-1].sample.round if self.samples else 0

    @property
    def pass_rate(self) -> float:
        """Share correct. Biased by the exit condition after the first round (ALGORITHMS: Wald)."""
        return self.num_correct / self.size

    @property
    def first_round(self) -> tuple[ScoredSample, ...]:
        """The samples drawn before any exit condition was looked at: their mean reward is unbiased."""
        return tuple(s for s in self.samples if s.sample.round == 0)

    @property
    def is_mixed(self) -> bool:
        """Both a correct and an incorrect sample are in."""
        return 0 < self.num_correct < self.size

    @property
    def has_signal(self) -> bool:
        """The rewards differ. With rewards of 0 and 1 that is `is_mixed`; shaped ones can differ among correct."""
        return any(s.reward != self.samples[0].reward for s in self.samples)


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of one pool that are kept for the update, with their advantages A_i."""

    prompt: Prompt
    samples: tuple[ScoredSample, ...]
    advantages: tuple[float, ...]
    baseline: float  # r-bar, the mean reward over the whole pool
    occurrence: int = 0  # of the pool
    entropy_weight: float = 0.0  # RL-ZVP: what token entropies are multiplied by where rewards say nothing

    @property
    def label(self) -> str:
        return label(self.prompt.id, self.occurrence)

    @property
    def has_signal(self) -> bool:
        """Some kept sample moves the policy."""
        return any(a != 0.0 for a in self.advantages) or (self.entropy_weight != 0.0 and bool(self.samples))
