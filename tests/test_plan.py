"""What a recipe needs, against numbers worked out by hand and tensors counted in a real model."""

from pathlib import Path
from typing import get_args

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from adarl.architecture import model_shape
from adarl.config import EngineSettings, LearnerSettings, ModelSettings, Recipe, SamplingSettings
from adarl.errors import UserError
from adarl.memory import (
    GIB,
    ModelShape,
    activation_bytes,
    engine_memory,
    kv_bytes_per_token,
    layer_bytes_per_token,
    learner_memory,
    logits_bytes,
)
from adarl.plan import device_plan, misfits, problems, step_plan, tight, warnings

# Qwen2.5-Math-7B in round numbers: 8 billion parameters, so that shares of it can be read off.
SHAPE = ModelShape(
    parameters=8_000_000_000,
    hidden_size=3584,
    num_layers=28,
    num_heads=28,
    num_kv_heads=4,
    head_dim=128,
    intermediate_size=18944,
    vocab_size=152064,
    max_positions=4096,
    has_qk_norm=False,
)


def make_recipe(**changes: object) -> Recipe:
    """A valid recipe; `section={...}` changes keys of a section."""
    sections: dict[str, dict[str, object]] = {
        "run": {"max_steps": 10},
        "model": {"path": "some/model"},
        "data": {"path": "some/data", "prompts_per_step": 512, "max_prompt_tokens": 1024},
        "sampling": {"max_response_tokens": 2048},
        "algorithm": {"updates_per_step": 16},
    }
    for name, keys in changes.items():
        assert isinstance(keys, dict)
        sections[name] = sections.get(name, {}) | keys
    return Recipe.model_validate({"name": "test", **sections})


def learner(ranks: int = 8, **settings: object):
    return learner_memory(
        SHAPE, LearnerSettings(**settings), ranks=ranks, tokens=12288, longest=3072, max_chunk_logits=1 << 26
    )


@pytest.mark.parametrize(
    ("strategy", "m", "n", "least", "most"),
    [
        ("uniform", 8, 4, 2048, 2048),
        ("positive_focused", 8, 4, 4096, 16384),
        ("balanced", 8, 4, 4096, 16384),
        ("balanced", 3, 4, 3072, 6144),  # two rounds of 3 until 2 right and 2 wrong are there
        ("positive_focused", 3, 4, 1536, 6144),  # one right answer in the first round is enough
        ("downsampled", 8, 4, 8192, 8192),  # 16 rollouts
    ],
)
def test_samples_of_a_step_lie_between_what_the_strategy_must_and_may_draw(strategy, m, n, least, most):
    sampling = {"strategy": strategy, "samples_per_round": m, "group_size": n, "num_rounds": 4}
    step = step_plan(make_recipe(sampling=sampling), ranks=1)
    assert (step.least_samples, step.most_samples) == (least, most)


def test_tokens_updates_and_microbatches_of_the_papers_step():
    recipe = make_recipe(algorithm={"updates_per_step": 4}, learner={"max_tokens_per_microbatch": 12288})
    step = step_plan(recipe, ranks=8)
    assert step.most_tokens == 512 * 32 * 2048 == 33_554_432
    assert (step.updates, step.sequences_per_update) == (4, 512)
    # Two sequences of 1536 tokens in a row of 3072, four rows a microbatch: 512 / 8 / 8 ranks.
    assert step.microbatches == 8


def test_weights_gradients_and_optimizer_are_cut_where_the_zero_stage_cuts_them():
    gb = 1_000_000_000
    for stage, weights, gradients, optimizer in [
        (0, 16, 16, 96),
        (1, 16, 16, 12),
        (2, 16, 2, 12),
        (3, 2, 2, 12),
    ]:
        memory = learner(zero_stage=stage, dtype="bfloat16")
        assert (memory.weights, memory.gradients, memory.optimizer) == (
            weights * gb,
            gradients * gb,
            optimizer * gb,
        )


