"""What a rank needs of memory, as formulas. Numbers in, bytes out; nothing here loads or asks anything.

Symbols: P parameters, R ranks, b bytes a number of the learner's dtype, T tokens of a microbatch, W the longest
sequence, h hidden size, q and k the width of all query and of all key heads, i intermediate size, a query heads.

The DeepSpeed parts were read in the sources of DeepSpeed 0.19 (runtime/zero/stage3.py, stage_1_and_2.py and
engine.py), the tensors that a layer saves counted in transformers 5.19; tests/test_plan.py counts them again.
Not counted: the CUDA context, NCCL's buffers, fragmentation, and the working memory of vLLM's kernels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adarl.config import EngineSettings, LearnerSettings

GIB = 1 << 30
DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
MASTER_BYTES = 4  # of one number of the float32 copy of the weights, and of each of Adam's two moments

# DeepSpeed's defaults, in numbers (not bytes); `learner.deepspeed.zero_optimization` overrides them.
ZERO_DEFAULTS = {
    "reduce_bucket_size": 500_000_000,
    "sub_group_size": 1_000_000_000,
    "stage3_max_live_parameters": 1_000_000_000,
}

LOGIT_COPIES = (
    6  # float32 copies of a chunk's logits alive in the backward pass: 5.6 seen in bfloat16, 4.6 in float32
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a dense decoder that memory depends on; `parameters` counts tied embeddings once."""

    parameters: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_positions: int
    has_qk_norm: bool
    adapters: int = 0  # parameters of LoRA's adapters, which alone are trained; 0: all are


@dataclass(frozen=True, slots=True)
class LearnerMemory:
    """Bytes of one rank's learner: on its device, except `host`."""

    weights: int
    gradients: int
    optimizer: int
    reduce_bucket: int
    gathered: int
    activations: int
    logits: int
    step_buffers: int
    host: int

    @property
    def resident(self) -> int:
        """What stays on the device while the engine samples."""
        return self.weights + self.gradients + self.optimizer + self.reduce_bucket

    @property
    def transient(self) -> int:
        """What comes on top in an update: the backward pass, or the optimizer step after it."""
        return max(self.gathered + self.activations + self.logits, self.step_buffers)


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes of one rank's engine; `kv_cache` is None where it depends on a device of unknown size."""

    weights: int
    kv_cache: int | None
    kv_bytes_per_token: int

    def full_sequences(self, tokens: int) -> int | None:
        """Sequences of that many tokens that the KV cache holds at once."""
        return None if self.kv_cache is None else self.kv_cache // (self.kv_bytes_per_token * tokens)


def layer_bytes_per_token(shape: ModelShape, dtype: str, attention: str, longest: int) -> int:
    """Bytes that one decoder layer saves for its backward pass, a token.

    Two RMSNorms      2 (4 h + 4) + 2 b h   float32 input, its inverse root, normalised input
    their outputs     2 b h                 inputs of the linear maps
    QK norm, if any   (4 + b)(q + k) + 4 (a + heads of k)
    attention, sdpa   4 b q + 4 a + b W     query, repeated keys and values, output; log-sum; a row of the mask
    attention, flash  2 b q + 2 b k + 4 a   keys and values are not repeated, and there is no mask
    SwiGLU            4 b i                 gate, its SiLU, up, their product

    Korthikanti et al., arXiv:2205.05198, count a GPT layer in the same way.
    """
    b, h = DTYPE_BYTES[dtype], shape.hidden_size
    q, k = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    norms = 2 * (4 * h + 4) + 2 * b * h + 2 * b * h
    qk_norm = (4 + b) * (q + k) + 4 * (shape.num_heads + shape.num_kv_heads) if shape.has_qk_norm else 0
    kernel = 4 * b * q + b * longest if attention == "sdpa" else 2 * b * (q + k)
    return norms + qk_norm + kernel + 4 * shape.num_heads + 4 * b * shape.intermediate_size


def activation_bytes(
    shape: ModelShape, tokens: int, longest: int, dtype: str, attention: str, checkpointing: bool
) -> int:
    """Bytes of a microbatch's activations at the end of its forward pass.

    Without gradient checkpointing  T L s
    with it                         T (L b h + s)     each layer's input, and one layer computed again

    L layers, s = `layer_bytes_per_token`.
    """
    saved = layer_bytes_per_token(shape, dtype, attention, longest)
    if not checkpointing:
        return tokens * shape.num_layers * saved
    return tokens * (shape.num_layers * DTYPE_BYTES[dtype] * shape.hidden_size + saved)


