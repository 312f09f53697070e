"""An engine without a model, and results without an engine."""

from collections.abc import Callable, Sequence

from adarl.sampling import SampleRequest
from adarl.types import Prompt, Sample, Verdict
from eval.evaluate import Task
from eval.records import ProblemResult, SampleResult


class FakeEngine:
    """Answers each request by `respond(prompt, seed)`, the last one first, two at a time."""

    def __init__(self, respond: Callable[[Prompt, int], str]):
        self._respond = respond
        self._queue: list[SampleRequest] = []
        self.seeds: list[int] = []
        self.most_queued = 0

    def submit(self, request: SampleRequest) -> None:
        self._queue.append(request)
        self.seeds.append(request.seed)
        self.most_queued = max(self.most_queued, len(self._queue))

    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]:
        ended, self._queue = self._queue[-2:], self._queue[:-2]
        return [(request, (self._sample(request),)) for request in ended]

    @property
    def num_unfinished(self) -> int:
        return len(self._queue)

    def _sample(self, request: SampleRequest) -> Sample:
        text = self._respond(request.prompt, request.seed)
        token_ids = tuple(text.encode())
        logprobs = (-1.0,) * len(token_ids)
        return Sample(request.prompt.id, request.round, request.indices[0], text, token_ids, logprobs, False)


def problem_task(id: str, gold: str, benchmark: str = "b", seed: int = 0) -> Task:
    return Task(benchmark, Prompt(id, f"problem {id}", gold, (1, 2)), seed)


def result(id: str, answers: Sequence[str], gold: str = "4", benchmark: str = "b") -> ProblemResult:
    """A problem whose samples gave these answers; '' is no answer. Right is what equals the gold."""
    samples = tuple(
        SampleResult(
            text=answer,
            num_tokens=10 * (i + 1),
            truncated=not answer,
            verdict=Verdict.CORRECT if answer == gold else Verdict.INCORRECT if answer else Verdict.NO_ANSWER,
            answer=answer or None,
            token_digest=str(i),
        )
        for i, answer in enumerate(answers)
    )
    return ProblemResult(benchmark, id, f"problem {id}", gold, samples)
