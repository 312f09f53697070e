"""What a recipe will do and need, worked out before anything is loaded. Dataclasses in, numbers out."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adarl.architecture import looks_local
from adarl.batch import partition
from adarl.config import Recipe
from adarl.memory import (
    GIB,
    EngineMemory,
    LearnerMemory,
    ModelShape,
    engine_memory,
    learner_memory,
    tensor_parallel_size,
)
from adarl.policy import MAX_CHUNK_LOGITS
from adarl.prepared import PREFIX, locate
from adarl.prompts import LOADERS

LEFT_FOR_LIBRARIES = 2 * GIB  # CUDA context, NCCL, fragmentation: rule of thumb, below it we speak up


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One turn of the loop. Samples and tokens over all ranks, microbatches of one rank."""

    prompts: int
    least_samples: int
    most_samples: int
    most_tokens: int
    updates: int
    sequences_per_update: int
    microbatches: int
    microbatch_tokens: int
    longest: int


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """Memory of one rank in its two phases. `device_bytes` is None where nobody said how much there is."""

    learner: LearnerMemory
    engine: EngineMemory
    engine_sleeps: bool
    device_bytes: int | None

    @property
    def sampling(self) -> int | None:
        """Bytes while the engine decodes: the learner's states, the engine's weights and its KV cache."""
        if self.engine.kv_cache is None:
            return None
        return self.learner.resident + self.engine.weights + self.engine.kv_cache

    @property
    def learning(self) -> int | None:
        """Bytes during an update: the learner, and the engine too unless it sleeps."""
        learner = self.learner.resident + self.learner.transient
        if self.engine_sleeps:
            return learner
        return None if self.engine.kv_cache is None else learner + self.engine.weights + self.engine.kv_cache


