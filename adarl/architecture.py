"""A recipe's model in numbers, without its weights and without network: from config.json, never guessed."""

import json
from pathlib import Path
from typing import Any

from adarl.config import LoraSettings, ModelSettings
from adarl.errors import UserError
from adarl.memory import ModelShape
from adarl.prepared import BUILDERS, PREFIX, locate

REQUIRED = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "tie_word_embeddings",
)
"""What `model.architecture` has to say: transformers would fill what is left out with another model's sizes."""


def looks_local(path: str) -> bool:
    """Whether `path` can only be meant as a file or folder: absolute, or relative with a leading . or ~."""
    return path.startswith(("/", ".", "~"))


def model_shape(settings: ModelSettings, lora: LoraSettings | None = None) -> tuple[ModelShape | None, str]:
    """The model's sizes and where they come from; None and the reason where they cannot be known here.

    Raises:
        UserError: there is a description, and it cannot be used.
    """
    folder, missing = _folder(settings.path)
    if folder is not None:
        file = folder / "config.json"
        try:
            config = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise UserError(f"model.path = {settings.path!r}: {file} cannot be read ({error})") from error
        return _count(config, str(file), lora), str(file)
    if settings.architecture is not None:
        where = "model.architecture"
        lacking = [key for key in REQUIRED if key not in settings.architecture]
        if lacking:
            raise UserError(f"{where} lacks {', '.join(lacking)}: copy them from the model's config.json")
        return _count(settings.architecture, where, lora), where + (f"; {missing}" if missing else "")
    return None, f"{missing or 'not a local folder'}, and the recipe has no model.architecture"


def _folder(path: str) -> tuple[Path | None, str]:
    """The local folder of a model, or None and what is to be said of it."""
    if path.startswith(PREFIX):
        name = path.removeprefix(PREFIX).partition("/")[0]
        try:
            folder = Path(locate(path, build=False))
        except ValueError as error:
            raise UserError(f"model.path: {error}") from error
        if folder.is_dir():
            return folder, ""
        return None, f"will be built on first use by {BUILDERS[name]}"
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder, ""
    if looks_local(path):
        raise UserError(f"model.path = {path!r}: there is no such folder")
    return None, ""


def _count(config: dict[str, Any], where: str, lora: LoraSettings | None) -> ModelShape:
    """Build the model on the meta device, where a parameter has a shape but no memory, and count."""
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    keys = {key: value for key, value in config.items() if key != "model_type"}
    try:
        parsed = AutoConfig.for_model(str(config.get("model_type")), **keys)
        with init_empty_weights():
            model = AutoModelForCausalLM.from_config(parsed)
        model.tie_weights()  # moving parameters to the meta device took a tied head from its embedding
    except Exception as error:  # a config can fail in as many ways as there are models
        raise UserError(
            f"{where}: transformers cannot build this model: {' '.join(str(error).split())[:200]}"
        ) from error
    names = dict(model.named_parameters())
    heads = parsed.num_attention_heads
    adapters = 0
    if lora is not None:
        from adarl.lora import add_adapters

        with init_empty_weights():
            add_adapters(model, lora, where)
        adapters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return ModelShape(
        parameters=sum(parameter.numel() for parameter in names.values()),
        hidden_size=parsed.hidden_size,
        num_layers=parsed.num_hidden_layers,
        num_heads=heads,
        num_kv_heads=getattr(parsed, "num_key_value_heads", None) or heads,
        head_dim=getattr(parsed, "head_dim", None) or parsed.hidden_size // heads,
        intermediate_size=parsed.intermediate_size,
        vocab_size=parsed.vocab_size,
        max_positions=parsed.max_position_embeddings,
        has_qk_norm=any("q_norm" in name for name in names),
        adapters=adapters,
    )
