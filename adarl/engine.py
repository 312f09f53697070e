"""The generation side: vLLM in the rank's own process, fed and drained between decoding steps.

A sample that may decide on a next round is a request of its own to vLLM, so that it comes back when it
ends and not with the longest of its round. The samples are the same either way: n samples of one vLLM
request with seed s are n requests with seeds s, s + 1, ...

Calls of vLLM that were seen to work on CPU and CUDA, and why others were not taken, are in DESIGN.md.
"""

import difflib
import os
from collections.abc import Iterator
from copy import copy
from dataclasses import fields
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the engine core in this process
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import torch
from vllm import LLM, EngineArgs, SamplingParams
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.sampling_params import RequestOutputKind

from adarl.config import EngineSettings
from adarl.errors import UserError
from adarl.sampling import SampleRequest
from adarl.types import Sample

GIB = 1 << 30
CPU_BLOCK_SIZE = 32
"""Tokens of a KV block on a CPU. Only whole blocks are shared between samples of a prompt and between prompts that
start alike, and vLLM's own 128 is longer than most prompts; 32 is the least that its kernels are made for."""


def check_engine(settings: EngineSettings) -> None:
    """Whether vLLM knows the arguments that `engine.vllm` adds, before any model is loaded.

    Raises:
        UserError: it does not.
    """
    known = [field.name for field in fields(EngineArgs)]
    for key in settings.vllm.keys() - set(known):
        close = difflib.get_close_matches(key, known, n=1)
        hint = f": did you mean {close[0]!r}?" if close else ""
        raise UserError(f"engine.vllm.{key}: vLLM has no such argument{hint}")