def step_plan(recipe: Recipe, ranks: int) -> StepPlan:
    """Counts of one step.

    Samples: what the strategy must and may draw. Tokens at most: every sample at the length limit.

    Microbatches are an estimate: the batch builder's own partition, with every prompt and response at half of its
    limit, one response at the whole limit (which decides how wide the rows are), and no group without signal.
    """
    sampling, prompts = recipe.sampling, recipe.data.prompts_per_step
    longest = recipe.data.max_prompt_tokens + sampling.max_response_tokens
    updates = recipe.algorithm.updates_per_step
    sequences = -(-prompts // updates) * sampling.group_size
    max_tokens, varlen = (
        recipe.learner.max_tokens_per_microbatch,
        recipe.learner.attention == "flash_attention_2",
    )
    lengths = [max(1, longest // 2)] * sequences
    row_tokens = max_tokens if varlen else longest
    parts = partition(
        lengths, ranks, max_tokens, row_tokens, hidden_size=1024
    )  # equal lengths: no matter which
    return StepPlan(
        prompts=prompts,
        least_samples=prompts * sampling.min_samples,
        most_samples=prompts * sampling.max_samples,
        most_tokens=prompts * sampling.max_samples * sampling.max_response_tokens,
        updates=updates,
        sequences_per_update=sequences,
        microbatches=len(parts[0]),
        microbatch_tokens=max(max_tokens, longest),  # a longer sequence travels alone
        longest=longest,
    )


def device_plan(
    recipe: Recipe, shape: ModelShape, step: StepPlan, ranks: int, device_bytes: int | None
) -> DevicePlan:
    """Memory of one rank; see memory.py for the formulas."""
    learner = learner_memory(
        shape,
        recipe.learner,
        ranks=ranks,
        tokens=step.microbatch_tokens,
        longest=step.longest,
        max_chunk_logits=MAX_CHUNK_LOGITS,
    )
    engine = engine_memory(shape, recipe.engine, device_bytes)
    return DevicePlan(learner, engine, recipe.engine.sleep, device_bytes)


def problems(recipe: Recipe, shape: ModelShape | None) -> Iterator[str]:
    """What makes the recipe fail on any machine, beyond what its schema says; one sentence each."""
    data, learner = recipe.data.path, recipe.learner
    if data.startswith(PREFIX):
        try:
            locate(data, build=False)
        except ValueError as error:
            yield f"data.path: {error}"
    elif (looks_local(data) or Path(data).suffix in LOADERS) and not Path(data).expanduser().exists():
        yield f"data.path = {data!r}: there is no such file or folder"
    if learner.attention == "flash_attention_2" and learner.dtype == "float32":
        yield "learner.attention = flash_attention_2 works in bfloat16 only: set learner.dtype or take sdpa"
    if learner.offload_parameters == "cpu" and learner.zero_stage != 3:
        yield f"learner.offload_parameters = cpu needs learner.zero_stage = 3, not {learner.zero_stage}"
    if learner.offload_optimizer == "cpu" and learner.zero_stage == 0:
        yield "learner.offload_optimizer = cpu needs learner.zero_stage = 1 or more, not 0"
    if shape is None:
        return
    longest = recipe.data.max_prompt_tokens + recipe.sampling.max_response_tokens
    if longest > shape.max_positions:
        yield (
            f"data.max_prompt_tokens + sampling.max_response_tokens = {longest} is more than the {shape.max_positions} "
            "positions of the model, and vLLM will not start: lower one of them"
        )
    tensor_parallel = tensor_parallel_size(recipe.engine)
    if shape.num_heads % tensor_parallel:
        yield (
            f"engine.vllm.tensor_parallel_size = {tensor_parallel} does not divide the model's {shape.num_heads} "
            "attention heads: choose a divisor"
        )
    held = engine_memory(shape, recipe.engine, device_bytes=None).full_sequences(longest)
    if held == 0:
        yield (
            f"engine.kv_cache_gib = {recipe.engine.kv_cache_gib} holds no whole sequence of {longest} tokens, and vLLM "
            "will not start: raise it, or lower sampling.max_response_tokens"
        )


def warnings(recipe: Recipe, ranks: int) -> Iterator[str]:
    """What is allowed, and probably not meant; one sentence each."""
    longest = recipe.data.max_prompt_tokens + recipe.sampling.max_response_tokens
    learner, engine = recipe.learner, recipe.engine
    if engine.dtype != learner.dtype:
        yield (
            f"engine.dtype = {engine.dtype} and learner.dtype = {learner.dtype} differ: the gap between their "
            "log-probabilities will be as large as the coarser one's rounding"
        )
    if not engine.seed_requests:
        yield "engine.seed_requests = false: two runs with the same seed will draw different samples"
    if learner.max_tokens_per_microbatch < longest:
        yield (
            f"learner.max_tokens_per_microbatch = {learner.max_tokens_per_microbatch} is less than one sequence of "
            f"{longest} tokens: longer ones travel alone and need more memory than this bound says"
        )
    if recipe.data.prompts_per_step < ranks:
        yield (
            f"data.prompts_per_step = {recipe.data.prompts_per_step} is less than the {ranks} ranks: some will not "
            "sample; raise it or use fewer devices"
        )


def misfits(plan: DevicePlan, recipe: Recipe, step: StepPlan, ranks: int) -> Iterator[str]:
    """What this machine cannot do, with the key to change; one sentence each."""
    tensor_parallel = tensor_parallel_size(recipe.engine)
    if ranks % tensor_parallel:
        yield (
            f"engine.vllm.tensor_parallel_size = {tensor_parallel} does not divide {ranks} devices: "
            "use a multiple of it"
        )
    if plan.device_bytes is None:
        return
    size, learner = f"{plan.device_bytes / GIB:.4g} GiB of the device", plan.learner
    if learner.resident > plan.device_bytes:
        yield (
            f"the learner's states alone need {learner.resident / GIB:.1f} of {size}: use more devices with "
            "learner.zero_stage=3, or learner.offload_optimizer=cpu"
        )
        return  # the rest follows from it
    if plan.engine.full_sequences(step.longest) == 0:
        yield (
            f"the engine's KV cache holds no whole sequence of {step.longest} tokens: raise "
            "engine.gpu_memory_utilization, or engine.vllm.tensor_parallel_size on several devices"
        )
    for phase, needed, fix in (
        ("sampling", plan.sampling, _sampling_fix(recipe)),
        ("an update", plan.learning, _learning_fix(recipe, plan)),
    ):
        if needed is not None and needed > plan.device_bytes:
            yield f"{phase} needs {needed / GIB:.1f} of {size}: {fix}"


def tight(plan: DevicePlan) -> Iterator[str]:
    """Phases that fit, with less to spare than the libraries themselves usually take."""
    for phase, needed in (("sampling", plan.sampling), ("an update", plan.learning)):
        if plan.device_bytes is None or needed is None:
            continue
        left = plan.device_bytes - needed
        if 0 <= left < LEFT_FOR_LIBRARIES:
            yield (
                f"{phase} leaves {left / GIB:.1f} GiB of the device for the CUDA context, NCCL and fragmentation, "
                "which often take 2"
            )


def _sampling_fix(recipe: Recipe) -> str:
    key = "engine.gpu_memory_utilization" if recipe.engine.kv_cache_gib is None else "engine.kv_cache_gib"
    return f"lower {key}, or set learner.offload_optimizer=cpu"


def _learning_fix(recipe: Recipe, plan: DevicePlan) -> str:
    if not plan.engine_sleeps:
        return "set engine.sleep=true"
    backward_is_peak = plan.learner.transient > plan.learner.step_buffers
    if backward_is_peak and not recipe.learner.gradient_checkpointing:
        return "set learner.gradient_checkpointing=true, or lower learner.max_tokens_per_microbatch"
    if backward_is_peak:
        return "lower learner.max_tokens_per_microbatch, or set learner.offload_optimizer=cpu"
    return "use more devices, or set learner.offload_optimizer=cpu"