def test_float32_needs_no_second_copy_of_the_weights_in_stage_3():
    assert learner(zero_stage=3, dtype="float32").optimizer == 8_000_000_000  # two moments of 1 B parameters
    assert learner(zero_stage=2, dtype="float32").optimizer == 12_000_000_000


def test_what_is_offloaded_moves_to_the_host():
    states = learner(offload_optimizer="cpu")
    assert (states.weights, states.gradients, states.optimizer, states.step_buffers) == (
        2_000_000_000,
        0,
        0,
        0,
    )
    assert states.host == 14_000_000_000
    both = learner(offload_optimizer="cpu", offload_parameters="cpu")
    assert (both.weights, both.host) == (0, 16_000_000_000)


def test_gathered_layers_and_buckets_follow_deepspeeds_keys():
    assert learner().gathered == 2_000_000_000  # stage3_max_live_parameters of 1e9 in bfloat16
    assert learner(ranks=1).gathered == 0  # one rank has them already
    assert learner().reduce_bucket == 1_000_000_000
    small = {
        "zero_optimization": {
            "stage3_max_live_parameters": 10,
            "reduce_bucket_size": 20,
            "sub_group_size": 30,
        }
    }
    memory = learner(deepspeed=small)
    assert (memory.gathered, memory.reduce_bucket, memory.step_buffers) == (20, 40, 240)


def test_an_update_peaks_in_the_backward_pass_or_in_the_optimizer_step():
    memory = learner(gradient_checkpointing=True)
    assert memory.resident == 2_000_000_000 + 2_000_000_000 + 12_000_000_000 + 1_000_000_000
    assert memory.step_buffers == 8_000_000_000
    assert memory.transient == memory.gathered + memory.activations + memory.logits > memory.step_buffers
    assert (
        learner(ranks=2, gradient_checkpointing=True).step_buffers == 8_000_000_000
    )  # sub_group_size bounds it


def test_activations_of_the_papers_microbatch():
    # 2 (4 h + 4) + 4 b h = 57352; 4 b q + b W = 34816; 4 a = 112; 4 b i = 151552: 243832 bytes a token and layer.
    assert layer_bytes_per_token(SHAPE, "bfloat16", "sdpa", 3072) == 243832
    # without repeated keys and without mask: 2 b (q + k) = 16384 in place of 34816
    assert layer_bytes_per_token(SHAPE, "bfloat16", "flash_attention_2", 3072) == 225400
    assert activation_bytes(SHAPE, 12288, 3072, "bfloat16", "sdpa", False) == 12288 * 28 * 243832
    assert activation_bytes(SHAPE, 12288, 3072, "bfloat16", "sdpa", True) == 12288 * (28 * 7168 + 243832)


@pytest.mark.parametrize(
    ("model_type", "dtype", "saved"),
    [("qwen2", "bfloat16", 14504), ("llama", "float32", 26920), ("qwen3", "bfloat16", 16464)],
)
def test_a_layer_saves_as_many_bytes_as_the_formula_says(model_type, dtype, saved):
    sizes = dict(
        hidden_size=256,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=1024,
        vocab_size=512,
    )

    def bytes_saved(num_layers: int) -> int:
        config = AutoConfig.for_model(model_type, num_hidden_layers=num_layers, **sizes)
        model = AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, dtype), attn_implementation="sdpa"
        )
        parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
        kept: dict[int, torch.Tensor] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.untyped_storage().data_ptr() not in parameters:
                kept[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        positions = torch.cat([torch.arange(32), torch.arange(32)]).repeat(
            2, 1
        )  # two sequences packed in a row
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model.base_model(input_ids=torch.zeros_like(positions), position_ids=positions, use_cache=False)
        return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())

    shape = ModelShape(0, 256, 2, 8, 2, 32, 1024, 512, 4096, has_qk_norm=model_type == "qwen3")
    assert layer_bytes_per_token(shape, dtype, "sdpa", longest=64) == saved
    assert (bytes_saved(3) - bytes_saved(2)) / 128 == saved


