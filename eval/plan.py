"""An evaluation, laid out before the engine starts: settings, tasks, and whether the prompts fit the model."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from adarl.config import DataSettings, EngineSettings
from adarl.errors import UserError
from adarl.prompts import render
from adarl.types import Prompt
from adarl.verifier import VerifierSettings
from eval.benchmarks import ProblemSet
from eval.evaluate import Task, task
from eval.models import LoadedModel, Model


@dataclass(frozen=True, slots=True)
class Sampling:
    """How responses are drawn. Greedy decoding is temperature 0 with one sample."""

    k: int = 32
    temperature: float = 1.0
    max_new_tokens: int = 4096
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides what an evaluation of one model gives."""

    model: Model
    sets: Sequence[ProblemSet]
    sampling: Sampling
    prompt: DataSettings  # its system prompt, suffix and examples
    engine: EngineSettings
    verifier: VerifierSettings
    tasks: Sequence[Task]
    context: int | None  # of the model

    @property
    def longest_prompt(self) -> int:
        return max(len(t.prompt.token_ids) for t in self.tasks)

    @property
    def max_sequence(self) -> int:
        """Tokens of the longest sequence that the engine must hold: what is asked for, or the model's context."""
        wanted = self.longest_prompt + self.sampling.max_new_tokens
        return wanted if self.context is None else min(wanted, self.context)

    @property
    def cut_note(self) -> str | None:
        """A sentence where the model's context leaves less room than was asked for."""
        room = self.max_sequence - self.longest_prompt
        if room == self.sampling.max_new_tokens:
            return None
        return (
            f"the context of {self.model.name} is {self.context} tokens: beside the longest prompt a response has "
            f"{room} tokens, not {self.sampling.max_new_tokens}"
        )

    def config(self) -> dict[str, Any]:
        """What must be the same for two calls to share a folder; also the record in the results."""
        return {
            "model": self.model.given,
            "model_fingerprint": self.model.fingerprint,
            **asdict(self.sampling),
            "system_prompt": self.prompt.system_prompt,
            "prompt_suffix": self.prompt.prompt_suffix,
            "examples": [example.model_dump() for example in self.prompt.examples],
            "benchmarks": {
                s.benchmark: {
                    "source": s.source,
                    "problems": len(s.problems),
                    "of": s.whole_count,
                    "digest": s.digest,
                }
                for s in self.sets
            },
            "dtype": self.engine.dtype,
            # The rest of the engine's and the verifier's settings say how fast, these say what.
            "verifier": {"kind": self.verifier.kind, "extraction": self.verifier.extraction},
        }


def make_plan(
    model: Model,
    loaded: LoadedModel,
    sets: Sequence[ProblemSet],
    sampling: Sampling,
    prompt: DataSettings,
    engine: EngineSettings,
    verifier: VerifierSettings,
) -> Plan:
    """Render every problem with training's own code.

    Raises:
        UserError: a prompt leaves no room for a response in the model's context.
    """
    tasks = []
    for problem_set in sets:
        for p in problem_set.problems:
            token_ids = tuple(render(p.problem, prompt, loaded.tokenizer))
            if loaded.context is not None and len(token_ids) >= loaded.context:
                raise UserError(
                    f"problem {p.id} of {problem_set.benchmark} makes a prompt of {len(token_ids)} tokens, but the context "
                    f"of {model.name} is {loaded.context}: leave the benchmark out, or shorten the prompt"
                )
            tasks.append(
                task(problem_set.benchmark, Prompt(p.id, p.problem, p.answer, token_ids), sampling.seed)
            )
    return Plan(model, sets, sampling, prompt, engine, verifier, tasks, loaded.context)
