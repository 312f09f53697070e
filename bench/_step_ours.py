"""Steps of our loop on command, for bench.step: `python -m bench._step_ours [key=value ...]`."""

import re
import sys
from typing import Any

from adarl.config import load_recipe
from adarl.launch import prepare_environment
from bench._turns import Commands

RECIPE = "recipes/tiny_cpu.yaml"


def boxed_reward(text: str, answer: str) -> float:
    """1 where the last box holds the answer to the letter: the cheapest reward there is for this task."""
    boxes = re.findall(r"\\boxed\{([^{}]*)\}", text)
    return float(bool(boxes) and boxes[-1].strip() == answer)


def main() -> None:
    commands = Commands()
    prepare_environment()
    recipe = load_recipe(RECIPE, sys.argv[1:])

    from adarl.build import build_engine, build_learner, model_and_prompts
    from adarl.draws import Stopwatch
    from adarl.parts import step_settings
    from adarl.prompts import PromptStream
    from adarl.ranks import start_ranks
    from adarl.seeds import derive_seed
    from adarl.step import train_step
    from adarl.verifier import Verifier

    with Verifier(
        recipe.verifier
    ) as verifier:  # first: vLLM pins this process to cores, and its children with it
        model_path, prompts = model_and_prompts(recipe, lambda line: None)
        learner = build_learner(recipe, model_path, start_ranks(recipe.learner))
        engine = build_engine(recipe, model_path, distributed=False)
        stream = PromptStream(prompts, recipe.run.seed, 0)
        settings = step_settings(recipe)
        done = 0

        def step() -> dict[str, Any]:
            nonlocal done
            done += 1
            watch = Stopwatch()
            with watch("step"):
                result = train_step(
                    stream, engine, verifier, learner, settings, derive_seed("step", 0, done), watch
                )
            old = result.update["time/old_logprobs"]
            samples = [(pool.prompt, scored) for pool in result.pools for scored in pool.samples]
            return {
                "seconds": watch.seconds.pop("step"),
                "phases": watch.seconds | {"old_logprobs": old, "update": watch.seconds["update"] - old},
                "reward": sum(s.reward for _, s in samples) / len(samples),
                "tokens": sum(len(s.sample.token_ids) for _, s in samples),
                "same_rewards": all(s.reward == boxed_reward(s.sample.text, p.answer) for p, s in samples),
            }

        while commands.wait():
            commands.answer(**step())
        engine.shutdown()


if __name__ == "__main__":
    main()