def test_logits_are_those_of_a_chunk_and_not_of_a_microbatch():
    assert logits_bytes(152064, 12288, 1 << 26) == 6 * 4 * 152064 * 441
    assert logits_bytes(1000, 50, 1 << 26) == 6 * 4 * 1000 * 50


def test_kv_memory_of_a_token_and_the_sequences_that_fit():
    assert kv_bytes_per_token(SHAPE, "bfloat16") == 2 * 28 * 4 * 128 * 2 == 57344
    assert kv_bytes_per_token(SHAPE, "bfloat16", tensor_parallel=2) == 28672
    fixed = engine_memory(SHAPE, EngineSettings(kv_cache_gib=1.0), device_bytes=None)
    assert fixed.full_sequences(3072) == 6  # 2^30 / (57344 x 3072) = 6.1
    share = engine_memory(SHAPE, EngineSettings(gpu_memory_utilization=0.5), device_bytes=80 * GIB)
    assert (share.weights, share.kv_cache) == (16_000_000_000, 40 * GIB - 16_000_000_000)
    unknown = engine_memory(SHAPE, EngineSettings(), device_bytes=None)
    assert unknown.kv_cache is None and unknown.full_sequences(3072) is None
    spread = engine_memory(SHAPE, EngineSettings(vllm={"tensor_parallel_size": 4}), device_bytes=None)
    assert spread.weights == 4_000_000_000


def fit(recipe: Recipe, ranks: int, device_gib: float) -> list[str]:
    step = step_plan(recipe, ranks)
    plan = device_plan(recipe, SHAPE, step, ranks, int(device_gib * GIB))
    return [*misfits(plan, recipe, step, ranks), *tight(plan)]


def test_eight_devices_of_80_gib_fit_and_fewer_or_smaller_ones_do_not():
    recipe = make_recipe(learner={"gradient_checkpointing": True}, engine={"gpu_memory_utilization": 0.7})
    assert fit(recipe, 8, 80) == []
    (states,) = fit(recipe, 1, 80)
    assert states.startswith(
        "the learner's states alone need 120.1 of 80 GiB of the device: use more devices"
    )
    (sampling,) = fit(
        make_recipe(learner={"gradient_checkpointing": True}, engine={"gpu_memory_utilization": 0.9}), 8, 80
    )
    assert sampling.startswith(
        "sampling needs 87.8 of 80 GiB of the device: lower engine.gpu_memory_utilization"
    )


def test_a_device_share_that_the_weights_fill_leaves_no_room_for_a_sequence():
    recipe = make_recipe(learner={"gradient_checkpointing": True}, engine={"gpu_memory_utilization": 0.44})
    (cache,) = fit(recipe, 8, 34)  # 14.96 GiB less 14.90 of weights; a sequence needs 0.16
    assert cache.startswith("the engine's KV cache holds no whole sequence of 3072 tokens: raise ")


def test_an_update_that_does_not_fit_names_gradient_checkpointing():
    (update,) = fit(make_recipe(learner={"gradient_checkpointing": False}), 8, 80)
    assert update.startswith("an update needs ") and "learner.gradient_checkpointing=true" in update
    awake = make_recipe(
        learner={"gradient_checkpointing": True}, engine={"sleep": False, "gpu_memory_utilization": 0.75}
    )
    assert "an update needs 86.0 of 80 GiB of the device: set engine.sleep=true" in fit(awake, 8, 80)


def test_little_to_spare_is_said():
    recipe = make_recipe(learner={"gradient_checkpointing": True}, engine={"gpu_memory_utilization": 0.79})
    (note,) = fit(recipe, 8, 80)
    assert note.startswith("sampling leaves 1.0 GiB of the device")


