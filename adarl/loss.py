"""The objective: Eq. 3 of the paper, the clipped surrogate with a token mean, and the forms that others use.

Shape suffixes: L trained tokens of a microbatch, S sequences of a microbatch.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from adarl.batch import Microbatch, UpdateBatch


@dataclass(frozen=True, slots=True)
class LossSettings:
    """The recipe's `algorithm:` section as the objective reads it."""

    objective: Literal["clip", "cispo"] = "clip"
    ratio: Literal["token", "sequence"] = "token"
    clip_low: float = 0.2  # the epsilons of Eq. 3
    clip_high: float = 0.28
    dual_clip: float | None = None  # c of dual-clip PPO
    aggregation: Literal["token_mean", "sequence_mean", "sequence_mean_token_mean", "token_sum_norm"] = (
        "token_mean"
    )
    max_response_tokens: int = 1  # the constant of token_sum_norm
    entropy_coefficient: float = 0.0
    engine_correction: Literal["tis", "icepop", "none"] = "tis"
    tis_cap: float = 2.0
    icepop_low: float = 0.5
    icepop_high: float = 5.0


def denominator(batch: UpdateBatch, settings: LossSettings) -> float:
    """What the sum over the tokens of all ranks and microbatches is divided by.

    token_mean                num_loss_tokens                            DAPO, Eq. 3
    sequence_mean             num_sequences                              token sums
    sequence_mean_token_mean  num_sequences, tokens divided by |o_i|     GRPO, GSPO
    token_sum_norm            num_sequences * max_response_tokens        Dr.GRPO
    """
    return {
        "token_mean": batch.num_loss_tokens,
        "sequence_mean": batch.num_sequences,
        "sequence_mean_token_mean": batch.num_sequences,
        "token_sum_norm": batch.num_sequences * settings.max_response_tokens,
    }[settings.aggregation]


def policy_loss(
    logprobs_L: Tensor,
    old_logprobs_L: Tensor,
    entropies_L: Tensor,
    tokens: Microbatch,
    denominator: float,
    settings: LossSettings,
) -> tuple[Tensor, dict[str, Tensor]]:
    """This microbatch's share of the loss, and sums for the metrics.

    loss = -(1 / denominator) * sum_t [ w_t * J_t + entropy_coefficient * H_t ]
    clip:   J_t = min(rho_t A_t, clip(rho_t, 1 - clip_low, 1 + clip_high) A_t), at least dual_clip * A_t where A_t < 0
    cispo:  J_t = stop_gradient(clip(rho_t, ...)) A_t log pi_t                   (MiniMax-M1, arXiv 2506.13585)
    rho_t = exp(logprobs - old_logprobs), or the sequence's (`sequence_log_ratio`); w_t of `engine_weights`;
    A_t the advantage of the sequence, or of `entropy_advantages` where the group's rewards say nothing.

    `denominator` is global, so the shares add up to the mean however the batch was cut. `old_logprobs_L`
    carries no gradient. What comes back beside the loss is detached and adds up over microbatches and ranks,
    but for `*_max`, of which the largest counts.
    """
    mask_L = tokens.loss_mask_L
    token_log_ratio_L = logprobs_L - old_logprobs_L
    log_ratio_L = token_log_ratio_L
    if settings.ratio == "sequence":
        log_ratio_L = sequence_log_ratio(token_log_ratio_L, tokens.sequences_L)
    ratio_L = log_ratio_L.exp()
    clipped_L = ratio_L.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    advantages_L = tokens.advantages_L + entropy_advantages(
        entropies_L.detach(), tokens.entropy_weights_L, tokens.sequences_L
    )
    if settings.objective == "cispo":
        surrogate_L = clipped_L.detach() * advantages_L * logprobs_L
        is_clipped_L = clipped_L != ratio_L
    else:
        surrogate_L = torch.minimum(ratio_L * advantages_L, clipped_L * advantages_L)
        # A token is clipped where the clip takes its gradient away, not wherever the ratio leaves the band.
        is_clipped_L = clipped_L * advantages_L < ratio_L * advantages_L
        if settings.dual_clip is not None:
            floor_L = settings.dual_clip * advantages_L
            is_clipped_L |= (advantages_L < 0) & (surrogate_L < floor_L)
            surrogate_L = torch.where(advantages_L < 0, torch.maximum(surrogate_L, floor_L), surrogate_L)
    weights_L = engine_weights(old_logprobs_L, tokens.engine_logprobs_L, settings)
    objective_L = weights_L * surrogate_L + settings.entropy_coefficient * entropies_L
    if settings.aggregation == "sequence_mean_token_mean":
        objective_L = objective_L / _lengths(tokens.sequences_L)
    loss = -(objective_L * mask_L).sum() / denominator
    with torch.no_grad():
        sums = {
            "loss": loss.detach(),
            "entropy": (entropies_L * mask_L).sum(),
            "ratio": (ratio_L * mask_L).sum(),
            "clipped": (is_clipped_L * mask_L).sum(),
            # k3 of Schulman's note: unbiased and never negative.
            "approx_kl": ((token_log_ratio_L.exp() - 1.0 - token_log_ratio_L) * mask_L).sum(),
            "engine_weight": (weights_L * mask_L).sum(),
            "engine_weight_max": (weights_L * mask_L).max(),
            "engine_masked": ((weights_L == 0.0) * mask_L).sum(),
        }
    return loss, sums


