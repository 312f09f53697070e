"""Norms of the gradient of log pi(response) with respect to the input embeddings (GVM-RAFT, arXiv 2505.02391)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from adarl.batch import Microbatch

Forward = Callable[[Microbatch], tuple[Tensor, Tensor]]


def embedding_norms(
    model: Any, microbatches: Sequence[Microbatch], forward: Forward
) -> list[tuple[str, float]]:
    """(label, norm) of each sequence, in the order of the microbatches. No parameter gets a gradient.

    Args:
        model: the transformers model within the policy.
        forward: log-probabilities and entropies of a microbatch's trained tokens, both of shape L.
    """
    # Frozen parameters instead of torch.autograd.grad, which re-entrant checkpoints do not support.
    parameters = [p for p in model.parameters() if p.requires_grad]
    for p in parameters:
        p.requires_grad_(False)
    norms: list[tuple[str, float]] = []
    for microbatch in microbatches:
        norms += zip(microbatch.labels, _norms(model, microbatch, forward), strict=True)
    for p in parameters:
        p.requires_grad_(True)
    return norms


def _norms(model: Any, m: Microbatch, forward: Forward) -> list[float]:
    """One norm a sequence of the microbatch."""
    kept: list[Tensor] = []

    def keep(module: torch.nn.Module, inputs: Any, embeddings_RWH: Tensor) -> Tensor:
        kept.append(embeddings_RWH.detach().requires_grad_())
        return kept[0]

    hook = model.get_input_embeddings().register_forward_hook(keep)
    logprobs_L, _ = forward(m)
    hook.remove()
    (logprobs_L * m.loss_mask_L).sum().backward()
    gradient = kept[0].grad
    assert gradient is not None
    squares = gradient.float().square().sum(-1).flatten().cpu()
    return [float(squares[start:end].sum().sqrt()) for start, end in m.spans]