class VllmEngine:
    """vLLM as a stream of samples: submit requests at any time, poll one decoding step at a time.

    Args:
        model_path: local folder or hub id of the base model; later weights come by `load_weights`.
        settings: the recipe's `engine:` section.
        max_prompt_tokens, max_response_tokens: bounds of one sequence.
        temperature: of sampling; the log-probabilities are those of softmax(logits / temperature).
        seed: of vLLM itself; requests carry their own where `settings.seed_requests` says so.
        distributed: the process group exists and the engine joins it (several ranks).
        logprobs: return the log-probabilities, which training needs; without them decoding is quicker.

    Raises:
        UserError: vLLM does not take the model or the settings.
    """

    def __init__(
        self,
        model_path: str,
        settings: EngineSettings,
        *,
        revision: str | None = None,
        max_prompt_tokens: int,
        max_response_tokens: int,
        temperature: float,
        seed: int,
        distributed: bool,
        logprobs: bool = True,
    ):
        on_cuda = torch.cuda.is_available()
        self._sleeps = settings.sleep and on_cuda  # sleep mode needs CUDA's virtual memory
        self._seed_requests = settings.seed_requests
        self._places: dict[str, tuple[SampleRequest, int]] = {}  # by vLLM's request id: its first sample
        self._params = SamplingParams(
            temperature=temperature,
            max_tokens=max_response_tokens,
            logprobs=0 if logprobs else None,  # 0: of the sampled token alone
            flat_logprobs=logprobs,
            detokenize=False,  # whole responses are decoded once, not token by token
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,  # each request brings its own copy; vLLM's deep one costs as much as the rest of a request
        )
        memory: dict[str, Any] = {"gpu_memory_utilization": settings.gpu_memory_utilization}
        if settings.kv_cache_gib is not None:
            memory = {"kv_cache_memory_bytes": int(settings.kv_cache_gib * GIB)}
        elif not on_cuda:
            memory = {"kv_cache_memory_bytes": GIB}  # left to itself it takes most of the host's memory
        try:
            self.llm = LLM(
                model_path,
                revision=revision,
                dtype=settings.dtype,
                seed=seed,
                max_model_len=max_prompt_tokens + max_response_tokens,
                max_num_seqs=settings.max_num_seqs,
                enforce_eager=settings.enforce_eager or not on_cuda,
                logprobs_mode="processed_logprobs"
                if logprobs
                else "raw_logprobs",  # raw: not computed where none are asked
                enable_sleep_mode=self._sleeps,
                # On CPU a seeded request whose prompt is cut in two fails ("CPU Generator does not use offset").
                enable_chunked_prefill=on_cuda or not settings.seed_requests,
                use_tqdm_on_load=False,
                generation_config="vllm",  # sampling follows the recipe, not defaults shipped with the model
                distributed_executor_backend="external_launcher" if distributed else "uni",
                **memory,
                **({} if on_cuda else {"block_size": CPU_BLOCK_SIZE}) | settings.vllm,
            )
        except (TypeError, ValueError, AssertionError, NotImplementedError, OSError) as error:
            changed = settings.model_dump(exclude_defaults=True)
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"vLLM does not start with {model_path} and engine settings {changed}: {reason}"
            ) from error
        self._core = self.llm.llm_engine
        self._tokenizer = self.llm.get_tokenizer()

    def submit(self, request: SampleRequest) -> None:
        """Queue the samples of a request: together where no round can follow, else each by itself."""
        prompt = {"prompt_token_ids": list(request.prompt.token_ids)}
        together = len(request.indices) if request.is_last else 1
        for place in range(0, len(request.indices), together):
            params = copy(self._params)
            params.n = together
            params.seed = request.seed + place if self._seed_requests else None
            request_id = "/".join(map(str, (*request.key, place)))
            self._places[request_id] = request, place
            self._core.add_request(request_id, prompt, params)

    def poll(self) -> list[tuple[SampleRequest, tuple[Sample, ...]]]:
        """Decode one step; return the samples that ended, by request. Does nothing when nothing is queued."""
        if not self._places:
            return []
        ended: dict[tuple[Any, ...], tuple[SampleRequest, list[tuple[int, Any]]]] = {}
        for output in self._core.step():
            if output.finished:
                request, first = self._places.pop(output.request_id)
                ended.setdefault(request.key, (request, []))[1].extend(enumerate(output.outputs, first))
        return [(request, self._samples(request, outputs)) for request, outputs in ended.values()]

    @property
    def num_unfinished(self) -> int:
        """Requests of vLLM that are queued or being decoded."""
        return len(self._places)

    def sleep(self) -> None:
        """Give the device memory of weights and KV cache to the learner; they are not kept."""
        if self._sleeps:
            self.llm.sleep(level=2)

    def load_weights(self, weights: Iterator[tuple[str, Any]]) -> None:
        """Take new weights in as they come, and forget what was computed with the old ones."""
        if self._sleeps:
            self.llm.wake_up(tags=["weights"])
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        self.llm.apply_model(_repack_tied_head)
        if self._sleeps:
            self.llm.wake_up(tags=["kv_cache"])
        self.llm.reset_prefix_cache()

    def shutdown(self) -> None:
        """The last collective thing a rank does: vLLM destroys the default process group with it."""
        self._core.engine_core.shutdown()

    def _samples(self, request: SampleRequest, outputs: list[tuple[int, Any]]) -> tuple[Sample, ...]:
        texts = self._tokenizer.batch_decode(
            [output.token_ids for _, output in outputs],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return tuple(
            Sample(
                prompt_id=request.prompt.id,
                round=request.round,
                index=request.indices[place],
                text=text,
                token_ids=tuple(output.token_ids),
                engine_logprobs=tuple(output.logprobs.logprobs) if output.logprobs is not None else (),
                truncated=output.finish_reason == "length",
            )
            for text, (place, output) in zip(texts, outputs, strict=True)
        )


def _repack_tied_head(model: torch.nn.Module) -> None:
    """Bring the output head up to date where it shares its weight with the input embedding.

    On CPU vLLM multiplies by a packed copy of the weight. Reloading packs what it loads, and a tied head
    is not loaded: without this it would go on with the base model's copy (seen in vLLM 0.32: the
    engine-learner gap in float32 grew from 1e-6 to 7e-4 within four steps).
    """
    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)
