"""The recipe: what a run is, as a schema. Loading one touches no model and no heavy library.

A recipe is a YAML file; it may name another by `extends:`, whose keys it overrides, and the command
line overrides both with `section.key=value`. Unknown keys, wrong types and impossible values are errors
of one sentence that names the key, the value and the fix.
"""

import difflib
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from adarl.errors import UserError
from adarl.settings import AlgorithmSettings, Positive, SamplingSettings, Section, SelectionSettings, Share
from adarl.verifier.settings import VerifierSettings


class RecipeError(UserError):
    """The recipe cannot be run as it stands."""


class RunSettings(Section):
    dir: str | None = Field(None, description="run directory; default runs/<recipe>-<time>")
    seed: int = Field(0, ge=0, description="names every random draw of the run")
    max_steps: Positive = Field(description="turns of the loop")
    save_every: int = Field(0, ge=0, description="steps between checkpoints; 0: only at the end")
    keep_last: Positive = Field(2, description="newest checkpoints kept")
    keep_best: int = Field(0, ge=0, description="best kept besides, by validation's avg_at_k")
    best: Literal["model", "checkpoint"] = Field(
        "model", description="what is kept of the best: a Hugging Face model, or a checkpoint with optimizer"
    )
    on_save_failure: Literal["continue", "stop"] = Field(
        "continue", description="when a checkpoint cannot be written, for example on a full disk"
    )
    resume: str = Field(
        "auto",
        description="auto: go on from the newest whole checkpoint of run.dir, if there is one; never; or a checkpoint's path",
    )
    heartbeat_seconds: float = Field(
        45, ge=10, description="a rank that is silent for so long ends the run, where there are several"
    )
    collective_minutes: float = Field(
        30, gt=0, description="a rank waits so long for the others at one point"
    )


class ModelSettings(Section):
    path: str = Field(description="hub id, local folder or prepared:NAME/SUBPATH")
    revision: str | None = None
    architecture: dict[str, Any] | None = Field(
        None, description="the model's config.json in short, so that `adarl check` can count without network"
    )


class Example(Section):
    problem: str
    response: str


class DataSettings(Section):
    path: str = Field(description="hub id, local file or folder, or prepared:NAME/SUBPATH")
    split: str = "train"
    id: str | None = Field("id", description="column of the ids; null: the row number")
    problem: str = Field("problem", description="column of the problems")
    answer: str = Field("answer", description="column of the gold answers")
    prompts_per_step: Positive
    selection: SelectionSettings = SelectionSettings()
    max_prompt_tokens: Positive = 1024
    system_prompt: str | None = None
    prompt_suffix: str = ""
    examples: tuple[Example, ...] = Field(
        (), description="solved problems shown before each problem, as earlier turns"
    )


class LoraSettings(Section):
    """LoRA, arXiv 2106.09685."""

    rank: Positive = 16
    alpha: Positive = Field(32, description="what the adapters add counts alpha / rank")
    target_modules: str | tuple[str, ...] = Field(
        "all-linear",
        description="linear maps with an adapter, by name or regular expression; default all but the head",
    )


# Keys of DeepSpeed's config that follow from the recipe; another value behind our back would change the training.
OURS_IN_DEEPSPEED = {
    "zero_optimization.stage": "learner.zero_stage",
    "bf16": "learner.dtype",
    "fp16": "learner.dtype",
    "gradient_clipping": "learner.max_grad_norm",
    "train_batch_size": "data.prompts_per_step",
    "train_micro_batch_size_per_gpu": "learner.max_tokens_per_microbatch",
    "gradient_accumulation_steps": "learner.max_tokens_per_microbatch",
}


