"""`skip_uniform`: GRESO (arXiv 2506.02177)."""

from collections.abc import Sequence
from random import Random
from typing import Any

from adarl.metrics import PoolStats
from adarl.sampling import Sampler
from adarl.seeds import derive_seed
from adarl.types import Pool, Prompt


class SkipUniform:
    """Skip prompts that were all right, or all wrong, at their last visits, more surely the more of them.

    A prompt whose last z pools were uniform is sampled with probability c^z, where c is `easy` if the last was
    all right and `hard` if it was all wrong. From the second epoch on each moves by `change` a step: down
    while pools of its kind make up more than its target share, else up. Skipped prompts are replaced by the
    next ones of the stream, so a step has as many as it should.

    Args:
        start: c at first, of both kinds.
        least, most: bounds of c.
        target_easy, target_hard: shares of all-right and all-wrong pools that are aimed at.
    """

    def __init__(
        self, start: float, change: float, least: float, most: float, target_easy: float, target_hard: float
    ):
        self._chance = {"easy": start, "hard": start}
        self._target = {"easy": target_easy, "hard": target_hard}
        self._change, self._least, self._most = change, least, most
        self._uniform: dict[str, tuple[int, str]] = {}  # visits in a row, kind of the last
        self._visits = 0
        self._num_prompts = self._skipped = 0

    def choose(self, count: int, step: Sampler) -> list[Pool]:
        self._num_prompts = step.num_prompts
        self._skipped = 0
        chosen: list[Prompt] = []
        while len(chosen) < count:
            for prompt in step.take(count - len(chosen)):
                # A whole epoch of skipped prompts: take what comes.
                if self._skipped < step.num_prompts and self._skips(prompt, step.seed):
                    self._skipped += 1
                else:
                    chosen.append(prompt)
        return step.start(chosen)

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        kinds = [None if s.is_mixed else "easy" if s.num_correct else "hard" for s in stats]
        for s, kind in zip(stats, kinds, strict=True):
            if kind is None:
                self._uniform.pop(s.prompt_id, None)
            else:
                self._uniform[s.prompt_id] = self._uniform.get(s.prompt_id, (0, kind))[0] + 1, kind
        if self._visits >= self._num_prompts:
            for kind, target in self._target.items():
                change = -self._change if kinds.count(kind) > target * len(kinds) else self._change
                self._chance[kind] = min(self._most, max(self._least, self._chance[kind] + change))
        self._visits += len(stats)
        chances = {f"selection/{kind}_chance": chance for kind, chance in self._chance.items()}
        return {"selection/skipped": self._skipped, **chances}

    def state(self) -> dict[str, Any]:
        return {"chance": self._chance, "uniform": self._uniform, "visits": self._visits}

    def restore(self, state: dict[str, Any]) -> None:
        self._chance = dict(state.get("chance", self._chance))
        self._uniform = {prompt_id: (z, kind) for prompt_id, (z, kind) in state.get("uniform", {}).items()}
        self._visits = state.get("visits", 0)

    def _skips(self, prompt: Prompt, seed: int) -> bool:
        if prompt.id not in self._uniform:
            return False
        visits, kind = self._uniform[prompt.id]
        return Random(derive_seed("skip", seed, prompt.id)).random() >= self._chance[kind] ** visits
