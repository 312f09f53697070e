"""The same step on the real engine under three schedules and, for GVM's G, on the real learner: prints one JSON object.

`python -m tests.e2e.schedules` on one rank, or under `deepspeed --num_accelerators 2 --module`.
"""

import json
import os
import sys

from adarl.config import load_recipe
from adarl.launch import prepare_environment

RECIPE, PROMPTS = "recipes/tiny_cpu.yaml", 24


def digest(pools) -> list:
    return [[list(s.sample.token_ids) for s in pool.samples] for pool in pools]


def with_barrier(pools, rule, seed, engine, verifier):
    """All prompts finish a round before any starts its next."""
    from adarl.sampling import Elimination
    from adarl.types import ScoredSample

    machine = Elimination(pools, rule, seed)
    waiting = machine.start()
    while waiting:
        for request in waiting:
            engine.submit(request)
        back: dict = {request.key: (request, []) for request in waiting}
        while engine.num_unfinished:
            for request, samples in engine.poll():
                back[request.key][1].extend(samples)
        waiting = []
        for request, samples in back.values():
            texts = [s.text for s in samples]
            found = verifier.verify(
                texts, [request.prompt.answer] * len(texts), [s.truncated for s in samples]
            )
            waiting += machine.receive(request, map(ScoredSample, samples, found))
    return machine.pools


def main() -> None:
    prepare_environment()
    from adarl.build import build_engine, build_learner, model_and_prompts
    from adarl.draws import Stopwatch, sample_pools
    from adarl.parts import balanced_rule, step_settings
    from adarl.ranks import start_ranks
    from adarl.types import Pool
    from adarl.verifier import Verifier

    keys = ["sampling.posterior={futility: null, confidence: null}"]
    recipe = load_recipe(RECIPE, keys)
    settings = step_settings(recipe)
    model_path, prompts = model_and_prompts(recipe, lambda line: None)
    prompts = prompts[:PROMPTS]
    accelerator = start_ranks(recipe.learner)
    learner = build_learner(recipe, model_path, accelerator)
    engine = build_engine(recipe, model_path, distributed=learner.world_size > 1)
    out = {"model": str(model_path)}
    with Verifier(recipe.verifier) as verifier:
        free = sample_pools(prompts, engine, verifier, settings, 0, Stopwatch())
        out["samples"] = sum(pool.size for pool in free)
        turned = sample_pools(prompts[::-1], engine, verifier, settings, 0, Stopwatch())
        out["reversed"] = digest(turned[::-1]) == digest(free)
        barrier = with_barrier(
            [Pool(p) for p in prompts], balanced_rule(recipe.sampling), 0, engine, verifier
        )
        out["barrier"] = digest(barrier) == digest(free)
    pairs = [(pool.prompt, s.sample) for pool in free for s in pool.samples[:1]]
    mine = list(range(learner.rank, len(pairs), learner.world_size))
    norms = learner.gradient_norms([pairs[i] for i in mine])
    together = dict(learner.gather(list(zip(mine, norms, strict=True))))
    out["norms"] = [together[i] for i in range(len(pairs))]
    out["pairs"] = [[list(prompt.token_ids), list(sample.token_ids)] for prompt, sample in pairs]
    out["trainable"] = all(p.requires_grad for p in learner._engine.module.parameters())
    if os.environ["RANK"] == "0":
        print(json.dumps(out), flush=True)
    engine.shutdown()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
