"""Liger's Triton kernels in place of a model's own RMSNorm, rotary embedding and SwiGLU; CUDA only.

They keep fewer intermediate results for the backward pass. Liger's losses are not used: log-probabilities are
computed in chunks already (policy.py).
"""

import importlib.util
from typing import TYPE_CHECKING

import torch

from adarl.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def check_liger() -> None:
    """Say what is missing before any model is loaded.

    Raises:
        UserError: there is no CUDA device, or no liger-kernel.
    """
    if not torch.cuda.is_available():
        raise UserError("learner.liger = true needs a CUDA device, this machine has none: set it to false")
    if importlib.util.find_spec("liger_kernel") is None:
        raise UserError("learner.liger = true needs the package liger-kernel: pip install liger-kernel")


def apply_liger(model: "PreTrainedModel") -> None:
    """Patch the model in place, through transformers' own integration."""
    from transformers.integrations.liger import apply_liger_kernel

    apply_liger_kernel(model, {"cross_entropy": False, "fused_linear_cross_entropy": False})
