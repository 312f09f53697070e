"""Elimination without a barrier: Algorithm 1, lines 3-12, as a state machine.

Each prompt has its own rounds. As soon as *its* samples are back and verified it either resolves or
asks for its next round, whatever the other prompts are doing. It asks earlier where the rest of a round
cannot change the answer: a prompt without a correct sample among the first seven of eight goes on
whatever the eighth is, so nobody waits for the longest response of a hopeless round.

What is drawn depends on nothing but the outcomes of the prompt's own complete rounds, and every request
has a seed of its own. So any order of returning samples gives the pools that a barrier after each round
would give (ALGORITHMS.md, section 3: the argument, and A1 for the early launch).

Nothing here knows the engine or the verifier: `Elimination` says which requests come next, given
which samples have come back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from adarl.exit_conditions import ExitCondition
from adarl.seeds import derive_seed
from adarl.types import Pool, Prompt, Sample, ScoredSample, Verdict, Verification, label

RoundSize = Callable[[Pool], int]
"""Number of samples that a pool needs next; 0 once it is resolved. Reads the pool's own samples alone."""

MAX_ATTEMPTS = 3  # draws of one index before a failing verifier stops the run


class SamplingError(RuntimeError):
    """Sampling cannot go on; the message says why and what to do."""


def uniform(group_size: int) -> RoundSize:
    """GRPO: n samples a prompt, in one round."""

    def round_size(pool: Pool) -> int:
        return max(0, group_size - pool.size)

    return round_size


def budgeted(budgets: Mapping[str, int]) -> RoundSize:
    """A number of samples for each pool, by label, in one round."""

    def round_size(pool: Pool) -> int:
        return max(0, budgets[pool.label] - pool.size)

    return round_size


def elimination(exit_condition: ExitCondition, samples_per_round: int, num_rounds: int) -> RoundSize:
    """Rounds of M samples until the exit condition holds or M * N samples are in (Algorithm 1)."""
    cap = samples_per_round * num_rounds

    def round_size(pool: Pool) -> int:
        if pool.size >= cap or (pool.size and exit_condition(pool)):
            return 0
        return min(samples_per_round, cap - pool.size)

    return round_size


class Sampler(Protocol):
    """What a strategy or a selection may ask of the step. Prompts are all ranks', pools this rank's."""

    @property
    def seed(self) -> int:
        """Names the step's draws; the same on every rank."""

    @property
    def num_prompts(self) -> int:
        """Prompts in the data."""

    def take(self, count: int) -> list[Prompt]:
        """The next prompts of the stream, the same on every rank."""

    def start(self, prompts: Sequence[Prompt]) -> list[Pool]:
        """This rank's share of these prompts, as empty pools."""

    def more(self, count: int) -> list[Pool]:
        """This rank's share of `count` further prompts, as the recipe's selection chooses them."""

    def draw(self, pools: Sequence[Pool], round_size: RoundSize) -> list[Pool]:
        """Sample and verify until `round_size` asks for no more; the pools may hold samples already."""

    def gather(self, records: Sequence[Any]) -> list[Any]:
        """Small records of all ranks, the same list on every rank. All ranks call it together."""

    def gradient_norms(self, pools: Sequence[Pool]) -> list[float]:
        """GVM's G of each pool (learner.py). All ranks call it together."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One round of one pool, or a sample of it that has to be drawn again.

    The sample at place i of `indices` is drawn with `seed + i`.
    """

    prompt: Prompt
    round: int
    indices: tuple[int, ...]  # positions in the pool that the samples will take
    seed: int
    attempt: int = 0
    occurrence: int = 0  # of the pool
    is_last: bool = False  # no round can follow, so nothing is gained by returning its samples one by one

    @property
    def label(self) -> str:
        return label(self.prompt.id, self.occurrence)

    @property
    def key(self) -> tuple[str, int, int, int]:
        """Tells the requests of a step apart."""
        return self.label, self.round, self.attempt, self.indices[0]


@dataclass(slots=True)
class _Progress:
    """One pool on its way: complete rounds are in `pool`, later ones in `arrived` until theirs is complete."""

    pool: Pool
    rounds: list[SampleRequest] = field(default_factory=list)  # asked for and not complete, oldest first
    missing: dict[tuple[str, int, int, int], set[int]] = field(
        default_factory=dict
    )  # by request key: not back yet
    arrived: dict[int, ScoredSample] = field(default_factory=dict)  # by index, of incomplete rounds

    @property
    def num_missing(self) -> int:
        return sum(map(len, self.missing.values()))


