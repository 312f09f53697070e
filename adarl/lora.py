"""LoRA (arXiv 2106.09685): small trained matrices beside frozen linear maps, merged into them on the way out.

    W' = W + (alpha / rank) B A,   A: rank x in, from a uniform law;  B: out x rank, zero at first

peft puts them into the model and names them; the merged weight is ours, because under ZeRO-3 the three matrices
are whole for a moment only, in a bucket of the weight sync.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import init_empty_weights
from peft import LoraConfig, inject_adapter_in_model
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from adarl.config import LoraSettings
from adarl.errors import UserError
from adarl.weights import Source

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_BASE, _A, _B = ".base_layer", ".lora_A.default", ".lora_B.default"  # peft's, in the names of parameters


def add_adapters(model: "PreTrainedModel", settings: LoraSettings, model_path: str) -> LoraConfig:
    """Freeze the model and put adapters beside its linear maps, in place; the output head stays without.

    Args:
        model_path: what the adapter's config names as its base.

    Raises:
        UserError: `learner.lora.target_modules` names something that the model does not have.
    """
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=settings.target_modules
        if isinstance(settings.target_modules, str)
        else list(settings.target_modules),
        task_type="CAUSAL_LM",
        base_model_name_or_path=model_path,
    )
    try:
        inject_adapter_in_model(config, model)
    except ValueError as error:
        maps = sorted(
            {n.rpartition(".")[2] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
        )
        raise UserError(
            f"learner.lora.target_modules = {settings.target_modules!r}: peft finds no such maps in the model, "
            f"which has {', '.join(maps)}"
        ) from error
    return config


def check_adapters(settings: LoraSettings, model_path: str, revision: str | None) -> None:
    """Put adapters into an empty model, to find out before any weights are loaded.

    Raises:
        UserError: see `add_adapters`.
    """
    with init_empty_weights():
        config = AutoConfig.from_pretrained(model_path, revision=revision)
        add_adapters(AutoModelForCausalLM.from_config(config), settings, model_path)


def sources(model: torch.nn.Module, config: LoraConfig) -> Iterator[Source]:
    """The merged weights under the names of the base model's checkpoint."""
    named = dict(model.named_parameters())
    for name, parts in _made_of(named):
        yield Source(name, tuple(named[part] for part in parts), _merging(config))


def merge(state: Mapping[str, Tensor], config: LoraConfig) -> dict[str, Tensor]:
    """Weights by the names of a model with adapters -> by those of its base model."""
    made = _merging(config)
    return {name: made(*(state[part] for part in parts)) for name, parts in _made_of(state)}


def _made_of(names: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each weight of the base model with the parameters that it is made of: itself, and A and B where it has them."""
    known = set(names)
    for name in names:
        if is_adapter(name):
            continue
        pair = name.replace(_BASE, _A), name.replace(_BASE, _B)
        has_adapter = _BASE in name and known.issuperset(pair)  # a bias has none
        yield name.replace(_BASE, ""), (name, *pair) if has_adapter else (name,)


def _merging(config: LoraConfig) -> Callable[..., Tensor]:
    """W, A, B -> W + (alpha / rank) B A, worked out in float32, in W's number format; W alone -> W."""
    scale = config.lora_alpha / config.r

    def made(weight: Tensor, *adapter: Tensor) -> Tensor:
        if not adapter:
            return weight
        a, b = adapter
        return torch.addmm(weight.float(), b.float(), a.float(), alpha=scale).to(weight.dtype)

    return made


def adapters(model: torch.nn.Module) -> Iterator[Source]:
    """The adapters alone, under their names in the model."""
    for name, parameter in model.named_parameters():
        if is_adapter(name):
            yield Source(name, (parameter,))


def is_adapter(name: str) -> bool:
    return _A in name or _B in name


def save_adapters(state: Mapping[str, Tensor], config: LoraConfig, folder: Path) -> None:
    """Write the adapters of a state as a folder that `peft.PeftModel.from_pretrained(base, folder)` reads.

    Args:
        state: by the names of the model's parameters; others than adapters are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"base_model.model.{name.replace('.default', '')}": tensor.contiguous()
        for name, tensor in state.items()
        if is_adapter(name)
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    save_config(config, folder)


def save_config(config: LoraConfig, folder: Path) -> None:
    """Write what `load_config` reads, and peft."""
    folder.mkdir(parents=True, exist_ok=True)
    held: Any = config.target_modules
    config.target_modules = sorted(held) if not isinstance(held, str) else held  # a set has no fixed order
    config.save_pretrained(str(folder))
    config.target_modules = held


def load_config(folder: Path) -> LoraConfig:
    """The config that `save_config` wrote."""
    config = LoraConfig.from_pretrained(str(folder))
    assert isinstance(config, LoraConfig)
    return config
