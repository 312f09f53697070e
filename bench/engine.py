"""Our sampling loop against one bare `llm.generate` call: `python -m bench.engine [--json]`.

Both draw the same samples on the same engine: uniform strategy, same prompts, n, seeds, length limit, and
both return the log-probabilities that training needs. Ours adds the state machine, streaming and
verification in other processes; theirs is one call. --plain lets theirs leave the log-probabilities out.
"""

from typing import Annotated

import typer

from adarl.config import load_recipe
from adarl.launch import preload_libraries, prepare_environment
from adarl.seeds import derive_seed

RECIPE = "recipes/tiny_cpu.yaml"


def main(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object as the last line")] = False,
    rounds: Annotated[int, typer.Option(min=1)] = 9,
    prompts: Annotated[int, typer.Option(min=1, help="prompts a call")] = 192,
    plain: Annotated[bool, typer.Option(help="let theirs leave the log-probabilities out")] = False,
) -> None:
    """Tokens per second of both, in turns in one process."""
    preload_libraries()
    prepare_environment()
    recipe = load_recipe(RECIPE, ["sampling.strategy=uniform", f"data.prompts_per_step={prompts}"])

    from vllm import SamplingParams

    from adarl.build import build_engine, model_and_prompts
    from adarl.draws import Stopwatch, sample_pools
    from adarl.parts import step_settings
    from adarl.verifier import Verifier
    from bench._compare import finish, in_turns

    model_path, pool = model_and_prompts(recipe, print)
    engine = build_engine(recipe, model_path, distributed=False)
    batch = pool[:prompts]
    settings = step_settings(recipe)
    n = recipe.sampling.group_size
    verdicts: list[int] = []
    waits: list[float] = []

    with Verifier(recipe.verifier) as verifier:

        def ours() -> int:
            watch = Stopwatch()
            pools = sample_pools(batch, engine, verifier, settings, 0, watch)
            verdicts.append(sum(p.num_correct for p in pools))
            waits.append(watch.seconds["verify_wait"])
            return sum(len(s.sample.token_ids) for p in pools for s in p.samples)

        def theirs() -> int:
            params = [
                SamplingParams(
                    n=n,
                    temperature=recipe.sampling.temperature,
                    max_tokens=recipe.sampling.max_response_tokens,
                    seed=derive_seed(0, prompt.id, 0, 0),
                    logprobs=None if plain else 0,
                )
                for prompt in batch
            ]
            inputs = [{"prompt_token_ids": list(prompt.token_ids)} for prompt in batch]
            outputs = engine.llm.generate(inputs, params, use_tqdm=False)
            return sum(len(o.token_ids) for output in outputs for o in output.outputs)

        same = ours() == theirs()
        result = in_turns(ours, theirs, rounds)
    result |= {
        "same_token_count": same,
        "samples": n * prompts,
        "correct": verdicts[-1],
        "verify_wait_seconds": round(sorted(waits)[len(waits) // 2], 4),
    }
    finish(result, as_json)


if __name__ == "__main__":
    typer.run(main)