class Elimination:
    """The sampling of one rank's pools. Feed it samples in any order; it answers with requests.

    Args:
        pools: what to start from, each label once: empty pools, or pools whose sampling goes on. Round
            numbers and indices continue from the samples that are in.
        round_size: the rule.
        seed: names the step's draws; requests derive theirs from it, the pool's label, the round and
            the attempt.
    """

    def __init__(self, pools: Sequence[Pool], round_size: RoundSize, seed: int):
        self._progress = {pool.label: _Progress(pool) for pool in pools}
        if len(self._progress) != len(pools):
            raise ValueError(
                "two pools of one label: their samples would be the same twice; number occurrences"
            )
        self._round_size = round_size
        self._seed = seed
        self._num_active = 0

    def start(self) -> list[SampleRequest]:
        """The next round of every pool that needs one."""
        requests = [r for progress in self._progress.values() for r in self._next_round(progress)]
        self._num_active = len(requests)
        return requests

    def receive(self, request: SampleRequest, samples: Iterable[ScoredSample]) -> list[SampleRequest]:
        """Take verified samples of a request in, all or some of them; return what to draw next.

        A sample whose verification failed is drawn again under a new seed, never counted as wrong.

        Raises:
            SamplingError: the verifier failed on the same index MAX_ATTEMPTS times.
        """
        progress = self._progress[request.label]
        missing = progress.missing.get(request.key, set())
        failed = []
        for scored in samples:
            if scored.sample.index not in missing:
                raise ValueError(
                    f"sample {scored.sample.index} of {request.key} is not one that is waited for"
                )
            missing.remove(scored.sample.index)
            if scored.is_void:
                failed.append(scored.sample.index)
            else:
                progress.arrived[scored.sample.index] = scored
        if not missing:
            progress.missing.pop(request.key, None)
        following = [self._ask(progress, self._redraw(request, index)) for index in failed]
        self._close_rounds(progress)
        following += self._next_round(progress)
        self._num_active -= not progress.rounds
        return following

    @property
    def num_active(self) -> int:
        """Pools that are not yet resolved."""
        return self._num_active

    @property
    def pools(self) -> list[Pool]:
        """The pools, in the order in which they were given."""
        return [progress.pool for progress in self._progress.values()]

    def _close_rounds(self, progress: _Progress) -> None:
        """Move complete rounds into the pool, oldest first."""
        while progress.rounds and all(i in progress.arrived for i in progress.rounds[0].indices):
            complete = progress.rounds.pop(0)
            progress.pool = progress.pool.with_round(tuple(progress.arrived.pop(i) for i in complete.indices))

    def _next_round(self, progress: _Progress) -> list[SampleRequest]:
        size = self._certain_size(progress)
        if size == 0:
            return []
        pool, asked = progress.pool, len(progress.rounds)
        first = progress.rounds[-1].indices[-1] + 1 if progress.rounds else pool.size
        indices = tuple(range(first, first + size))
        number = pool.num_rounds + asked
        seed = derive_seed(self._seed, pool.label, number, 0)
        is_last = self._common_size(progress, progress.num_missing + size) == 0
        request = SampleRequest(pool.prompt, number, indices, seed, 0, pool.occurrence, is_last)
        progress.rounds.append(request)
        return [self._ask(progress, request)]

    def _certain_size(self, progress: _Progress) -> int:
        """Size of the next round if no outcome of what is still missing can change it, else 0.

        With nothing missing that is the rule's own answer. Rules read how many samples are correct, not
        which, so of m missing samples m + 1 cases are all there are.
        """
        if not progress.rounds:
            return self._round_size(progress.pool)
        return self._common_size(progress, progress.num_missing) or 0

    def _common_size(self, progress: _Progress, missing: int) -> int | None:
        """What the rule says if it says the same whatever becomes of `missing` samples, else None."""
        known = progress.pool.samples + tuple(progress.arrived.values())
        common = None
        for correct in (missing, *range(missing)):  # the extremes first: they differ most
            outcomes = (_CORRECT,) * correct + (_INCORRECT,) * (missing - correct)
            size = self._round_size(replace(progress.pool, samples=known + outcomes))
            if common not in (None, size):
                return None
            common = size
        return common

    def _redraw(self, request: SampleRequest, index: int) -> SampleRequest:
        if request.attempt + 1 == MAX_ATTEMPTS:
            raise SamplingError(
                f"the verifier failed {MAX_ATTEMPTS} times on prompt {request.prompt.id!r} "
                f"(answer {request.prompt.answer!r}): see its error above and mend the verifier or drop the prompt"
            )
        attempt = (
            request.attempt + 1
        )  # each index by itself: which samples failed together depends on the schedule
        seed = derive_seed(self._seed, request.label, request.round, attempt, index)
        return replace(request, indices=(index,), attempt=attempt, seed=seed)

    @staticmethod
    def _ask(progress: _Progress, request: SampleRequest) -> SampleRequest:
        progress.missing[request.key] = set(request.indices)
        return request


def _stand_in(verdict: Verdict) -> ScoredSample:
    sample = Sample("", 0, 0, "", (), (), False)
    return ScoredSample(sample, Verification(verdict, float(verdict.is_correct)))


_CORRECT, _INCORRECT = (
    _stand_in(Verdict.CORRECT),
    _stand_in(Verdict.INCORRECT),
)  # of samples that are still missing
