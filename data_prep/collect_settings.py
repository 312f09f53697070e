"""The configuration of data_prep.collect: which sets, which columns, which limits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from adarl.errors import UserError
from adarl.verifier import VerifierSettings

Share = Annotated[float, Field(gt=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Section):
    """One set of problems: a local file (JSONL, parquet, CSV, JSON), prepared:NAME/FILE or a hub id."""

    path: str
    subset: str | None = None  # of a hub set
    split: str = "train"
    revision: str | None = None
    id: str | None = None  # column; None: the set's name and the row number
    problem: str = "problem"  # column
    answer: str = "answer"  # column
    solutions: tuple[str, ...] = ()  # columns of reference solutions; a list of texts in a row is several
    licence: str  # for the data card


class CollectSettings(_Section):
    """What data_prep.collect does."""

    sources: tuple[Source, ...] = Field(min_length=1)
    tokenizer: str | None = None  # model whose tokens the limit counts; None: no limit
    max_prompt_tokens: int = Field(1024, ge=1)  # of the plain problem
    benchmarks: tuple[str, ...] | None = None  # of eval/benchmarks.yaml that training must not see; None: all
    overlap_share: Share = (
        0.6  # of the shorter text's 8-grams: as much in common with a benchmark is too much
    )
    near_duplicate_share: Share = 0.8  # of the longer text's 8-grams
    solutions_must_verify: bool = (
        False  # True: drop where no reference solution is found correct (the paper's rule)
    )
    verifier: VerifierSettings = VerifierSettings()

    @model_validator(mode="after")
    def _solutions_are_there(self) -> "CollectSettings":
        without = [source.path for source in self.sources if not source.solutions]
        if self.solutions_must_verify and without:
            raise ValueError(
                f"solutions_must_verify needs reference solutions: name their columns in sources.solutions of {without[0]}"
            )
        return self


def load_settings(path: Path, overrides: Sequence[str] = ()) -> CollectSettings:
    """Read the YAML file with `key=value` laid over it; `sources.0.path=x` names a field of the first source.

    Raises:
        UserError: not readable, an unknown key, an impossible value.
    """
    try:
        config = OmegaConf.load(path)
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, DictConfig):
        raise UserError(f"{path}: a configuration is a mapping of keys, this is not")
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator or not key:
            raise UserError(f"override {override!r} is not of the form key=value")
        try:
            OmegaConf.update(config, key, yaml.safe_load(value))
        except (OmegaConfBaseException, yaml.YAMLError, IndexError) as error:
            raise UserError(f"override {override!r}: {str(error).splitlines()[0]}") from error
    try:
        return CollectSettings.model_validate(OmegaConf.to_container(config, resolve=True))
    except ValidationError as error:
        errors = error.errors()
        within = {
            e["loc"][:-i] for e in errors for i in range(1, len(e["loc"]))
        }  # a part of them is wrong already
        problems = [
            f"{'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')}"
            for e in errors
            if e["loc"] not in within
        ]
        raise UserError("\n".join(f"{path}: {problem.removeprefix(': ')}" for problem in problems)) from error
