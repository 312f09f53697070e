"""Steps with fakes in place of engine, verifier and learner, on one rank or several."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from adarl.config import Recipe
from adarl.draws import StepSettings, Stopwatch
from adarl.metrics import PoolStats
from adarl.parts import step_settings
from adarl.prompts import PromptStream
from adarl.seeds import derive_seed
from adarl.step import train_step
from adarl.types import Group, Pool, Prompt, Sample, Verdict, Verification
from tests.simulated import on_ranks


def prompts_of(*answers: str) -> list[Prompt]:
    """One prompt for each answer, which lists the digits 0 to 3 that count as correct: "" never, "01" half the time."""
    return [
        Prompt(f"p{i:03}", "", answer, (1, 2, 3), difficulty=100.0 - 25 * len(answer))
        for i, answer in enumerate(answers)
    ]


class DigitEngine:
    """Answers with a digit from 0 to 3 that depends on the sample's seed; samples come back one at a time, shuffled."""

    def __init__(self, order: int = 0):
        self.queue: list[tuple[Any, int]] = []
        self.order = Random(order)

    def submit(self, request):
        self.queue += [(request, place) for place in range(len(request.indices))]

    def poll(self):
        if not self.queue:
            return []
        request, place = self.queue.pop(self.order.randrange(len(self.queue)))
        digit = Random(request.seed + place).randrange(4)
        tokens = tuple(range(1 + digit))
        sample = Sample(
            request.prompt.id,
            request.round,
            request.indices[place],
            str(digit),
            tokens,
            (-1.0,) * len(tokens),
            False,
        )
        return [(request, (sample,))]

    @property
    def num_unfinished(self):
        return len(self.queue)

    def sleep(self):
        pass

    def load_weights(self, weights):
        pass


class DigitVerifier:
    def __init__(self):
        self.done: list[Any] = []

    def submit(self, key, responses, answer, truncated=None):
        verdicts = [Verdict.CORRECT if r in answer else Verdict.INCORRECT for r in responses]
        self.done.append((key, tuple(Verification(v, float(v.is_correct)) for v in verdicts)))

    def poll(self, timeout=0.0):
        done, self.done = self.done, []
        return done


@dataclass
class RecordingLearner:
    rank: int
    world_size: int
    gather: Callable[[Sequence[Any]], list[Any]]
    groups: list[Group] = field(default_factory=list)

    def gradient_norms(self, samples):
        return [1.0 + len(sample.token_ids) for _, sample in samples]

    def update(self, groups, seed):
        self.groups = list(groups)
        return {}

    def weights(self):
        return iter([])


@dataclass
class Loop:
    """One rank's turns of the loop; its memory goes through JSON and back after each, as a resume would have it."""

    recipe: Recipe
    prompts: Sequence[Prompt]
    rank: int = 0
    world_size: int = 1
    gather: Callable[[Sequence[Any]], list[Any]] = list
    resume: bool = False
    order: int = 0

    def __post_init__(self):
        self.settings: StepSettings = step_settings(self.recipe)
        self.stream = PromptStream(self.prompts, seed=0)
        self.learner = RecordingLearner(self.rank, self.world_size, self.gather)

    def turn(self, step: int):
        if self.resume:
            memory = json.loads(json.dumps([self.settings.selection.state(), self.settings.strategy.state()]))
            self.settings = step_settings(self.recipe)
            self.settings.selection.restore(memory[0])
            self.settings.strategy.restore(memory[1])
            self.stream = PromptStream(self.prompts, 0, self.stream.position)
        return train_step(
            self.stream, DigitEngine(self.order + step), DigitVerifier(), self.learner, self.settings,
            derive_seed("test", step), Stopwatch(),
        )  # fmt: skip


@dataclass
class Seen:
    """What a step of all ranks looked like; equal however the prompts lay on them."""

    pools: dict[str, Pool]
    trained: dict[str, Group]
    stats: list[PoolStats]
    notes: dict[str, float]
    position: int
    memory: str


def run_steps(
    recipe: Recipe, prompts: Sequence[Prompt], steps: int, world_size: int = 1, **kind: Any
) -> list[Seen]:
    """Several steps on as many ranks (threads)."""

    def one_rank(rank: int, gather: Callable[[Sequence[Any]], list[Any]]) -> list[tuple[Any, ...]]:
        loop = Loop(recipe, prompts, rank, world_size, gather, **kind)
        turns = []
        for step in range(steps):
            result = loop.turn(step)
            memory = json.dumps(
                [loop.settings.selection.state(), loop.settings.strategy.state()], sort_keys=True
            )
            turns.append((result, loop.learner.groups, loop.stream.position, memory))
        return turns

    ranks = on_ranks(world_size, one_rank)
    seen = []
    for turns in zip(*ranks, strict=True):
        result, _, position, memory = turns[0]
        assert all(t[0].stats == result.stats and t[0].notes == result.notes for t in turns), "ranks disagree"
        assert all(t[2:] == (position, memory) for t in turns), "ranks disagree"
        pools = {p.label: p for t in turns for p in t[0].pools}
        trained = {g.label: g for t in turns for g in t[1]}
        seen.append(
            Seen(
                dict(sorted(pools.items())),
                dict(sorted(trained.items())),
                result.stats,
                result.notes,
                position,
                memory,
            )
        )
    return seen


def recipe_of(
    prompts_per_step: int = 6, selection: dict | None = None, algorithm: dict | None = None, **sampling
) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "test",
            "run": {"max_steps": 1},
            "model": {"path": "m"},
            "data": {"path": "d", "prompts_per_step": prompts_per_step, "selection": selection or {}},
            "sampling": {"max_response_tokens": 8, "samples_per_round": 4, "num_rounds": 4, **sampling},
            "algorithm": algorithm or {},
        }
    )
