"""The policy as a module whose forward returns log-probabilities and entropies, never whole logits.

Shape suffixes: R rows, W width, H hidden size, L trained tokens, V vocabulary.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MAX_CHUNK_LOGITS = 1 << 26  # logits alive at a time: 256 MiB in float32


class Policy(nn.Module):
    """A causal language model seen through the log-probabilities of given tokens.

    The head runs on the trained positions alone, a chunk of them at a time, and is computed again in
    the backward pass, so memory grows with the chunk and not with tokens x vocabulary.

    Args:
        model: a transformers causal language model.
        temperature: the sampling temperature; log-probabilities are those of softmax(logits / temperature).
    """

    def __init__(self, model: "PreTrainedModel", temperature: float = 1.0):
        super().__init__()
        self.model: Any = model
        self.temperature = temperature

    def forward(
        self, input_ids_RW: Tensor, position_ids_RW: Tensor, loss_positions_L: Tensor, targets_L: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the targets and entropies of their distributions, both float32 of shape L."""
        base = self.model.base_model
        hidden_RWH = base(input_ids=input_ids_RW, position_ids=position_ids_RW, use_cache=False)[0]
        hidden_LH = hidden_RWH.flatten(0, 1)[loss_positions_L]
        chunk = max(1, MAX_CHUNK_LOGITS // self.model.config.vocab_size)
        pieces = list(zip(hidden_LH.split(chunk), targets_L.split(chunk), strict=True))
        if len(pieces) == 1 or not torch.is_grad_enabled():  # one chunk is the bound itself: nothing to save
            outputs = [self._head(h, t) for h, t in pieces]
        else:
            # Re-entrant, because ZeRO-3 re-partitions the head's weight between the two passes, which the
            # other form takes for a changed tensor.
            outputs = [checkpoint(self._head, h, t, use_reentrant=True) for h, t in pieces]
        return torch.cat([o[0] for o in outputs]), torch.cat([o[1] for o in outputs])

    def _head(self, hidden_LH: Tensor, targets_L: Tensor) -> tuple[Tensor, Tensor]:
        logits_LV = self.model.get_output_embeddings()(hidden_LH).float() / self.temperature
        logp_LV = logits_LV.log_softmax(-1)
        entropies_L = -(logp_LV.exp() * logp_LV).sum(-1)
        return logp_LV.gather(-1, targets_L[:, None])[:, 0], entropies_L
