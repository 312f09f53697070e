"""The recipe's `verifier:` section. Imports pydantic only, so that the configuration stays light."""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

KINDS = ("math", "exact", "numeric", "python_tests")
EXTRACTIONS = ("last_boxed", "last_boxed_or_final_answer", "whole_response")
_OWN_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

Extraction = Literal["last_boxed", "last_boxed_or_final_answer", "whole_response"]


class OverlongPenalty(BaseModel):
    """DAPO's soft punishment of long responses (arXiv 2503.14476, Eq. 13). Lengths in tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_tokens: int  # L_max: from here on the penalty is whole
    buffer_tokens: int  # L_cache: the penalty starts at max_tokens - buffer_tokens and grows linearly
    penalty: float = 1.0  # what is subtracted at max_tokens and beyond

    @model_validator(mode="after")
    def _buffer_fits(self) -> "OverlongPenalty":
        if not 0 < self.buffer_tokens <= self.max_tokens:
            raise ValueError(
                f"verifier.overlong.buffer_tokens is {self.buffer_tokens}, but has to be between 1 and "
                f"max_tokens ({self.max_tokens}): lower buffer_tokens or raise max_tokens"
            )
        if self.penalty <= 0:
            raise ValueError(
                f"verifier.overlong.penalty is {self.penalty}, but is subtracted and so has to be above 0: "
                "write 1.0, or leave `overlong` out"
            )
        return self


class VerifierSettings(BaseModel):
    """What grades the responses, by which rules, within which limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # math, exact, numeric, python_tests, or module:function of your own
    kind: str = "math"
    # what counts as the final answer of a response
    extraction: Annotated[Extraction, Field(validate_default=True)] = "last_boxed"
    workers: int = 2  # worker processes of this rank
    timeout_seconds: float = 5.0  # wall-clock limit of one answer
    memory_mb: int = 2048  # address space of one worker (and of one python_tests program), MiB
    overlong: OverlongPenalty | None = None  # None: the length does not change the reward
    mask_truncated: bool = False  # True: truncated responses carry no loss (they still count in the pool)

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind not in KINDS and not _OWN_FUNCTION.fullmatch(kind):
            raise ValueError(
                f"verifier.kind is {kind!r}, which is none of {', '.join(KINDS)}: "
                "choose one of them, or name your own function as module:function"
            )
        return kind

    @field_validator("extraction", mode="before")
    @classmethod
    def _known_extraction(cls, extraction: object) -> object:
        if extraction not in EXTRACTIONS:
            raise ValueError(f"verifier.extraction is {extraction!r}: choose one of {', '.join(EXTRACTIONS)}")
        return extraction

    @field_validator("workers")
    @classmethod
    def _some_workers(cls, workers: int) -> int:
        if not 1 <= workers <= 256:
            raise ValueError(f"verifier.workers is {workers}: give 1 to 256, about one for each spare core")
        return workers

    @field_validator("timeout_seconds")
    @classmethod
    def _some_time(cls, seconds: float) -> float:
        if not 0.1 <= seconds <= 600:
            raise ValueError(f"verifier.timeout_seconds is {seconds}: give 0.1 to 600 seconds for one answer")
        return seconds

    @field_validator("memory_mb")
    @classmethod
    def _enough_memory(cls, memory: int) -> int:
        if memory < 256:
            raise ValueError(f"verifier.memory_mb is {memory}: sympy alone needs 256, 2048 is a good value")
        return memory
