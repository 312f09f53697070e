"""Rewards beyond right and wrong, kept apart from correctness.

Exits, strata and pass rates read `Verification.verdict`; only the advantage reads the reward. So a shaped
reward can never turn a wrong response into a correct one in the eyes of the sampler.
"""

from dataclasses import replace

from adarl.types import Verification
from adarl.verifier.settings import OverlongPenalty, VerifierSettings


def overlong_penalty(num_tokens: int, overlong: OverlongPenalty) -> float:
    """DAPO's soft punishment (arXiv 2503.14476, Eq. 13), zero or negative.

    0 up to L_max - L_cache tokens, then linear, -penalty from L_max on:
    penalty * ((L_max - L_cache) - num_tokens) / L_cache in between.
    """
    start = overlong.max_tokens - overlong.buffer_tokens
    if num_tokens <= start:
        return 0.0
    return -overlong.penalty * min(1.0, (num_tokens - start) / overlong.buffer_tokens)


def shape_reward(
    verification: Verification, num_tokens: int, truncated: bool, settings: VerifierSettings
) -> Verification:
    """The same finding with the reward that the recipe asks for; the verdict is never touched.

    `num_tokens` is the length of the response in tokens; a truncated one counts as at least `max_tokens`
    long, because it was cut there and not finished.
    """
    if settings.overlong is None:
        return verification
    length = max(num_tokens, settings.overlong.max_tokens) if truncated else num_tokens
    return replace(verification, reward=verification.reward + overlong_penalty(length, settings.overlong))


def is_masked(truncated: bool, settings: VerifierSettings) -> bool:
    """Whether the recipe leaves this response out of the loss (DAPO's overlong filtering).

    It stays in the pool: dropping samples by their length would bias the exit conditions.
    """
    return truncated and settings.mask_truncated
