"""Our update against a bare transformers + DeepSpeed loop: `python -m bench.learner [--json]`.

Both train the same model under the same DeepSpeed config with the same loss on the same tokens; theirs takes whole
logits of every position and no statistics.

`ratio`: theirs on our packed microbatches. `ratio_padded`: theirs on the usual ones, in the order of the data, padded on
the right to the longest of each microbatch, with as many tokens a microbatch, padding included. Response lengths are
lognormal (median 12, sigma 0.7), cut at 48: the median a quarter of the limit.
"""

from typing import Annotated, Any

import numpy as np
import typer

from adarl.config import load_recipe
from adarl.launch import preload_libraries, prepare_environment

RECIPE = "recipes/tiny_cpu.yaml"


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    rounds: Annotated[int, typer.Option(min=1)] = 15,
    sequences: Annotated[int, typer.Option(min=2, help="sequences an update")] = 192,
    max_tokens: Annotated[int, typer.Option(min=64, help="tokens of a microbatch")] = 4096,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16")] = "float32",
) -> None:
    """Tokens per second of both, in turns in one process."""
    preload_libraries()
    prepare_environment()
    keys = [f"learner.dtype={dtype}", "learner.warmup_updates=0", "learner.lr=1e-7"]
    recipe = load_recipe(RECIPE, [*keys, f"learner.max_tokens_per_microbatch={max_tokens}"])

    import deepspeed
    import torch
    from transformers import AutoModelForCausalLM

    from adarl.batch import TrainSequence, UpdateBatch
    from adarl.build import build_learner
    from adarl.prepared import locate
    from adarl.ranks import deepspeed_config, start_ranks
    from bench._compare import finish, in_turns

    model_path = locate(recipe.model.path)
    learner = build_learner(recipe, model_path, start_ranks(recipe.learner))
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=getattr(torch, dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-7, betas=recipe.learner.betas, weight_decay=0.0)
    bare, *_ = deepspeed.initialize(model=model, config=deepspeed_config(recipe.learner), optimizer=optimizer)

    rng = np.random.default_rng(0)
    data = []
    for i in range(sequences):
        length = int(np.clip(rng.lognormal(np.log(12), 0.7), 1, 48))
        prompt = rng.integers(4, 18, rng.integers(4, 8), dtype=np.int32)
        response = rng.integers(4, 18, length, dtype=np.int32)
        logprobs = np.zeros(len(response), np.float32)
        data.append(TrainSequence(str(i // 4), prompt, response, logprobs, advantage=float(rng.normal())))
    batch: UpdateBatch = learner.pack(data)
    padded = padded_batch(data, max_tokens, batch)
    tokens = sum(s.length for s in data)

    def ours() -> int:
        learner.one_update(batch, None)
        return tokens

    def bare_update(given: UpdateBatch, masks: list[Any]) -> int:
        for m, mask in zip(given.microbatches, masks, strict=True):
            place = {"position_ids": m.position_ids_RW} if mask is None else {"attention_mask": mask}
            logits = bare(input_ids=m.input_ids_RW, use_cache=False, **place).logits
            logp = logits.flatten(0, 1).float().log_softmax(-1)[m.loss_positions_L]
            taken = logp.gather(-1, m.targets_L[:, None])[:, 0]
            ratio = (taken - taken.detach()).exp()
            clipped = ratio.clamp(0.8, 1.28)
            objective = torch.minimum(ratio * m.advantages_L, clipped * m.advantages_L)
            bare.backward(-objective.sum() / given.num_loss_tokens)
        bare.step()
        return tokens

    result = in_turns(ours, lambda: bare_update(batch, [None] * len(batch.microbatches)), rounds)
    masks = [attention_mask(m) for m in padded.microbatches]
    against_padded = in_turns(ours, lambda: bare_update(padded, masks), rounds)
    result["ratio_padded"] = against_padded["ratio"]
    result["padded_tokens_per_second"] = against_padded["theirs_tokens_per_second"]
    result["filled_share"] = {
        name: round(tokens / sum(m.input_ids_RW.numel() for m in found.microbatches), 3)
        for name, found in (("packed", batch), ("padded", padded))
    }
    result |= {
        "sequences": sequences,
        "tokens": tokens,
        "microbatches": len(batch.microbatches),
        "dtype": dtype,
    }
    finish(result, as_json)


def padded_batch(data: list[Any], max_tokens: int, packed: Any) -> Any:
    """One sequence a row, in the order of the data, microbatches of at most `max_tokens` with their padding."""
    from adarl.batch import UpdateBatch, microbatch

    microbatches: list[Any] = []
    rows: list[Any] = []
    for sequence in data:
        width = max(s.length for s in (*rows, sequence))
        if rows and width * (len(rows) + 1) > max_tokens:
            microbatches.append(microbatch([[s] for s in rows]))
            rows = []
        rows.append(sequence)
    microbatches.append(microbatch([[s] for s in rows]))
    return UpdateBatch(tuple(microbatches), packed.num_loss_tokens, packed.num_sequences)


def attention_mask(m: Any) -> Any:
    """1 where a row holds its sequence, 0 where it is padded."""
    mask = m.input_ids_RW.new_zeros(m.input_ids_RW.shape).flatten()
    for start, end in m.spans:
        mask[start:end] = 1
    return mask.view(m.input_ids_RW.shape)


if __name__ == "__main__":
    typer.run(main)
