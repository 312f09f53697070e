"""Problems on a live engine: k samples each, verified while the engine decodes.

`evaluate` is what validation during training calls; `answers` is the same with each sample handed out as soon as
it is verified, for evaluations that must survive a kill. Temperature and length limit are the engine's own.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from adarl.sampling import SampleRequest
from adarl.seeds import derive_seed
from adarl.types import Prompt, Sample, Verification
from eval.records import ProblemResult, SampleResult, sample_result

MAX_IN_FLIGHT = 4096  # samples that the engine knows of at a time


class Engine(Protocol):
    """Draws samples; `adarl.engine.VllmEngine` is one."""

    def submit(self, request: SampleRequest) -> None: ...
    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]: ...
    @property
    def num_unfinished(self) -> int: ...


class Verifier(Protocol):
    """Grades responses; `adarl.verifier.Verifier` is one."""

    def submit(
        self, key: Hashable, responses: Sequence[str], answer: str, truncated: Sequence[bool] | None = None
    ) -> None: ...
    def poll(self, timeout: float = 0.0) -> list[tuple[Any, tuple[Verification, ...]]]: ...


@dataclass(frozen=True, slots=True)
class Task:
    """One problem to answer k times."""

    benchmark: str
    prompt: Prompt  # its id is unique in the benchmark
    seed: int  # of its samples

    def key(self, index: int) -> str:
        """Unique to this sample in an evaluation."""
        return f"{self.benchmark}/{self.prompt.id}#{index}"


def task(benchmark: str, prompt: Prompt, seed: int, stage: str = "eval") -> Task:
    """A task whose samples depend on the seed, the benchmark's name and the problem's id alone.

    Not on k, on the other problems, on ranks or on a resume. `stage` keeps the seeds of different uses apart;
    training derives its own from "step", so that no sample of an evaluation is ever trained on.
    """
    return Task(benchmark, prompt, derive_seed(stage, seed, benchmark, prompt.id))


def answers(
    tasks: Sequence[Task], engine: Engine, verifier: Verifier, k: int, done: Collection[str] = ()
) -> Iterator[tuple[str, SampleResult]]:
    """Each sample's key and result, in the order in which they come to be verified.

    Each sample is a request of its own with a seed of its own. The engine and the verifier must have nothing
    else to do.

    Args:
        done: keys of samples that are not needed any more.
    """
    requests = (_request(t, index) for t in tasks for index in range(k) if t.key(index) not in done)
    in_flight = 0
    at_verifier: dict[str, Sample] = {}
    while True:
        for request in islice(requests, MAX_IN_FLIGHT - in_flight):
            engine.submit(request)
            in_flight += 1
        if not in_flight:
            return
        for request, (sample,) in engine.poll():
            key = request.prompt.id
            at_verifier[key] = sample
            verifier.submit(key, [sample.text], request.prompt.answer, [sample.truncated])
        for key, (found,) in verifier.poll(timeout=0.0 if engine.num_unfinished else 1.0):
            in_flight -= 1
            yield key, sample_result(at_verifier.pop(key), found)


def _request(t: Task, index: int) -> SampleRequest:
    # In the engine requests are told apart by their prompts' ids: the key is one that no other sample has.
    prompt = replace(t.prompt, id=t.key(index))
    return SampleRequest(prompt, 0, (index,), derive_seed(t.seed, index))


def assemble(tasks: Sequence[Task], samples: Mapping[str, SampleResult], k: int) -> list[ProblemResult]:
    """The problems with their samples, in the order of the tasks."""
    return [
        ProblemResult(
            benchmark=t.benchmark,
            id=t.prompt.id,
            problem=t.prompt.problem,
            gold=t.prompt.answer,
            samples=tuple(samples[t.key(index)] for index in range(k)),
        )
        for t in tasks
    ]


def evaluate(
    engine: Engine,
    verifier: Verifier,
    prompts: Sequence[Prompt],
    k: int,
    seed: int,
    benchmark: str = "validation",
) -> list[ProblemResult]:
    """k samples of each prompt, verified, in the order of the prompts.

    Under several ranks each evaluates its own prompts, for example `prompts[rank::world_size]`, and the
    results of all ranks are put together before `eval.summary.summarise`: a problem's samples are the same
    wherever it is evaluated.

    Args:
        prompts: with ids that differ.
        seed: names the draws; the same seed gives the same samples from the same weights.
        benchmark: a name that the draws depend on too.
    """
    if len({p.id for p in prompts}) != len(prompts):
        raise ValueError("two prompts have the same id: their samples would be the same twice")
    tasks = [task(benchmark, prompt, seed) for prompt in prompts]
    return assemble(tasks, dict(answers(tasks, engine, verifier, k)), k)
