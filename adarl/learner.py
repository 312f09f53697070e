"""The training side: the policy under DeepSpeed ZeRO-3.

Where the line to the libraries runs: DeepSpeed partitions parameters while they load, shards
gradients and optimizer, clips, and writes the sharded checkpoint. accelerate starts the process
group and places the process, prepares model and optimizer for DeepSpeed, seeds, gathers objects and
numbers over the ranks, and saves and restores state with every random generator. What is ours: which
microbatches there are, the loss over them, and when an update ends.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from adarl import learner_state, lora
from adarl.batch import (
    Microbatch,
    TrainSequence,
    UpdateBatch,
    pack,
    split_updates,
    train_sequence,
    train_sequences,
)
from adarl.config import LearnerSettings
from adarl.export import ADAPTER
from adarl.gradient_norms import embedding_norms
from adarl.kernels import apply_liger
from adarl.loss import LossSettings, denominator, policy_loss
from adarl.policy import Policy
from adarl.ranks import AllRanks
from adarl.types import Group, Prompt, Sample
from adarl.weights import MIB, Source, gathered


class Learner(AllRanks):
    """The policy, its optimizer and its counter.

    Args:
        accelerator: of `start_ranks`.
        model_path: local folder or hub id.
        settings: the recipe's `learner:` section.
        loss: the objective.
        updates_per_step: optimizer steps a turn of the loop; with one, old log-probabilities are the
            current ones and no separate forward pass is made.
        temperature: of sampling.
        seed: of whatever randomness the libraries have.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        model_path: str,
        settings: LearnerSettings,
        loss: LossSettings,
        *,
        updates_per_step: int,
        temperature: float,
        seed: int,
        revision: str | None = None,
    ):
        super().__init__(accelerator)
        self._accelerator = accelerator
        set_seed(seed)
        self._settings, self._loss = settings, loss
        self._updates_per_step = updates_per_step
        self._model_path, self._revision = model_path, revision
        self.policy_version = 0
        self.bad_updates_in_a_row = 0  # without a finite gradient
        # The plugin keeps transformers' HfDeepSpeedConfig alive: from_pretrained partitions while loading.
        model = AutoModelForCausalLM.from_pretrained(
            model_path,
            revision=revision,
            dtype=getattr(torch, settings.dtype),
            attn_implementation=settings.attention,
        )
        if settings.liger:
            apply_liger(model)
        self._lora = None
        if settings.lora is not None:
            self._lora = lora.add_adapters(model, settings.lora, model_path)
        if settings.gradient_checkpointing:
            if self._lora is not None:
                model.enable_input_require_grads()  # re-entrant checkpoints give a gradient to no frozen layer
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
        self._hidden_size = model.config.hidden_size
        policy = Policy(model, temperature)
        optimizer = torch.optim.AdamW(
            [p for p in policy.parameters() if p.requires_grad],
            lr=settings.lr,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
        )
        warmup = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda update: min(1.0, (update + 1) / max(1, settings.warmup_updates))
        )
        self._engine, _, self._scheduler = self._accelerator.prepare(policy, optimizer, warmup)
        self._engine.train()

    def update(self, groups: Sequence[Group], seed: int) -> dict[str, float]:
        """Line 21 of Algorithm 1: train on the groups of all ranks.

        Args:
            groups: this rank's groups.
            seed: names the order of the groups, the same on every rank.

        Returns:
            The step's means over applied updates and over ranks, the same on every rank.
        """
        sequences: list[TrainSequence] = self.gather([s for group in groups for s in train_sequences(group)])
        parts = split_updates(sequences, self._updates_per_step, seed)
        batches = [self.pack(part) for part in parts]
        start = time.perf_counter()
        old = [None] if len(batches) == 1 else [self._old_logprobs(batch) for batch in batches]
        seconds = time.perf_counter() - start
        rows = [self.one_update(batch, logprobs) for batch, logprobs in zip(batches, old, strict=True)]
        applied = [row for row in rows if row]
        metrics: dict[str, float] = {
            "update/updates": len(rows),
            "update/skipped": len(rows) - len(applied),
            "update/sequences": len(sequences),
            "time/old_logprobs": round(seconds, 4),
        }
        for key in applied[0] if applied else ():
            metrics[key] = sum(row[key] for row in applied) / len(applied)
        return metrics

    def gradient_norms(self, samples: Sequence[tuple[Prompt, Sample]]) -> list[float]:
        """Norms of the gradient of log pi(response) with respect to the input embeddings (GVM-RAFT, arXiv 2505.02391).

        All ranks together, each with its own samples: they share the work, with as many passes on each. No
        parameter gets a gradient. Needs the memory of a microbatch's forward and backward pass beside the engine.
        """
        names = [f"{self.rank}/{i}" for i in range(len(samples))]
        sequences: list[TrainSequence] = self.gather(
            [
                train_sequence(name, *pair)
                for name, pair in zip(names, samples, strict=True)
                if pair[1].token_ids
            ]
        )
        mine: list[tuple[str, float]] = []
        if sequences:
            mine = embedding_norms(
                self._engine.module.model, self.pack(sequences).microbatches, self._forward
            )
        norms = dict(self.gather(mine))
        return [norms.get(name, 0.0) for name in names]

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Gathered (name, tensor) pairs, a bucket at a time; names are those of the hub's checkpoint.

        A tensor is whole only until the next one is asked for. Adapters are merged into what they belong to.
        """
        model = self._engine.module.model
        if self._lora is None:
            sources: Iterator[Source] = (
                Source(name, (parameter,)) for name, parameter in model.named_parameters()
            )
        else:
            sources = lora.sources(model, self._lora)
        yield from gathered(sources, self._settings.sync_bucket_mib * MIB)

    def save(self, folder: Path, on_each_node: bool = False) -> None:
        """Write sharded weights, optimizer, schedule and random generators; see `learner_state.save`."""
        learner_state.save(self._accelerator, self._engine, folder, on_each_node)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote, see `learner_state.load`."""
        learner_state.load(self._accelerator, folder)

    def export(self, folder: Path) -> None:
        """Write the policy as a Hugging Face model with its tokenizer; rank 0 writes, all ranks take part.

        With LoRA it is the merged model, and the adapters stand beside it in `adapter/`.
        """
        model = self._engine.module.model
        state = self._on_rank_0(self.weights())
        if self.rank == 0:
            model.save_pretrained(folder, state_dict=state)
            self.tokenizer.save_pretrained(folder)
        if self._lora is not None:
            state = self._on_rank_0(gathered(lora.adapters(model), self._settings.sync_bucket_mib * MIB))
            if self.rank == 0:
                lora.save_adapters(state, self._lora, folder / ADAPTER)

    def _on_rank_0(self, named: Iterator[tuple[str, Tensor]]) -> dict[str, Tensor]:
        """Copies in the host's memory on rank 0, nothing on the others."""
        state = {}
        for name, tensor in named:
            if self.rank == 0:
                state[name] = tensor.detach().to("cpu", copy=True)
        return state

    def write_model_files(self, folder: Path) -> None:
        """Write what belongs to a Hugging Face model beside its weights; on any rank, alone."""
        model = self._engine.module.model
        model.config.save_pretrained(folder)
        if model.can_generate():
            model.generation_config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        if self._lora is not None:
            lora.save_config(self._lora, folder / ADAPTER)

    @cached_property
    def tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self._model_path, revision=self._revision)

    def one_update(
        self, batch: UpdateBatch, old_logprobs: Sequence[Tensor] | None = None
    ) -> dict[str, float]:
        """One optimizer step over the batch's microbatches; all ranks together.

        Where loss or gradient are not finite nothing changes, on any rank: not the weights, the optimizer's state, the
        schedule or the policy's version. `bad_updates_in_a_row` counts such updates.

        Args:
            old_logprobs: one tensor a microbatch; None where the current policy is the old one (ratio 1).

        Returns:
            Means over trained tokens and ranks; nothing where the update was skipped.
        """
        lr = self._scheduler.get_last_lr()[0]
        last = len(batch.microbatches) - 1
        sums: dict[str, Tensor] = {}
        for i, microbatch in enumerate(batch.microbatches):
            self._engine.set_gradient_accumulation_boundary(i == last)
            old = None if old_logprobs is None else old_logprobs[i]
            for key, value in self._accumulate(microbatch, old, denominator(batch, self._loss)).items():
                join = torch.maximum if key.endswith("_max") else torch.add
                sums[key] = join(sums[key], value) if key in sums else value
        grad_norm = self._apply()
        if grad_norm is None:
            self.bad_updates_in_a_row += 1
            return {}
        self.bad_updates_in_a_row = 0
        self._scheduler.step()
        self.policy_version += 1
        return self._update_metrics(sums, batch) | {"update/lr": lr, "update/grad_norm": grad_norm}

    def _apply(self) -> float | None:
        """Clip, step, and set the gradients back; their norm, or None where it is not finite and nothing changed.

        DeepSpeed's own optimizers leave such a step out by themselves, on all ranks alike. In plain float32 without
        ZeRO torch's optimizer is all there is, and every rank holds the whole gradient.
        """
        if isinstance(self._engine.optimizer, torch.optim.Optimizer):
            gradients = [p.grad for p in self._engine.module.parameters() if p.grad is not None]
            norm = float(torch.nn.utils.get_total_norm(gradients))
            if not math.isfinite(norm):
                self._engine.zero_grad()
                return None
            self._engine.step()
            return norm
        self._engine.step()
        return float(self._engine.get_global_grad_norm()) if self._engine.was_step_applied() else None

    def _accumulate(
        self, m: Microbatch, old_logprobs: Tensor | None, denominator: float
    ) -> dict[str, Tensor]:
        """Forward and backward of one microbatch; sums over its trained tokens for the metrics."""
        logprobs_L, entropies_L = self._forward(m)
        old_L = logprobs_L.detach() if old_logprobs is None else old_logprobs
        loss, sums = policy_loss(logprobs_L, old_L, entropies_L, m, denominator, self._loss)
        # A loss that is not finite makes the whole gradient so, and `_apply` leaves the update out.
        loss = loss * torch.where(loss.detach().isfinite(), 1.0, math.nan)
        # DeepSpeed averages gradients over the ranks; the shares of the loss are meant to add up.
        self._engine.backward(loss * self.world_size)
        gap_L = (old_L - m.engine_logprobs_L).abs()  # old_L: the policy that sampled
        return sums | {"gap": (gap_L * m.loss_mask_L).sum()}

    def _update_metrics(self, sums: dict[str, Tensor], batch: UpdateBatch) -> dict[str, float]:
        """Means over the trained tokens of all ranks, and the largest weight of all."""
        values = torch.stack([value.double() for value in sums.values()]).tolist()
        everyone = self.gather([dict(zip(sums, values, strict=True))])
        mean = {key: sum(own[key] for own in everyone) / batch.num_loss_tokens for key in sums}
        return {
            "update/loss": sum(own["loss"] for own in everyone),  # its shares are divided already
            "update/entropy": mean["entropy"],
            "update/ratio": mean["ratio"],
            "update/clipped_share": mean["clipped"],
            "update/approx_kl": mean["approx_kl"],
            "update/loss_tokens": batch.num_loss_tokens,
            "update/microbatches": len(batch.microbatches),
            "gap/mean_abs": mean["gap"],
            "gap/weight_mean": mean["engine_weight"],
            "gap/weight_max": max(own["engine_weight_max"] for own in everyone),
            "gap/masked_share": mean["engine_masked"],
        }

    def pack(self, sequences: Sequence[TrainSequence]) -> UpdateBatch:
        """This rank's microbatches of one update over the sequences of all ranks, on its device."""
        max_tokens = self._settings.max_tokens_per_microbatch
        varlen = self._settings.attention == "flash_attention_2"
        batch = pack(
            sequences,
            world_size=self.world_size,
            rank=self.rank,
            max_tokens=max_tokens,
            row_tokens=max_tokens if varlen else 0,
            hidden_size=self._hidden_size,
        )
        device = self._accelerator.device
        return replace(batch, microbatches=tuple(m.to(device) for m in batch.microbatches))

    @torch.no_grad()
    def _old_logprobs(self, batch: UpdateBatch) -> list[Tensor]:
        return [self._forward(m)[0] for m in batch.microbatches]

    def _forward(self, m: Microbatch) -> tuple[Tensor, Tensor]:
        logprobs_L, entropies_L = self._engine(
            m.input_ids_RW, m.position_ids_RW, m.loss_positions_L, m.targets_L
        )
        return logprobs_L, entropies_L