def test_tensor_parallel_engines_have_to_divide_devices_and_heads():
    recipe = make_recipe(
        learner={"gradient_checkpointing": True},
        engine={"vllm": {"tensor_parallel_size": 3}, "gpu_memory_utilization": 0.7},
    )
    (devices,) = fit(recipe, 8, 80)
    assert devices == "engine.vllm.tensor_parallel_size = 3 does not divide 8 devices: use a multiple of it"
    (heads,) = problems(recipe, SHAPE)
    assert "3 does not divide the model's 28 attention heads" in heads


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"data": {"path": "./nowhere.jsonl"}},
            "data.path = './nowhere.jsonl': there is no such file or folder",
        ),
        ({"data": {"path": "prepared:nothing/train.jsonl"}}, "data.path: 'prepared:nothing' is unknown"),
        ({"sampling": {"max_response_tokens": 3073}}, "4097 is more than the 4096 positions of the model"),
        (
            {"engine": {"kv_cache_gib": 0.1}},
            "engine.kv_cache_gib = 0.1 holds no whole sequence of 3072 tokens",
        ),
        ({"learner": {"attention": "flash_attention_2", "dtype": "float32"}}, "works in bfloat16 only"),
        ({"learner": {"zero_stage": 2, "offload_parameters": "cpu"}}, "needs learner.zero_stage = 3, not 2"),
        (
            {"learner": {"zero_stage": 0, "offload_optimizer": "cpu"}},
            "needs learner.zero_stage = 1 or more, not 0",
        ),
    ],
)
def test_what_would_fail_anywhere_is_a_problem(changes, sentence):
    (found,) = problems(make_recipe(**changes), SHAPE)
    assert sentence in found


def test_a_sound_recipe_has_neither_problems_nor_warnings():
    assert list(problems(make_recipe(), SHAPE)) == []
    assert list(warnings(make_recipe(), ranks=8)) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"engine": {"dtype": "float16"}}, "engine.dtype = float16 and learner.dtype = bfloat16 differ"),
        ({"engine": {"seed_requests": False}}, "two runs with the same seed will draw different samples"),
        ({"learner": {"max_tokens_per_microbatch": 2048}}, "2048 is less than one sequence of 3072 tokens"),
        (
            {"data": {"prompts_per_step": 4}, "algorithm": {"updates_per_step": 1}},
            "data.prompts_per_step = 4 is less than the 8 ranks",
        ),
    ],
)
def test_what_is_allowed_and_hardly_meant_is_said(changes, sentence):
    (found,) = warnings(make_recipe(**changes), ranks=8)
    assert sentence in found


def test_a_model_is_described_by_its_folder_or_by_the_recipe_or_not_at_all(tmp_path: Path):
    AutoConfig.for_model(
        "llama",
        vocab_size=10,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
    ).save_pretrained(tmp_path)
    shape, source = model_shape(ModelSettings(path=str(tmp_path)))
    assert shape is not None and source == str(tmp_path / "config.json")
    # embeddings and head 2 x 80, attention 4 x 64, MLP 3 x 128, three norms of 8
    assert shape.parameters == 160 + 256 + 384 + 24
    assert model_shape(ModelSettings(path="some/model")) == (
        None,
        "not a local folder, and the recipe has no model.architecture",
    )


@pytest.mark.parametrize(
    ("path", "architecture", "sentence"),
    [
        ("some/model", {"model_type": "llama", "hidden_size": 8}, "model.architecture lacks vocab_size, "),
        ("/no/such/folder", None, "model.path = '/no/such/folder': there is no such folder"),
        ("prepared:nothing/model", None, "model.path: 'prepared:nothing' is unknown"),
    ],
)
def test_a_description_that_cannot_be_used_is_one_sentence(path, architecture, sentence):
    with pytest.raises(UserError) as caught:
        model_shape(ModelSettings(path=path, architecture=architecture))
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


@pytest.mark.parametrize("strategy", get_args(SamplingSettings.model_fields["strategy"].annotation))
def test_every_strategy_of_the_schema_has_a_plan(strategy):
    assert step_plan(make_recipe(sampling={"strategy": strategy}), ranks=8).least_samples > 0
