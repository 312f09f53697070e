"""The recipes that come with adarl, and `adarl check` as a user calls it: in a process, without network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adarl.architecture import model_shape
from adarl.config import load_recipe

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
PAPER = [
    f"{model}{level}"
    for model in ("qwen25_math_7b", "qwen25_math_1_5b", "qwen3_4b_instruct", "llama32_3b_instruct")
    for level in ("", "_easy")
]

NO_NETWORK = """
import socket
def connect(self, address):
    raise RuntimeError(f"adarl check wanted {address}")
socket.socket.connect = socket.socket.connect_ex = connect
"""


@pytest.fixture
def check(tmp_path: Path):
    """`adarl check` with the given arguments, in a process that cannot open a connection."""
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
        command = [str(Path(sys.executable).parent / "adarl"), "check", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    return run


def test_all_recipes_are_valid_without_network_and_fit_eight_devices_of_80_gib(check):
    paths = sorted(RECIPES.glob("*.yaml"))
    assert len(paths) >= 10
    result = check(*paths, "--devices", "8", "--device-memory-gib", "80")
    assert (result.returncode, result.stderr) == (0, "")
    assert [f"{path}: valid" in result.stdout for path in paths] == [True] * len(paths)
    assert (
        "7.62 B" in result.stdout and "4,096 to 16,384" in result.stdout and "<= 33,554,432" in result.stdout
    )


def test_the_papers_7b_run_does_not_fit_two_devices_of_24_gib(check):
    result = check(RECIPES / "qwen25_math_7b.yaml", "--devices", "2", "--device-memory-gib", "24")
    assert (result.returncode, result.stderr) == (1, "")
    assert (
        "does not fit: the learner's states alone need 57.7 of 24 GiB of the device: use more devices"
        in result.stdout
    )


def test_every_broken_recipe_is_reported_in_sentences_and_the_sound_one_still_checked(check, tmp_path: Path):
    base = f"extends: {RECIPES / 'tiny_cpu.yaml'}\n"
    broken = {
        "unknown.yaml": (
            "sampling: {group_sise: 4}",
            "unknown key sampling.group_sise: did you mean 'group_size'?",
        ),
        "alone.yaml": (
            "sampling: {group_size: 1}",
            "sampling.group_size = 1: input should be greater than or equal to 2",
        ),
        "short.yaml": (
            "sampling: {group_size: 8, samples_per_round: 2, num_rounds: 3}",
            "sampling.samples_per_round x sampling.num_rounds = 6 is less than sampling.group_size = 8",
        ),
        "long.yaml": (
            "model: {path: some/model, architecture: {model_type: qwen2, vocab_size: 8, hidden_size: 8, "
            "intermediate_size: 8, num_hidden_layers: 1, num_attention_heads: 1, num_key_value_heads: 1, "
            "max_position_embeddings: 16, tie_word_embeddings: true}}",
            "data.max_prompt_tokens + sampling.max_response_tokens = 28 is more than the 16 positions of the model",
        ),
    }
    for name, (text, _) in broken.items():
        (tmp_path / name).write_text(base + text)
    (tmp_path / "hub.yaml").write_text(base + "model: {path: some/model}")
    result = check(*(tmp_path / name for name in broken), tmp_path / "missing.yaml", tmp_path / "hub.yaml")
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 5 and "Traceback" not in result.stderr
    for line, (name, (_, sentence)) in zip(lines, broken.items(), strict=False):
        assert line.startswith(f"adarl: {tmp_path / name}: ") and sentence in line
    assert lines[-1].startswith(f"adarl: {tmp_path / 'missing.yaml'}: there is no such recipe")
    assert f"{tmp_path / 'hub.yaml'}: valid" in result.stdout
    assert (
        "memory skipped, because: not a local folder, and the recipe has no model.architecture"
        in result.stdout
    )


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("qwen25_math_7b", 7_615_616_512),
        ("qwen25_math_1_5b", 1_543_714_304),
        ("qwen3_4b_instruct", 4_022_468_096),
        ("llama32_3b_instruct", 3_212_749_824),
        ("smollm2_135m_cpu", 134_515_008),
    ],
)
def test_architectures_have_the_published_number_of_parameters(name, parameters):
    shape, _ = model_shape(load_recipe(RECIPES / f"{name}.yaml").model)
    assert shape is not None and shape.parameters == parameters


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_recipes_have_the_papers_settings(name):
    recipe = load_recipe(RECIPES / f"{name}.yaml")
    sampling, algorithm, learner = recipe.sampling, recipe.algorithm, recipe.learner
    assert (recipe.name, recipe.run.max_steps, recipe.data.prompts_per_step) == (name, 600, 512)
    assert (sampling.strategy, sampling.group_size, sampling.samples_per_round, sampling.num_rounds) == (
        "balanced",
        4,
        8,
        4,
    )
    assert (sampling.temperature, algorithm.advantage, algorithm.updates_per_step) == (1.0, "global_mean", 4)
    assert (algorithm.clip_low, algorithm.clip_high, algorithm.entropy_coefficient) == (0.2, 0.28, 1e-4)
    assert (learner.lr, learner.warmup_updates, learner.weight_decay) == (
        1e-6,
        10 * 4,
        0.0,
    )  # warm-up of 10 steps
    assert recipe.data.path.startswith("RLHFlow/reinforce_ada_") and ("hard" in recipe.data.path) == (
        "_easy" not in name
    )
    assert (
        recipe.data.prompt_suffix == r" Let's think step by step and output the final answer within \boxed{}."
    )
    grpo = load_recipe(RECIPES / f"{name}.yaml", ["sampling.strategy=uniform"])
    assert grpo.sampling.max_samples == 4


def test_hard_and_easy_recipes_differ_in_the_prompts_alone():
    for name in PAPER[::2]:
        hard, easy = (load_recipe(RECIPES / f"{n}.yaml").model_dump() for n in (name, f"{name}_easy"))
        assert hard["data"].pop("path") != easy["data"].pop("path")
        hard.pop("name"), easy.pop("name")
        assert hard == easy
