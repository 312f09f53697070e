"""Steps of TRL's GRPOTrainer on command, for bench.step: `python -m bench._step_trl [key=value ...]`.

Runs in the environment that bench.step makes. The recipe's keys become TRL's arguments of the same meaning.
"""

import logging
import sys
import tempfile
import time
import warnings
from typing import Any

from adarl.config import load_recipe
from adarl.launch import prepare_environment
from bench._step_ours import RECIPE, boxed_reward
from bench._turns import Commands


def main() -> None:
    commands = Commands()
    prepare_environment()
    recipe = load_recipe(RECIPE, sys.argv[1:])
    warnings.filterwarnings("ignore")

    from datasets import Dataset
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from adarl.prepared import locate
    from adarl.prompts import load_problems
    from adarl.ranks import deepspeed_config

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    model_path = locate(recipe.model.path)
    problems = load_problems(locate(recipe.data.path), recipe.data)
    data = Dataset.from_list([{"prompt": p.problem, "answer": p.answer} for p in problems])
    sampling, learner = recipe.sampling, recipe.learner
    rewards: list[float] = []
    tokens: list[int] = []

    def reward(
        completions: list[str], answer: list[str], completion_ids: list[list[int]], **_: Any
    ) -> list[float]:
        found = [boxed_reward(text, gold) for text, gold in zip(completions, answer, strict=True)]
        rewards.append(sum(found) / len(found))
        tokens.append(sum(map(len, completion_ids)))
        return found

    class OnCommand(TrainerCallback):
        """Holds every step back until it is asked for, and times it: from one beginning to the next."""

        start = 0.0

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if self.start:
                seconds = time.perf_counter() - self.start
                commands.answer(seconds=seconds, reward=rewards[-1], tokens=tokens[-1])
            if not commands.wait():
                sys.exit(0)
            self.start = time.perf_counter()

    stage = learner.zero_stage
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(prefix="adarl-bench-"),
        per_device_train_batch_size=recipe.data.prompts_per_step * sampling.group_size,
        num_generations=sampling.group_size,
        max_completion_length=sampling.max_response_tokens,
        temperature=sampling.temperature,
        top_k=0,
        learning_rate=learner.lr,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=learner.warmup_updates,
        adam_beta1=learner.betas[0],
        adam_beta2=learner.betas[1],
        weight_decay=learner.weight_decay,
        max_grad_norm=learner.max_grad_norm,
        epsilon=recipe.algorithm.clip_low,
        epsilon_high=recipe.algorithm.clip_high,
        beta=0.0,
        loss_type="dapo",  # the token mean
        bf16=learner.dtype == "bfloat16",
        gradient_checkpointing=False,
        use_cpu=True,
        deepspeed=deepspeed_config(learner) | {"train_micro_batch_size_per_gpu": "auto"} if stage else None,
        model_init_kwargs={"dtype": learner.dtype},
        max_steps=10**6,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=model_path,
        reward_funcs=reward,
        args=config,
        train_dataset=data,
        processing_class=AutoTokenizer.from_pretrained(model_path),
        callbacks=[OnCommand()],
    )
    trainer.train()


if __name__ == "__main__":
    main()
