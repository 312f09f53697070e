"""The verifier as the rest of adarl sees it: submit a round, poll what is complete."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from adarl.types import Verdict, Verification
from adarl.verifier.domains import takes_answer
from adarl.verifier.extraction import extract_answer
from adarl.verifier.pool import Task, WorkerPool
from adarl.verifier.settings import VerifierSettings

_REMEMBERED = 20_000  # verdicts kept, for answers that come again in later rounds
_REMEMBERED_CHARS = 2_000  # of an answer worth keeping
MAX_ANSWER_CHARS = 20_000  # a longer answer is not even sent to a worker

_Work = tuple[str, str]  # gold and text


@dataclass
class _Submission:
    key: Hashable
    results: list[Verification | None]
    missing: int
    polled: bool  # handed out by poll(), or waited for by verify()


class Verifier:
    """Grades responses in worker processes that start with it and end with it (or with this process).

    Every method may be called from any thread. Identical answers to the same gold are graded once.
    """

    def __init__(self, settings: VerifierSettings) -> None:
        self.settings = settings
        self._takes_answer = takes_answer(settings.kind)
        self._changed = threading.Condition()
        self._done: deque[_Submission] = deque()
        self._open = 0  # submissions of submit() that poll() has not handed out
        self._waiting: dict[_Work, list[tuple[_Submission, int]]] = {}
        self._work_of: dict[int, _Work] = {}
        self._remembered: OrderedDict[_Work, Verification] = OrderedDict()
        self._count = 0
        self._closed = False
        self._pool = WorkerPool(settings, self._receive)
        try:
            self._pool.wait_until_ready()
        except RuntimeError:
            self._pool.close()
            raise

    def submit(
        self, key: Hashable, responses: Sequence[str], answer: str, truncated: Sequence[bool] | None = None
    ) -> None:
        """Queue one round of one prompt: all `responses` against the gold `answer`. Returns at once."""
        self._start(key, responses, [answer] * len(responses), truncated, polled=True)

    def poll(self, timeout: float = 0.0) -> list[tuple[Hashable, tuple[Verification, ...]]]:
        """The submissions that are complete by now, each whole; waits up to `timeout` seconds for one."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._done and self._open:
                self._raise_failure()
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, 1.0))
            finished = list(self._done)
            self._done.clear()
            self._open -= len(finished)
        return [(submission.key, _whole(submission)) for submission in finished]

    def verify(
        self, responses: Sequence[str], answers: Sequence[str], truncated: Sequence[bool] | None = None
    ) -> list[Verification]:
        """Grade each response against its own gold and wait for all, in order."""
        submission = self._start(None, responses, answers, truncated, polled=False)
        with self._changed:
            while submission.missing:
                self._raise_failure()
                self._changed.wait(1.0)
        return list(_whole(submission))

    @property
    def pending(self) -> int:
        """Submissions that `poll` has not returned yet."""
        with self._changed:
            return self._open

    @property
    def num_graded(self) -> int:
        """Answers that were sent to a worker so far; repeated ones are sent once."""
        with self._changed:
            return self._count

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the workers that are alive, for monitoring."""
        return self._pool.pids

    def close(self) -> None:
        """End the workers. What is still pending gets no result."""
        if not self._closed:
            self._closed = True
            self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(
        self,
        key: Hashable,
        responses: Sequence[str],
        answers: Sequence[str],
        truncated: Sequence[bool] | None,
        polled: bool,
    ) -> _Submission:
        if self._closed:
            raise RuntimeError("the verifier is closed: submit before close(), or make a new one")
        with self._changed:
            self._raise_failure()
        cut = truncated if truncated is not None else [False] * len(responses)
        _check_input(responses, answers, cut)
        found = [
            self._before_work(response, gold, is_cut)
            for response, gold, is_cut in zip(responses, answers, cut, strict=True)
        ]
        submission = _Submission(key, [None] * len(found), len(found), polled)
        tasks: list[Task] = []
        with self._changed:
            self._open += polled
            for index, (verification, work) in enumerate(found):
                known = verification or self._recall(work)
                if known is not None:
                    self._fill(submission, index, known)
                elif work in self._waiting:
                    self._waiting[work].append((submission, index))
                else:
                    self._waiting[work] = [(submission, index)]
                    self._count += 1
                    self._work_of[self._count] = work
                    tasks.append(Task(self._count, *work))
            if not found and polled:
                self._done.append(submission)
                self._changed.notify_all()
        if tasks:
            self._pool.submit(tasks)
        return submission

    def _before_work(self, response: str, gold: str, truncated: bool) -> tuple[Verification | None, _Work]:
        """What can be said without a worker, and the work that is left."""
        if not self._takes_answer:
            return None, (gold, response)
        answer = extract_answer(response, self.settings.extraction, truncated)
        if answer is None:
            return Verification(Verdict.NO_ANSWER, 0.0), (gold, "")
        if len(answer) > MAX_ANSWER_CHARS:
            return Verification(Verdict.UNPARSABLE, 0.0, answer), (gold, "")
        return None, (gold, answer)

    def _recall(self, work: _Work) -> Verification | None:
        known = self._remembered.get(work)
        if known is not None:
            self._remembered.move_to_end(work)
            return replace(known, seconds=0.0)
        return None

    def _receive(self, number: int, verification: Verification) -> None:
        """Called by the dispatcher thread for every task that is done."""
        with self._changed:
            work = self._work_of.pop(number)
            if self._takes_answer and verification.answer is None:
                verification = replace(verification, answer=work[1])
            for submission, index in self._waiting.pop(work):
                self._fill(submission, index, verification)
            lasting = verification.verdict not in (Verdict.TIMEOUT, Verdict.ERROR)
            if self._takes_answer and lasting and len(work[0]) + len(work[1]) <= _REMEMBERED_CHARS:
                self._remembered[work] = verification
                if len(self._remembered) > _REMEMBERED:
                    self._remembered.popitem(last=False)

    def _fill(self, submission: _Submission, index: int, verification: Verification) -> None:
        submission.results[index] = verification
        submission.missing -= 1
        if submission.missing == 0:
            if submission.polled:
                self._done.append(submission)
            self._changed.notify_all()

    def _raise_failure(self) -> None:
        if self._closed:
            raise RuntimeError("the verifier was closed while results were awaited")
        if self._pool.failure:
            raise RuntimeError(self._pool.failure)


def _check_input(responses: Sequence[str], answers: Sequence[str], truncated: Sequence[bool]) -> None:
    """Raises one sentence where the inputs are no lists of texts of the same length."""
    if isinstance(responses, str) or isinstance(answers, str):
        raise TypeError("responses and answers are lists of texts: put a single one into a list")
    if not len(responses) == len(answers) == len(truncated):
        raise ValueError(
            f"{len(responses)} responses, {len(answers)} answers and {len(truncated)} truncation flags: pass as many of each"
        )
    for name, texts in (("response", responses), ("answer", answers)):
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"{name} {index} is of type {type(text).__name__}: convert it to a string")


def _whole(submission: _Submission) -> tuple[Verification, ...]:
    return tuple(result for result in submission.results if result is not None)
