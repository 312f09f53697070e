"""Held-out problems on the live engine during training: the code of `eval`, the seeds of no training step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adarl.protocols import Ranks
from adarl.seeds import derive_seed
from adarl.types import Prompt
from eval.evaluate import evaluate
from eval.summary import summarise

if TYPE_CHECKING:
    from adarl.engine import VllmEngine
    from adarl.verifier import Verifier


@dataclass(frozen=True, slots=True)
class Validation:
    """The recipe's `validation:` section at work.

    Args:
        prompts: of all ranks; each rank answers its share.
        k: samples a prompt.
        every: steps between two validations; the start and the end are always validated.
        seed: of the run. Every validation draws with the same seeds, so that two differ by the policy alone.
    """

    prompts: Sequence[Prompt]
    k: int
    every: int
    seed: int

    def is_due(self, step: int, max_steps: int) -> bool:
        """Whether the policy after this step is validated; step 0 is the start."""
        return step in (0, max_steps) or step % self.every == 0

    def run(self, engine: "VllmEngine", verifier: "Verifier", ranks: Ranks) -> dict[str, float]:
        """avg_at_k, pass_at_k, maj_at_k and more over all prompts; all ranks together, the same on each."""
        mine = self.prompts[ranks.rank :: ranks.world_size]
        seed = derive_seed("validation", self.seed)
        results = evaluate(engine, verifier, mine, self.k, seed)
        small = [replace(r, samples=tuple(replace(s, text="") for s in r.samples)) for r in results]
        row = summarise(sorted(ranks.gather(small), key=lambda r: r.id), "validation")
        return {
            f"validation/avg_at_{self.k}": row.avg_at_k,
            f"validation/pass_at_{self.k}": row.pass_at_k[self.k],
            f"validation/maj_at_{self.k}": row.maj_at_k,
            "validation/mean_tokens": row.mean_tokens,
            "validation/truncated_share": row.truncated_share,
            "validation/problems": row.num_problems,
        }
