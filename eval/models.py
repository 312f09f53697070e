"""What a MODEL of the command line stands for, and whether it can be evaluated, before its weights load."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from adarl.config import DataSettings
from adarl.errors import UserError
from adarl.prepared import PREFIX, locate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PAPER_SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."
PAPER_SUFFIX = " Let's think step by step and output the final answer within \\boxed{}."
"""The authors' evaluation asks with both: eval/gen_data.py of github.com/RLHFlow/Reinforce-Ada."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that lies somewhere."""

    name: str  # of its folder of results
    given: str  # what the user wrote
    path: str  # local folder or hub id
    recipe: dict[str, Any] = field(default_factory=dict)  # the resolved recipe, where it is a training run

    @property
    def fingerprint(self) -> str:
        """Of a local model's files: names, sizes and both ends of each, so that other weights are noticed.

        A hub model's is its id.
        """
        folder = Path(locate(self.path, build=False))
        if not folder.is_dir():
            return self.path
        digest = hashlib.sha256()
        for file in sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*.json")):
            size = file.stat().st_size
            digest.update(f"{file.name}:{size}\n".encode())
            with open(file, "rb") as content:
                digest.update(content.read(1 << 20))
                content.seek(max(0, size - (1 << 20)))
                digest.update(content.read(1 << 20))
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What is known of a model without its weights."""

    tokenizer: "PreTrainedTokenizerBase"
    context: int | None  # longest sequence in tokens, None where its configuration does not say


def find_models(given: Sequence[str]) -> list[Model]:
    """The models by what the user wrote, with names that differ.

    Raises:
        UserError: one is neither a model, nor a run with a model, nor something the hub could have.
    """
    if not given:
        raise UserError(
            "no MODEL named: give a hub id, a folder, a run of adarl train or prepared:NAME/model"
        )
    found = [_find(text) for text in given]
    names = [m.name for m in found]
    if len(set(names)) < len(names):  # for example two runs' folders of one name
        found = [
            Model(m.given.strip("./").replace("/", "__").replace(":", "-"), m.given, m.path, m.recipe)
            for m in found
        ]
    if len({m.name for m in found}) < len(found):
        raise UserError(f"a model is named twice: {', '.join(given)}")
    return found


def _find(given: str) -> Model:
    if given.startswith(PREFIX):
        return Model(_name(given.removeprefix(PREFIX)), given, given)
    folder = Path(given).expanduser()
    if (folder / "recipe.yaml").is_file():
        return _run(given, folder)
    if (folder / "config.json").is_file():
        return Model(_name(str(folder.absolute())), given, str(folder))
    if folder.exists():
        raise UserError(
            f"MODEL {given}: holds neither a model (config.json) nor a run of adarl (recipe.yaml); name a folder that does"
        )
    parts = given.split("/")
    if len(parts) > 2 or not all(parts) or given.startswith((".", "~")):
        raise UserError(
            f"MODEL {given}: there is no such folder, and it is not the form of a hub id, which is owner/name"
        )
    return Model(_name(given), given, given)


def _run(given: str, folder: Path) -> Model:
    model = folder / "model"
    name = folder.absolute().name
    if not (model / "config.json").is_file():
        checkpoints = sorted(p.name for p in (folder / "checkpoints").glob("step-*"))
        state = f"its newest checkpoint is {checkpoints[-1]}" if checkpoints else "it has no checkpoint yet"
        raise UserError(
            f"MODEL {given}: this run has no {model} yet ({state}), and a checkpoint is sharded training state, not a "
            f"model. A run writes its model when it ends: adarl train {folder / 'recipe.yaml'} run.dir={folder} goes on "
            "with it; run.max_steps=STEP ends it earlier"
        )
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
    return Model(name, given, str(model), recipe if isinstance(recipe, dict) else {})


def _name(path: str) -> str:
    """The last part of a path that says something: of tiny_arithmetic/model the first."""
    parts = [part for part in path.split("/") if part]
    return parts[-2] if len(parts) > 1 and parts[-1] == "model" else parts[-1]


def prompt_settings(model: Model, system_prompt: str | None, prompt_suffix: str | None) -> DataSettings:
    """How problems are put to a model: what the user says, else the run's recipe, else the authors' way.

    A run's solved examples come with it. Nothing but the prompt's keys of the result means anything.
    """
    data = model.recipe.get("data", {})
    chosen = {
        "system_prompt": PAPER_SYSTEM_PROMPT if not model.recipe else data.get("system_prompt"),
        "prompt_suffix": PAPER_SUFFIX if not model.recipe else data.get("prompt_suffix", ""),
        "examples": data.get("examples", ()),
    }
    if system_prompt is not None:
        chosen["system_prompt"] = system_prompt
    if prompt_suffix is not None:
        chosen["prompt_suffix"] = prompt_suffix
    return DataSettings.model_validate({"path": "-", "prompts_per_step": 1, **chosen})


def load_tokenizer(model: Model, revision: str | None = None) -> LoadedModel:
    """Tokenizer and context length; a `prepared:` model is built first where it is not in the cache.

    Raises:
        UserError: there is no model that can be loaded.
    """
    from transformers import AutoConfig, AutoTokenizer

    path = locate(model.path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, revision=revision)
        config = AutoConfig.from_pretrained(path, revision=revision)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise UserError(f"{model.given}: no model can be loaded from there ({reason})") from error
    config = getattr(config, "text_config", config)
    return LoadedModel(tokenizer, getattr(config, "max_position_embeddings", None))
