"""`adaptive_difficulty`: AdaRFT (arXiv 2504.05520)."""

from collections.abc import Sequence
from math import tanh
from typing import Any

from adarl.metrics import PoolStats
from adarl.sampling import Sampler
from adarl.seeds import derive_seed
from adarl.types import Pool, Prompt


class AdaptiveDifficulty:
    """Of many candidates, those whose difficulty is nearest a target that follows the reward.

    After each step T <- clip(T + eta tanh(alpha (R - beta)), 0, 100), R the mean reward of the first rounds, which
    no exit condition tilts. Difficulties come with the data (`data.selection.adaptive_difficulty.column`).

    Args:
        candidates: candidates a chosen prompt; all prompts where the data has fewer.
        start: T of the first step.
        step_size, sensitivity, target_reward: eta, alpha, beta.
    """

    def __init__(
        self, candidates: int, start: float, step_size: float, sensitivity: float, target_reward: float
    ):
        self._candidates = candidates
        self._target = start
        self._step_size, self._sensitivity, self._target_reward = step_size, sensitivity, target_reward

    def choose(self, count: int, step: Sampler) -> list[Pool]:
        def distance(prompt: Prompt) -> tuple[float, int]:
            assert prompt.difficulty is not None, (
                "the data is read with its difficulties where this is selected"
            )
            return abs(prompt.difficulty - self._target), derive_seed("difficulty", step.seed, prompt.id)

        candidates = step.take(min(count * self._candidates, step.num_prompts))
        return step.start(sorted(candidates, key=distance)[:count])

    def observe(self, stats: Sequence[PoolStats]) -> dict[str, float]:
        reward = sum(s.first_round_reward for s in stats) / sum(s.first_round_size for s in stats)
        used = self._target
        change = self._step_size * tanh(self._sensitivity * (reward - self._target_reward))
        self._target = min(100.0, max(0.0, used + change))
        return {"selection/target_difficulty": used}

    def state(self) -> dict[str, Any]:
        return {"target": self._target}

    def restore(self, state: dict[str, Any]) -> None:
        self._target = state.get("target", self._target)
