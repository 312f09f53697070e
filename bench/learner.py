"""Our update against a bare transformers + DeepSpeed loop: `python -m bench.learner [--json]`.

Both train the same model under the same DeepSpeed config on the same packed microbatches with the same
loss on the same tokens; theirs takes whole logits of every position and no statistics.
"""

from typing import Annotated

import numpy as np
import typer

from adarl.config import load_recipe
from adarl.launch import preload_libraries, prepare_environment

RECIPE = "recipes/tiny_cpu.yaml"


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    rounds: Annotated[int, typer.Option(min=1)] = 15,
    sequences: Annotated[int, typer.Option(min=2, help="sequences an update")] = 192,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16")] = "float32",
) -> None:
    """Tokens per second of both, in turns in one process."""
    preload_libraries()
    prepare_environment()
    recipe = load_recipe(RECIPE, [f"learner.dtype={dtype}", "learner.warmup_updates=0", "learner.lr=1e-7"])

    import deepspeed
    import torch
    from transformers import AutoModelForCausalLM

    from adarl.batch import TrainSequence, UpdateBatch
    from adarl.prepared import locate
    from adarl.ranks import deepspeed_config, start_ranks
    from adarl.train import build_learner
    from bench._compare import finish, in_turns

    model_path = locate(recipe.model.path)
    learner = build_learner(recipe, model_path, start_ranks(recipe.learner))
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=getattr(torch, dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-7, betas=recipe.learner.betas, weight_decay=0.0)
    bare, *_ = deepspeed.initialize(model=model, config=deepspeed_config(recipe.learner), optimizer=optimizer)

    rng = np.random.default_rng(0)
    data = []
    for i in range(sequences):
        prompt, response = (rng.integers(4, 18, rng.integers(4, 8), dtype=np.int32) for _ in range(2))
        logprobs = np.zeros(len(response), np.float32)
        data.append(TrainSequence(str(i // 4), prompt, response, logprobs, advantage=float(rng.normal())))
    batch: UpdateBatch = learner.pack(data)
    tokens = sum(s.length for s in data)

    def ours() -> int:
        learner.one_update(batch, None)
        return tokens

    def theirs() -> int:
        for m in batch.microbatches:
            logits = bare(input_ids=m.input_ids_RW, position_ids=m.position_ids_RW, use_cache=False).logits
            logp = logits.flatten(0, 1).float().log_softmax(-1)[m.loss_positions_L]
            taken = logp.gather(-1, m.targets_L[:, None])[:, 0]
            ratio = (taken - taken.detach()).exp()
            clipped = ratio.clamp(0.8, 1.28)
            loss = (
                -torch.minimum(ratio * m.advantages_L, clipped * m.advantages_L).sum() / batch.num_loss_tokens
            )
            bare.backward(loss)
        bare.step()
        return tokens

    result = in_turns(ours, theirs, rounds)
    result |= {
        "sequences": sequences,
        "tokens": tokens,
        "microbatches": len(batch.microbatches),
        "dtype": dtype,
    }
    finish(result, as_json)


if __name__ == "__main__":
    typer.run(main)
