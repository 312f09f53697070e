"""The same step on the real engine under three schedules and, for GVM's G, on the real learner: prints one JSON object.

`python -m tests.e2e.schedules` on one rank; with what it printed in a file, on any number of ranks, only G is computed anew.
"""

import json
import os
import sys
from pathlib import Path

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
    from adarl.types import Pool, Sample
    from adarl.verifier import Verifier

    recipe = load_recipe(RECIPE, ["sampling.posterior={futility: null, confidence: null}"])
    with Verifier(recipe.verifier) as verifier:  # before vLLM pins this process to cores
        model_path, prompts = model_and_prompts(recipe, lambda line: None)
        learner = build_learner(recipe, model_path, start_ranks(recipe.learner))
        if given := [a for a in sys.argv[1:] if not a.startswith("--")]:
            by_ids = {p.token_ids: p for p in prompts}
            pairs = [
                (
                    by_ids[tuple(prompt)],
                    Sample(by_ids[tuple(prompt)].id, 0, 0, "", tuple(response), (), False),
                )
                for prompt, response in json.loads(Path(given[0]).read_text())["pairs"]
            ]
            report({"norms": gradient_norms(learner, pairs)})
            return
        settings, prompts = step_settings(recipe), prompts[:PROMPTS]
        engine = build_engine(recipe, model_path, distributed=False)
        out = {"model": str(model_path)}
        free = sample_pools(prompts, engine, verifier, settings, 0, Stopwatch())
        out["samples"] = sum(pool.size for pool in free)
        turned = sample_pools(prompts[::-1], engine, verifier, settings, 0, Stopwatch())
        out["reversed"] = digest(turned[::-1]) == digest(free)
        pools, rule = [Pool(p) for p in prompts], balanced_rule(recipe.sampling)
        out["barrier"] = digest(with_barrier(pools, rule, 0, engine, verifier)) == digest(free)
    pairs = [(pool.prompt, s.sample) for pool in free for s in pool.samples[:1]]
    out["norms"] = gradient_norms(learner, pairs)
    out["pairs"] = [[list(prompt.token_ids), list(sample.token_ids)] for prompt, sample in pairs]
    out["trainable"] = all(p.requires_grad for p in learner._engine.module.parameters())
    report(out)
    engine.shutdown()


def gradient_norms(learner, pairs) -> list[float]:
    """The ranks share the work; all of them get all norms."""
    mine = list(range(learner.rank, len(pairs), learner.world_size))
    norms = learner.gradient_norms([pairs[i] for i in mine])
    together = dict(learner.gather(list(zip(mine, norms, strict=True))))
    return [together[i] for i in range(len(pairs))]


def report(out: dict) -> None:
    if os.environ["RANK"] == "0":
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
