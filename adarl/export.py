"""`adarl export`: a checkpoint's shards become a Hugging Face model, in one process and without a GPU.

Holds the whole model in the host's memory once in float32, as the shards hold it.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from adarl import checkpoint, manifest
from adarl.errors import UserError
from adarl.learner_state import SHARDS, shards_missing

if TYPE_CHECKING:
    from torch import Tensor

STEP_FILE = "adarl.json"
ADAPTER = "adapter"  # folder of LoRA's adapters beside the merged model
PREFIX = "model."  # of the policy module around the model (policy.py)


class ExportError(UserError):
    """No model can be made of what was given."""


def export(source: Path, out: Path) -> Path:
    """Write the model of a run's newest whole checkpoint, or of a checkpoint, with tokenizer and generation config.

    Of a LoRA run it is the merged model, and the adapters stand beside it in `adapter/`.

    Returns:
        The checkpoint that it was made of.

    Raises:
        ExportError: there is no whole checkpoint, or `out` is in use.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} exists and is not empty: name a new folder")
    found = _whole(source)
    state = checkpoint.load_state(found)
    temporary = out.with_name(f".{out.name}.tmp")
    checkpoint.make_empty(temporary)
    write_step(temporary, state.step)
    model_files = found / checkpoint.MODEL_FILES
    policy = weights(found, state.world_size)
    if (model_files / ADAPTER).is_dir():
        from adarl import lora

        config = lora.load_config(model_files / ADAPTER)
        lora.save_adapters(policy, config, temporary / ADAPTER)
        policy = lora.merge(policy, config)
    write_model(policy, model_files, temporary)
    manifest.close(temporary, manifest.entries(temporary, manifest.files(temporary)))
    checkpoint.replace(temporary, out)
    return found


def weights(found: Path, world_size: int) -> "dict[str, Tensor]":
    """All weights of a checkpoint by their names in the policy's model.

    Raises:
        ExportError: parts of it lie on other nodes.
    """
    import torch
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    whole = found / SHARDS / "mp_rank_00_model_states.pt"  # what ZeRO stages 0 to 2 write
    if whole.exists():
        state = torch.load(whole, map_location="cpu", weights_only=False)["module"]
    elif missing := shards_missing(found, world_size):
        raise ExportError(
            f"{found} lacks the shards of rank {', '.join(map(str, missing))}: with run directories local to the nodes, "
            "copy the checkpoints of all nodes into one folder first"
        )
    else:
        state = get_fp32_state_dict_from_zero_checkpoint(str(found), SHARDS)
    return {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}


def write_model(state: "dict[str, Tensor]", model_files: Path, out: Path) -> None:
    """Write weights as the model that `model_files` describes, in its number format.

    Args:
        state: by the names of the model's own parameters; what adapters are has to be merged by now.
        model_files: config, generation config and tokenizer, as `Learner.write_model_files` leaves them.
    """
    import torch
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    config = AutoConfig.from_pretrained(model_files)
    dtype = config.dtype or torch.float32
    with init_empty_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    if (model_files / "generation_config.json").exists():
        model.generation_config = GenerationConfig.from_pretrained(model_files)
    model.save_pretrained(out, state_dict={name: tensor.to(dtype) for name, tensor in state.items()})
    AutoTokenizer.from_pretrained(model_files).save_pretrained(out)


def write_step(model: Path, step: int, score: float | None = None) -> None:
    """Leave in a model's folder after which step, and with which validation score, the policy was exported."""
    (model / STEP_FILE).write_text(json.dumps({"step": step, "score": score}) + "\n")


def read_step(model: Path) -> int:
    """The step after which a model was exported."""
    return int(json.loads((model / STEP_FILE).read_text())["step"])


def read_score(model: Path) -> float:
    """The validation score of an exported model of best/."""
    return float(json.loads((model / STEP_FILE).read_text())["score"])


def _whole(source: Path) -> Path:
    """The checkpoint itself, or the newest whole one of a run."""
    if (source / checkpoint.STATE_FILE).is_file():
        problem = manifest.problem(source)
        if problem is not None:
            raise ExportError(f"{source} is damaged ({problem}): name another checkpoint")
        return source
    refused = []
    for found in reversed(checkpoint.find(source)):
        problem = manifest.problem(found)
        if problem is None:
            return found
        refused.append(f"{found.name} is damaged ({problem})")
    if refused:
        raise ExportError(f"{source} has no whole checkpoint: {'; '.join(refused)}")
    raise ExportError(f"{source} is neither a checkpoint nor a run directory with one in checkpoints/")
