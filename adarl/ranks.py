"""The processes of a run and how DeepSpeed is set up in them.

The launcher starts one process a device; accelerate joins them into a process group and hands DeepSpeed
its config. Nothing here knows a model.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin, InitProcessGroupKwargs, gather_object
from deepspeed.runtime.config import DeepSpeedConfig
from omegaconf import OmegaConf
from pydantic import ValidationError

from adarl.config import LearnerSettings
from adarl.errors import UserError


def deepspeed_config(settings: LearnerSettings) -> dict[str, Any]:
    """The recipe's `learner:` section as DeepSpeed reads it; `learner.deepspeed` has the last word."""
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,  # microbatches are ours: the loss carries its own denominator
        "gradient_accumulation_steps": 1,
        "gradient_clipping": settings.max_grad_norm,
        "zero_optimization": {
            "stage": settings.zero_stage,
            "offload_optimizer": {"device": settings.offload_optimizer},
            "offload_param": {"device": settings.offload_parameters},
        },
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": settings.dtype == "bfloat16"},
        "steps_per_print": 10**9,
    }
    merged = OmegaConf.to_container(OmegaConf.merge(config, settings.deepspeed))
    assert isinstance(merged, dict)
    return {str(key): value for key, value in merged.items()}


def check_deepspeed(settings: LearnerSettings) -> None:
    """Let DeepSpeed read its config, before any model is loaded.

    Raises:
        UserError: it does not take what `learner.deepspeed` adds.
    """
    try:
        DeepSpeedConfig(deepspeed_config(settings))
    except ValidationError as error:
        reason = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
    except Exception as error:  # what it says of a wrong type differs from section to section
        reason = f"{type(error).__name__}: {error}"
    else:
        return
    raise UserError(f"learner.deepspeed = {settings.deepspeed}: DeepSpeed does not take it ({reason})")


def start_ranks(settings: LearnerSettings, collective_minutes: float = 30.0) -> Accelerator:
    """Join the process group and place this process on its device; no model is loaded yet.

    Args:
        collective_minutes: how long a rank waits for the others in one collective before it gives up.
    """
    plugin = DeepSpeedPlugin(
        hf_ds_config=deepspeed_config(settings), zero3_init_flag=settings.zero_stage == 3
    )
    # Without the backend's name accelerate takes a machine without an accelerator for one without ranks.
    group = InitProcessGroupKwargs(
        backend=None if torch.cuda.is_available() else "gloo", timeout=timedelta(minutes=collective_minutes)
    )
    # The schedule counts updates; left to accelerate it would count ranks x updates.
    return Accelerator(deepspeed_plugin=plugin, kwargs_handlers=[group], step_scheduler_with_optimizer=False)


class AllRanks:
    """The processes that `start_ranks` has joined."""

    def __init__(self, accelerator: Accelerator):
        self.rank = accelerator.process_index
        self.world_size = accelerator.num_processes

    def gather(self, records: Sequence[Any]) -> list[Any]:
        """The records of all ranks, on all ranks, in the order of the ranks."""
        return list(gather_object(list(records)) if self.world_size > 1 else records)