def logits_bytes(vocab_size: int, tokens: int, max_chunk_logits: int) -> int:
    """Bytes of the logits alive at a time: LOGIT_COPIES x 4 x V x min(T, tokens of a chunk)."""
    chunk = max(1, max_chunk_logits // vocab_size)
    return LOGIT_COPIES * 4 * vocab_size * min(tokens, chunk)


def kv_bytes_per_token(shape: ModelShape, dtype: str, tensor_parallel: int = 1) -> int:
    """Bytes of keys and values of one token on one device: 2 L k b / tensor-parallel devices."""
    heads = -(-shape.num_kv_heads // tensor_parallel)
    return 2 * shape.num_layers * heads * shape.head_dim * DTYPE_BYTES[dtype]


def learner_memory(
    shape: ModelShape,
    settings: LearnerSettings,
    *,
    ranks: int,
    tokens: int,
    longest: int,
    max_chunk_logits: int,
) -> LearnerMemory:
    """Bytes of one rank's learner.

    weights       b P, over R from ZeRO stage 3 on
    gradients     b P, over R from stage 2 on
    optimizer     8 P of Adam's moments, and 4 P of float32 weights unless the weights themselves are that copy
                  (float32 in stages 0 and 3); over R from stage 1 on
    reduce bucket b x min(P, reduce_bucket_size): what gradients are collected in (CUDA reserves it whole: up to
                  2 GiB more for a model of less than reduce_bucket_size)
    gathered      b x min(P, stage3_max_live_parameters): layers put together from all ranks (stage 3)
    optimizer step 8 x min(P of this rank, sub_group_size): float32 gradients, and torch's AdamW once more

    With an offloaded optimizer the optimizer's states live in the host's memory, with offloaded parameters the
    weights do; ZeRO-3 keeps the gradients where the optimizer is. With LoRA P counts the adapters alone, but for the
    weights and the gathered layers.

    Args:
        tokens: T, of the largest microbatch.
        longest: W, tokens of the longest sequence.
    """
    b, stage = DTYPE_BYTES[settings.dtype], settings.zero_stage
    whole, trained = shape.parameters + shape.adapters, shape.adapters or shape.parameters
    part, trained_part = -(-whole // ranks), -(-trained // ranks)
    zero = ZERO_DEFAULTS | _integers(settings.deepspeed.get("zero_optimization", {}))
    weights = b * (part if stage == 3 else whole)
    gradients = b * (trained_part if stage >= 2 else trained)
    has_master = settings.dtype != "float32" or stage in (1, 2)
    owned = trained_part if stage >= 1 else trained
    optimizer = (2 + has_master) * MASTER_BYTES * owned
    gathers = stage == 3 and (ranks > 1 or settings.offload_parameters == "cpu")
    host = 0
    step_buffers = 2 * MASTER_BYTES * (min(owned, zero["sub_group_size"]) if stage == 3 else owned)
    if settings.offload_optimizer == "cpu" and stage >= 1:
        moved = optimizer + (gradients if stage == 3 else 0)
        host, optimizer, step_buffers = host + moved, 0, 0
        gradients = 0 if stage == 3 else gradients
    if settings.offload_parameters == "cpu" and stage == 3:
        host, weights = host + weights, 0
    return LearnerMemory(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        reduce_bucket=b * min(trained, zero["reduce_bucket_size"]) if stage >= 1 else 0,
        gathered=b * min(whole, zero["stage3_max_live_parameters"]) if gathers else 0,
        activations=activation_bytes(
            shape, tokens, longest, settings.dtype, settings.attention, settings.gradient_checkpointing
        ),
        logits=logits_bytes(shape.vocab_size, tokens, max_chunk_logits),
        step_buffers=step_buffers,
        host=host,
    )


def engine_memory(shape: ModelShape, settings: EngineSettings, device_bytes: int | None) -> EngineMemory:
    """Bytes of one rank's engine: its own copy of the weights, and a KV cache.

    The cache is `kv_cache_gib` where that is set, else what gpu_memory_utilization x device leaves beside the
    weights (a little less in truth: vLLM takes the working memory of its kernels off too).
    """
    tensor_parallel = tensor_parallel_size(settings)
    weights = DTYPE_BYTES[settings.dtype] * shape.parameters // tensor_parallel
    kv_cache = None
    if settings.kv_cache_gib is not None:
        kv_cache = int(settings.kv_cache_gib * GIB)
    elif device_bytes is not None:
        kv_cache = max(0, int(settings.gpu_memory_utilization * device_bytes) - weights)
    return EngineMemory(weights, kv_cache, kv_bytes_per_token(shape, settings.dtype, tensor_parallel))


def tensor_parallel_size(settings: EngineSettings) -> int:
    """Neighbouring ranks that one engine spans."""
    return int(settings.vllm.get("tensor_parallel_size", 1))


def _integers(config: Mapping[str, Any]) -> dict[str, int]:
    return {key: int(config[key]) for key in ZERO_DEFAULTS if key in config}