class LearnerSettings(Section):
    lr: float = Field(1e-6, gt=0)
    warmup_updates: int = Field(10, ge=0, description="updates of linear warm-up")
    weight_decay: float = Field(0.0, ge=0)
    betas: tuple[float, float] = (0.9, 0.999)
    max_grad_norm: float = Field(1.0, gt=0)
    max_bad_updates: Positive = Field(
        10, description="updates in a row without a finite gradient after which the run saves and stops"
    )
    max_tokens_per_microbatch: Positive = 16384
    lora: LoraSettings | None = Field(None, description="train adapters alone; null: the whole model")
    zero_stage: Literal[0, 1, 2, 3] = 3
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    attention: Literal["sdpa", "flash_attention_2"] = "sdpa"
    gradient_checkpointing: bool = False
    liger: bool = Field(False, description="Liger's Triton kernels in the model (CUDA only)")
    offload_optimizer: Literal["none", "cpu"] = "none"
    offload_parameters: Literal["none", "cpu"] = "none"
    sync_bucket_mib: Positive = Field(256, description="bound on the gathered weights alive during a sync")
    deepspeed: dict[str, Any] = Field(
        {}, description="further keys of the DeepSpeed config, passed as they are"
    )

    @field_validator("deepspeed")
    @classmethod
    def _what_is_ours_stays_ours(cls, further: dict[str, Any]) -> dict[str, Any]:
        zero = further.get("zero_optimization")
        held = further.keys() | (
            {"zero_optimization.stage"} if isinstance(zero, dict) and "stage" in zero else set()
        )
        for key in sorted(held & OURS_IN_DEEPSPEED.keys()):
            raise ValueError(
                f"learner.deepspeed.{key} is for {OURS_IN_DEEPSPEED[key]} to say: set that instead"
            )
        return further


class EngineSettings(Section):
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    max_num_seqs: Positive = 256
    kv_cache_gib: float | None = Field(
        None, gt=0, description="null: from gpu_memory_utilization (CUDA only)"
    )
    gpu_memory_utilization: Share = 0.5
    enforce_eager: bool = False
    seed_requests: bool = Field(True, description="one seed a request: the same pools in any schedule")
    sleep: bool = Field(True, description="give device memory to the learner during updates (CUDA only)")
    vllm: dict[str, Any] = Field({}, description="further arguments of vllm.LLM, passed as they are")


class ValidationSettings(Section):
    """Held-out problems; columns and prompts are those of `data:`."""

    path: str = Field(description="hub id, local file or folder, or prepared:NAME/SUBPATH")
    split: str = "test"
    every: Positive = Field(
        20, description="steps between validations; the start and the end are always validated"
    )
    k: Positive = Field(4, description="samples a problem")


class TrackingSettings(Section):
    wandb: Literal["off", "offline", "online"] = "off"
    project: str = "adarl"
    samples_every: int = Field(10, ge=0, description="steps between dumps of all samples; 0: never")


class Recipe(Section):
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    run: RunSettings
    model: ModelSettings
    data: DataSettings
    sampling: SamplingSettings
    algorithm: AlgorithmSettings = AlgorithmSettings()
    learner: LearnerSettings = LearnerSettings()
    engine: EngineSettings = EngineSettings()
    verifier: VerifierSettings = VerifierSettings()
    validation: ValidationSettings | None = None
    tracking: TrackingSettings = TrackingSettings()

    @model_validator(mode="after")
    def _updates_fit(self) -> "Recipe":
        if self.algorithm.updates_per_step > self.data.prompts_per_step:
            raise ValueError(
                f"algorithm.updates_per_step = {self.algorithm.updates_per_step} is more than "
                f"data.prompts_per_step = {self.data.prompts_per_step}: an update needs at least one group"
            )
        return self

    @model_validator(mode="after")
    def _best_needs_validation(self) -> "Recipe":
        if self.run.keep_best and self.validation is None:
            raise ValueError(
                f"run.keep_best = {self.run.keep_best} needs scores: add a validation: section, or set it to 0"
            )
        return self

    @model_validator(mode="after")
    def _parts_go_together(self) -> "Recipe":
        sampling, screened = self.sampling, self.data.selection.screened
        if sampling.strategy == "filtered" and self.algorithm.uniform_groups == "keep":
            raise ValueError(
                "sampling.strategy = filtered replaces groups without signal, and algorithm.uniform_groups = keep would "
                "train on them: set it to drop"
            )
        if self.data.selection.kind != "screened":
            return self
        if sampling.strategy in ("estimated", "two_stage"):
            raise ValueError(
                f"data.selection.kind = screened draws before sampling.strategy = {sampling.strategy} has set its "
                "budgets: take another selection, or one of uniform, positive_focused, balanced, filtered, downsampled"
            )
        most = sampling.group_size if sampling.strategy == "filtered" else sampling.max_samples
        if screened.samples >= most:
            raise ValueError(
                f"data.selection.screened.samples = {screened.samples} leaves nothing of the {most} "
                "samples that sampling.strategy allows a prompt: lower it"
            )
        return self


