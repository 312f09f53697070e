"""The verifier: response and gold -> verdict, in killable worker processes. Policy: docs/verifier.md."""

from adarl.verifier.domains import parse_error
from adarl.verifier.rewards import is_masked, overlong_penalty, shape_reward
from adarl.verifier.settings import OverlongPenalty, VerifierSettings
from adarl.verifier.verifier import Verifier

__all__ = [
    "OverlongPenalty",
    "Verifier",
    "VerifierSettings",
    "is_masked",
    "overlong_penalty",
    "parse_error",
    "shape_reward",
]
