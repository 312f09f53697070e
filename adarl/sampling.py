"""Elimination without a barrier: Algorithm 1, lines 3-12, as a state machine.

Each prompt has its own rounds. As soon as *its* samples are back and verified it either resolves or
asks for its next round, whatever the other prompts are doing. A decision reads nothing but the
prompt's own complete rounds, and every request has a seed of its own, so any interleaving of
returning rounds gives the same pools as a barrier after each round would.

Nothing here knows the engine or the verifier: `Elimination` says which requests come next, given
which rounds have come back.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from adarl.exit_conditions import ExitCondition
from adarl.seeds import derive_seed
from adarl.types import Pool, Prompt, ScoredSample, Verdict

RoundSize = Callable[[Pool], int]
"""Number of samples that a pool needs next; 0 once it is resolved."""

MAX_ATTEMPTS = 3  # draws of one index before a failing verifier stops the run


class SamplingError(RuntimeError):
    """Sampling cannot go on; the message says why and what to do."""


def uniform(group_size: int) -> RoundSize:
    """GRPO: n samples a prompt, in one round."""

    def round_size(pool: Pool) -> int:
        return max(0, group_size - pool.size)

    return round_size


def elimination(exit_condition: ExitCondition, samples_per_round: int, num_rounds: int) -> RoundSize:
    """Rounds of M samples until the exit condition holds or M * N samples are in (Algorithm 1)."""
    cap = samples_per_round * num_rounds

    def round_size(pool: Pool) -> int:
        if pool.size >= cap or (pool.size and exit_condition(pool)):
            return 0
        return min(samples_per_round, cap - pool.size)

    return round_size


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One round of one prompt, or the part of it that has to be drawn again."""

    prompt: Prompt
    round: int
    indices: tuple[int, ...]  # positions in the pool that the samples will take
    seed: int
    attempt: int = 0

    @property
    def key(self) -> tuple[str, int, int]:
        return self.prompt.id, self.round, self.attempt


class Elimination:
    """The sampling of one step's prompts. Feed it rounds in any order; it answers with requests.

    Args:
        prompts: the prompts to sample, each id once.
        round_size: the strategy.
        seed: names the step's draws; requests derive theirs from it, the prompt's id and the round.
    """

    def __init__(self, prompts: Sequence[Prompt], round_size: RoundSize, seed: int):
        self._pools = {prompt.id: Pool(prompt) for prompt in prompts}
        if len(self._pools) != len(prompts):
            raise ValueError("a prompt id occurs twice in one step: its samples would be the same twice")
        self._round_size = round_size
        self._seed = seed
        self._active: dict[str, SampleRequest] = {}
        self._partial: dict[str, tuple[ScoredSample, ...]] = {}  # verified samples of unfinished rounds

    def start(self) -> list[SampleRequest]:
        """The first round of every prompt."""
        return [r for pool in self._pools.values() for r in self._next_round(pool)]

    def complete(self, request: SampleRequest, samples: Iterable[ScoredSample]) -> list[SampleRequest]:
        """Take one verified round in; return what to draw next: nothing or one request.

        A sample whose verification failed is drawn again under a new seed, never counted as wrong.

        Raises:
            SamplingError: the verifier failed on the same index MAX_ATTEMPTS times.
        """
        prompt_id = request.prompt.id
        if self._active.get(prompt_id) != request:
            raise ValueError(f"round {request.key} is not the one that prompt {prompt_id!r} waits for")
        samples = tuple(samples)
        if tuple(s.sample.index for s in samples) != request.indices:
            raise ValueError(f"round {request.key} came back with other samples than it asked for")
        failed = tuple(s.sample.index for s in samples if s.verification.verdict is Verdict.ERROR)
        self._partial[prompt_id] = self._partial.get(prompt_id, ()) + tuple(
            s for s in samples if s.verification.verdict is not Verdict.ERROR
        )
        if failed:
            return [self._activate(self._redraw(request, failed))]
        del self._active[prompt_id]
        in_order = sorted(self._partial.pop(prompt_id), key=lambda s: s.sample.index)
        pool = self._pools[prompt_id] = self._pools[prompt_id].with_round(tuple(in_order))
        return self._next_round(pool)

    @property
    def num_active(self) -> int:
        """Prompts that are not yet resolved."""
        return len(self._active)

    @property
    def pools(self) -> list[Pool]:
        """The pools, in the order of the prompts."""
        return list(self._pools.values())

    def _next_round(self, pool: Pool) -> list[SampleRequest]:
        size = self._round_size(pool)
        if size == 0:
            return []
        indices = tuple(range(pool.size, pool.size + size))
        request = SampleRequest(pool.prompt, pool.num_rounds, indices, seed=0)
        return [self._activate(self._seeded(request))]

    def _redraw(self, request: SampleRequest, indices: tuple[int, ...]) -> SampleRequest:
        if request.attempt + 1 == MAX_ATTEMPTS:
            raise SamplingError(
                f"the verifier failed {MAX_ATTEMPTS} times on prompt {request.prompt.id!r} "
                f"(answer {request.prompt.answer!r}): see its error above and mend the verifier or drop the prompt"
            )
        return self._seeded(replace(request, indices=indices, attempt=request.attempt + 1))

    def _seeded(self, request: SampleRequest) -> SampleRequest:
        seed = derive_seed(self._seed, request.prompt.id, request.round, request.attempt)
        return replace(request, seed=seed)

    def _activate(self, request: SampleRequest) -> SampleRequest:
        self._active[request.prompt.id] = request
        return request
