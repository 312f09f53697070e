"""What a step needs of its parts. Engine, verifier and learner are known by these alone, so a test brings its own."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Protocol

from adarl.sampling import SampleRequest
from adarl.types import Group, Prompt, Sample, Verification


class Source(Protocol):
    """Draws samples. Each poll returns samples that have ended since the last one, by their requests."""

    def submit(self, request: SampleRequest) -> None: ...
    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]: ...
    @property
    def num_unfinished(self) -> int: ...


class Engine(Source, Protocol):
    """A source whose weights follow the policy's."""

    def sleep(self) -> None: ...
    def load_weights(self, weights: Iterator[tuple[str, Any]]) -> None: ...


class Verifier(Protocol):
    """Grades responses in other processes."""

    def submit(
        self, key: Hashable, responses: Sequence[str], answer: str, truncated: Sequence[bool] | None = None
    ) -> None: ...
    def poll(self, timeout: float = 0.0) -> list[tuple[Any, tuple[Verification, ...]]]: ...


class Ranks(Protocol):
    """The processes of the run. All of them call `gather` together."""

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def gather(self, records: Sequence[Any]) -> list[Any]: ...


class Learner(Ranks, Protocol):
    """Owns the policy. All ranks call its methods together."""

    def gradient_norms(self, samples: Sequence[tuple[Prompt, Sample]]) -> list[float]: ...
    def update(self, groups: Sequence[Group], seed: int) -> dict[str, float]: ...
    def weights(self) -> Iterator[tuple[str, Any]]: ...


GradientNorms = Callable[[Sequence[tuple[Prompt, Sample]]], list[float]]


class Stream(Protocol):
    """The prompts of the data in seeded order, the same on every rank."""

    @property
    def num_prompts(self) -> int: ...
    def take(self, count: int) -> list[Prompt]: ...
