"""One batch trained on in several cuts by the real learner: prints one JSON object, on rank 0.

`python -m tests.e2e.updates ZERO_STAGE OUT.pt` on one rank, or under `deepspeed --num_accelerators 2 --module`.
"""

import json
import math
import os
import sys
from dataclasses import replace

from adarl.config import load_recipe
from adarl.launch import prepare_environment

MANY, FEW = 4096, 48  # tokens of a microbatch: the first makes one, the second several


def sequences(bad: float | None = None) -> list:
    """Twenty-four sequences of six groups; the first one's advantage may be `bad`."""
    import numpy as np

    from adarl.batch import TrainSequence

    rng = np.random.default_rng(0)
    found = []
    for i in range(24):
        prompt, response = (rng.integers(4, 18, rng.integers(3, 10), dtype=np.int32) for _ in range(2))
        logprobs = rng.normal(-1.5, 0.3, len(response)).astype(np.float32)
        found.append(TrainSequence(f"g{i // 4}", prompt, response, logprobs, advantage=float(rng.normal())))
    return found if bad is None else [replace(found[0], advantage=bad), *found[1:]]


def main() -> None:
    prepare_environment()
    import torch
    from deepspeed.utils import safe_get_full_grad, safe_get_full_optimizer_state

    import adarl.policy
    from adarl.batch import UpdateBatch, microbatch
    from adarl.build import build_learner
    from adarl.prepared import locate
    from adarl.ranks import start_ranks

    stage, out = sys.argv[-2:]
    recipe = load_recipe(
        "recipes/tiny_cpu.yaml",
        [
            f"learner.zero_stage={stage}",
            "learner.lr=1e-12",
            "algorithm.entropy_coefficient=0.1",
            # Small weights are partitioned too, as large ones are.
            "learner.deepspeed.zero_optimization.stage3_param_persistence_threshold=0",
        ],
    )
    learner = build_learner(recipe, locate(recipe.model.path), start_ranks(recipe.learner))
    engine = learner._engine
    named = list(engine.module.named_parameters())
    gradients: dict[str, torch.Tensor] = {}
    apply = learner._apply

    def keep_gradients() -> float | None:
        gradients.update((name, safe_get_full_grad(p).clone()) for name, p in named)
        return apply()

    learner._apply = keep_gradients

    def old_logprobs(batch: UpdateBatch) -> list[torch.Tensor]:
        return [m.engine_logprobs_L + 0.1 for m in batch.microbatches]  # far from now: ratios are clipped

    def packed(max_tokens: int, bad: float | None = None) -> UpdateBatch:
        learner._settings = recipe.learner.model_copy(update={"max_tokens_per_microbatch": max_tokens})
        return learner.pack(sequences(bad))

    def state() -> list:
        values = [weight.double().sum().item() for _, weight in learner.weights()]
        for key in ("exp_avg", "exp_avg_sq"):
            if stage == "0":
                found = [engine.optimizer.state[p][key] for _, p in named]
            else:
                found = [safe_get_full_optimizer_state(p, key) for _, p in named]
            values += [v.double().sum().item() for v in found]
        return [values, learner._scheduler.get_last_lr(), learner.policy_version]

    cases, results, kept = {"whole": packed(MANY), "cut": packed(FEW)}, {}, {}
    if learner.world_size == 1:
        rows = [[s] for s in sequences()]
        whole = cases["whole"]
        cases["padded"] = UpdateBatch((microbatch(rows),), whole.num_loss_tokens, whole.num_sequences)
    cases["chunks"] = cases["cut"]
    for name, batch in cases.items():
        # Log-probabilities seven tokens at a time; ranks have different numbers of tokens, so of chunks.
        adarl.policy.MAX_CHUNK_LOGITS = 7 * 19 if name == "chunks" else 1 << 26
        results[name] = learner.one_update(batch, old_logprobs(batch)) | {"of": len(batch.microbatches)}
        kept[name] = dict(gradients)
    chunks = [-(-len(m.targets_L) // 7) for m in cases["chunks"].microbatches]
    chunks = learner.gather([chunks])
    before, skipped = state(), []
    for bad in (math.inf, math.nan):
        batch = packed(FEW, bad)
        skipped.append(learner.one_update(batch, old_logprobs(batch)))
        skipped.append(learner.bad_updates_in_a_row)
    same = state() == before
    batch = cases["whole"]
    results["after"] = learner.one_update(batch, old_logprobs(batch)) | {"of": len(batch.microbatches)}
    kept["after"] = dict(gradients)
    if os.environ["RANK"] == "0":
        torch.save(kept, out)
        left = learner.bad_updates_in_a_row
        said = {"results": results, "skipped": skipped, "same": same, "left": left, "chunks": chunks}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
