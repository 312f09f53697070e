"""The policy as a module whose forward returns log-probabilities and entropies, never whole logits.

Shape suffixes: R rows, W width, H hidden size, L trained tokens, V vocabulary.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MAX_CHUNK_LOGITS = 1 << 26  # logits alive at a time: 256 MiB in float32


class Policy(nn.Module):
    """A causal language model seen through the log-probabilities of given tokens.

    The head runs on the trained positions alone, a chunk of them at a time, and is computed again in
    the backward pass, so memory grows with the chunk and not with tokens x vocabulary. It is one call of the
    head's module whatever the chunks: ZeRO-3 gathers the weight once a call, and ranks differ in their tokens.

    Args:
        model: a transformers causal language model.
        temperature: the sampling temperature; log-probabilities are those of softmax(logits / temperature).
    """

    def __init__(self, model: "PreTrainedModel", temperature: float = 1.0):
        super().__init__()
        self.model: Any = model
        output = model.get_output_embeddings()
        output.forward = partial(_forward, output, output.forward, temperature)

    def forward(
        self, input_ids_RW: Tensor, position_ids_RW: Tensor, loss_positions_L: Tensor, targets_L: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the targets and entropies of their distributions, both float32 of shape L."""
        base = self.model.base_model
        hidden_RWH = base(input_ids=input_ids_RW, position_ids=position_ids_RW, use_cache=False)[0]
        return self.head(hidden_RWH.flatten(0, 1)[loss_positions_L], targets_L)

    def head(self, hidden_LH: Tensor, targets_L: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies from the hidden states that predict the targets."""
        logprobs_L, entropies_L = self.model.get_output_embeddings()(hidden_LH, targets_L)
        return logprobs_L, entropies_L


def _forward(
    output: nn.Linear, logits: Any, temperature: float, hidden: Tensor, targets_L: Tensor | None = None
) -> Any:
    """The output layer's forward: with targets, log-probabilities and entropies; without, logits as before."""
    if targets_L is None:
        return logits(hidden)
    return _ChunkedHead.apply(hidden, output.weight, output.bias, targets_L, temperature)


class _ChunkedHead(torch.autograd.Function):
    """(log-probabilities, entropies) of the targets under softmax((h W^T + b) / temperature), chunk by chunk."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_LH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        targets_L: Tensor,
        temperature: float,
    ) -> tuple[Tensor, Tensor]:
        chunk = max(1, MAX_CHUNK_LOGITS // weight_VH.shape[0])
        # The parameters themselves and not saved tensors: ZeRO-3 takes their data away and brings it back.
        ctx.weight, ctx.bias, ctx.temperature, ctx.chunk = weight_VH, bias_V, temperature, chunk
        ctx.save_for_backward(hidden_LH, targets_L)
        pieces = zip(hidden_LH.split(chunk), targets_L.split(chunk), strict=True)
        outputs = [_logprobs(h, weight_VH, bias_V, t, temperature) for h, t in pieces]
        return torch.cat([o[0] for o in outputs]), torch.cat([o[1] for o in outputs])

    @staticmethod
    def backward(ctx: Any, *gradients_L: Tensor) -> Any:
        hidden_LH, targets_L = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        weight_VH = ctx.weight.detach().requires_grad_(wanted[1])
        bias_V = None if ctx.bias is None else ctx.bias.detach().requires_grad_(wanted[2])
        hidden_grads = []
        for h, t, *g in zip(*(x.split(ctx.chunk) for x in (hidden_LH, targets_L, *gradients_L)), strict=True):
            h = h.detach().requires_grad_(wanted[0])
            with torch.enable_grad():
                outputs = _logprobs(h, weight_VH, bias_V, t, ctx.temperature)
            torch.autograd.backward(outputs, g)
            hidden_grads.append(h.grad)
        hidden_grad = torch.cat(hidden_grads) if wanted[0] else None
        return hidden_grad, weight_VH.grad, None if bias_V is None else bias_V.grad, None, None


def _logprobs(
    hidden_LH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, targets_L: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    logits_LV = F.linear(hidden_LH, weight_VH, bias_V).float() / temperature
    logp_LV = logits_LV.log_softmax(-1)
    entropies_L = -(logp_LV.exp() * logp_LV).sum(-1)
    return logp_LV.gather(-1, targets_L[:, None])[:, 0], entropies_L