def engine_weights(old_logprobs_L: Tensor, engine_logprobs_L: Tensor, settings: LossSettings) -> Tensor:
    """What corrects for an engine that samples from a slightly different policy than the learner's.

    k_t = exp(old_logprobs - engine_logprobs), without gradient.
    tis:    min(k_t, tis_cap)                                    truncated importance sampling
    icepop: k_t within [icepop_low, icepop_high], 0 outside      the token leaves the loss, not the denominator
    (TIS: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training"; IcePop:
    arXiv 2510.18855.) Weights are of single tokens: a product over a sequence would punish length.
    """
    if settings.engine_correction == "none":
        return torch.ones_like(old_logprobs_L)
    k_L = (old_logprobs_L - engine_logprobs_L).detach().exp()
    if settings.engine_correction == "tis":
        return k_L.clamp(max=settings.tis_cap)
    return torch.where((k_L >= settings.icepop_low) & (k_L <= settings.icepop_high), k_L, 0.0)


def sequence_log_ratio(log_ratio_L: Tensor, sequences_L: Tensor) -> Tensor:
    """GSPO's ratio (arXiv 2507.18071): of each token, the mean log-ratio of its sequence.

    Its value is log s_i = (1 / |o_i|) sum_t log_ratio_t; its gradient that of the token alone, so that single
    tokens can have advantages of their own (GSPO-token, the stop-gradient form).
    """
    detached_L = log_ratio_L.detach()
    sums_S = torch.zeros_like(detached_L).index_add(0, sequences_L, detached_L)  # S <= L
    mean_L = sums_S[sequences_L] / _lengths(sequences_L)
    return mean_L + log_ratio_L - detached_L


def entropy_advantages(entropies_L: Tensor, weights_L: Tensor, sequences_L: Tensor) -> Tensor:
    """RL-ZVP's advantages for groups whose rewards are all equal (arXiv 2509.21880, Eq. 5).

    Weight +alpha (all right): alpha H_t. Weight -alpha (all wrong): -alpha (max_k H_k - H_t), the maximum
    over the response's tokens. Weight 0: 0. A wrong response of one token gives 0.
    """
    if not bool(weights_L.any()):
        return torch.zeros_like(entropies_L)
    highest_S = torch.zeros_like(entropies_L).scatter_reduce(0, sequences_L, entropies_L, "amax")
    return torch.where(
        weights_L >= 0, weights_L * entropies_L, weights_L * (highest_S[sequences_L] - entropies_L)
    )


def _lengths(sequences_L: Tensor) -> Tensor:
    """Trained tokens of each token's sequence."""
    return torch.bincount(sequences_L)[sequences_L]
