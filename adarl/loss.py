"""The objective: Eq. 3 of the paper, the clipped surrogate with a token mean over the global batch.

Shape suffix: L trained tokens of a microbatch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LossSettings:
    """clip_low and clip_high are the epsilons of Eq. 3; entropy_coefficient weighs the entropy bonus."""

    clip_low: float = 0.2
    clip_high: float = 0.28
    entropy_coefficient: float = 0.0


def policy_loss(
    logprobs_L: Tensor,
    old_logprobs_L: Tensor,
    advantages_L: Tensor,
    entropies_L: Tensor,
    loss_mask_L: Tensor,
    num_loss_tokens: int,
    settings: LossSettings,
) -> tuple[Tensor, dict[str, Tensor]]:
    """This microbatch's share of the loss, and sums for the metrics.

    loss = -(1 / num_loss_tokens) * sum_t [ min(rho_t A_t, clip(rho_t, 1 - clip_low, 1 + clip_high) A_t)
                                            + entropy_coefficient * H_t ],   rho_t = exp(logprobs - old_logprobs)

    `num_loss_tokens` counts the trained tokens of all microbatches of all ranks, so the shares add up
    to the token mean however the batch was cut. `old_logprobs_L` carries no gradient. The sums (not
    means) come back detached: they add up over microbatches and ranks.
    """
    log_ratio_L = logprobs_L - old_logprobs_L
    ratio_L = log_ratio_L.exp()
    clipped_L = ratio_L.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    surrogate_L = torch.minimum(ratio_L * advantages_L, clipped_L * advantages_L)
    objective_L = surrogate_L + settings.entropy_coefficient * entropies_L
    loss = -(objective_L * loss_mask_L).sum() / num_loss_tokens
    with torch.no_grad():
        # A token is clipped where the clip takes its gradient away, not wherever the ratio leaves the band.
        is_clipped_L = clipped_L * advantages_L < ratio_L * advantages_L
        sums = {
            "loss": loss.detach(),
            "entropy": (entropies_L * loss_mask_L).sum(),
            "ratio": (ratio_L * loss_mask_L).sum(),
            "clipped": (is_clipped_L * loss_mask_L).sum(),
            # k3 of Schulman's note: unbiased and never negative.
            "approx_kl": ((ratio_L - 1.0 - log_ratio_L) * loss_mask_L).sum(),
        }
    return loss, sums