def load_recipe(path: str | Path, overrides: list[str] | None = None) -> Recipe:
    """Read a recipe with its `extends:` chain and the command line's overrides.

    Args:
        path: the YAML file.
        overrides: `section.key=value` strings; values are YAML.

    Raises:
        RecipeError: anything that is wrong with it, one sentence a problem.
    """
    config = _read(Path(path), seen=())
    for override in overrides or []:
        key, separator, _ = override.partition("=")
        if not separator or not key or key.startswith("-"):
            raise RecipeError(
                f"override {override!r} is not of the form section.key=value, for example run.seed=1"
            )
        try:
            config = _over(config, OmegaConf.from_dotlist([override]), f"override {override!r}")
        except (yaml.YAMLError, OmegaConfBaseException) as error:
            raise RecipeError(f"override {override!r}: the value is not readable as YAML") from error
    try:
        plain = OmegaConf.to_container(config, resolve=True)
    except (OmegaConfBaseException, ValueError) as error:
        raise RecipeError(f"{path}: {str(error).splitlines()[0]}") from error
    assert isinstance(plain, dict)
    plain.setdefault("name", Path(path).stem)
    try:
        return Recipe.model_validate(plain)
    except ValidationError as error:
        raise RecipeError("\n".join(f"{path}: {_sentence(e)}" for e in error.errors())) from None


def _read(path: Path, seen: tuple[Path, ...]) -> DictConfig:
    """One file merged over the one that it extends."""
    if path.resolve() in seen:
        raise RecipeError(f"{path}: `extends:` comes back to this file; break the circle")
    try:
        config = OmegaConf.load(path)
    except FileNotFoundError:
        raise RecipeError(
            f"{path}: there is no such recipe; see recipes/ for those that come with adarl"
        ) from None
    except IsADirectoryError:
        raise RecipeError(f"{path}: is a folder; name a YAML file in it") from None
    except Exception as error:  # YAML's errors have no common base that OmegaConf keeps
        raise RecipeError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, DictConfig):
        raise RecipeError(f"{path}: a recipe is a mapping of sections, this is not")
    base = config.pop("extends", None)
    if base is None:
        return config
    return _over(_read(path.parent / str(base), (*seen, path.resolve())), config, str(path))


def _over(base: DictConfig, config: DictConfig, where: str) -> DictConfig:
    """One configuration laid over another."""
    try:
        merged = OmegaConf.merge(base, config)
    except (OmegaConfBaseException, ValueError, TypeError) as error:  # TypeError: a list over a mapping
        raise RecipeError(f"{where}: {str(error).splitlines()[0]}") from error
    assert isinstance(merged, DictConfig)
    return merged


def _sentence(error: ErrorDetails) -> str:
    """One pydantic error as a sentence that names the key, the value and the fix."""
    key = ".".join(str(part) for part in error["loc"])
    value, message = error["input"], error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        close = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
        return f"unknown key {key}: {hint}"
    if error["type"] == "missing":
        return f"{key} is not set: every recipe needs it"
    if error["type"] == "value_error":  # our own validators already say it all
        return message
    return f"{key} = {value!r}: {message[0].lower()}{message[1:]}"


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Recipe
    for part in location:
        model = _model_in(model.model_fields[str(part)].annotation) or model
    return sorted(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The section of `Section` and of `Section | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := _model_in(argument))), None)
