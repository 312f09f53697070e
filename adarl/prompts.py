"""Problems of a data set -> prompts as the model sees them, and the seeded, resumable stream of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from adarl.config import DataSettings
from adarl.errors import UserError
from adarl.seeds import derive_seed
from adarl.templated import templated
from adarl.types import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLAIN_TEMPLATE = "{% for m in messages %}{{ m.content }}{% if not loop.last %}\n\n{% endif %}{% endfor %}"
"""What a tokenizer without a chat template gets: the texts of the messages, nothing around them."""

LOADERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}


class DataError(UserError):
    """The data set cannot be used as it stands."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One row of a data set."""

    id: str
    problem: str
    answer: str
    difficulty: float | None = None  # from 0 to 100, where the recipe's selection reads it


def load_problems(path: str, settings: DataSettings) -> list[Problem]:
    """Read a hub data set, a local file or a folder of files (JSONL, JSON, parquet, CSV).

    Columns are named by the recipe; `a.b` names field b of the struct in column a.

    Raises:
        DataError: no such data, a missing column, an id that occurs twice, an empty problem or answer, a
            difficulty that is none, or a problem that has a template or an instruction around it already.
    """
    rows = _load_rows(path, settings.split)
    problems = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows):
        where = f"{path}, row {number}"
        id_ = str(number) if settings.id is None else _text(row, settings.id, "data.id", where)
        problem = _text(row, settings.problem, "data.problem", where)
        answer = _text(row, settings.answer, "data.answer", where)
        if not problem.strip() or not answer.strip():
            empty = settings.answer if problem.strip() else settings.problem
            raise DataError(f"{where}: column {empty!r} is empty; drop the row: it could never be rewarded")
        if (hint := templated(problem)) is not None:
            raise DataError(f"{where}: {hint} (data.problem = {settings.problem})")
        if id_ in seen:
            raise DataError(
                f"{where}: id {id_!r} stands in row {seen[id_]} too; make ids unique or set data.id: null"
            )
        seen[id_] = number
        problems.append(Problem(id_, problem, answer, _difficulty(row, settings, where)))
    if not problems:
        raise DataError(f"{path}: holds no problem")
    return problems


def _difficulty(row: Mapping[str, Any], settings: DataSettings, where: str) -> float | None:
    if settings.selection.kind != "adaptive_difficulty":
        return None
    key = "data.selection.adaptive_difficulty.column"
    value = _column(row, settings.selection.adaptive_difficulty.column, key, where)
    if not isinstance(value, int | float) or not 0 <= value <= 100:
        raise DataError(
            f"{where}: difficulty {value!r} is not a number from 0 to 100; mend the row or set {key}"
        )
    return float(value)


def _load_rows(path: str, split: str) -> Iterable[Mapping[str, Any]]:
    import datasets

    local = Path(path).expanduser()
    if local.is_dir():
        files = sorted(f for f in local.iterdir() if f.suffix in LOADERS)
        suffixes = {f.suffix for f in files}
        if len(suffixes) != 1:
            raise DataError(f"{path}: a data folder holds files of one kind out of {', '.join(LOADERS)}")
    elif local.is_file():
        files, suffixes = [local], {local.suffix}
        if local.suffix not in LOADERS:
            raise DataError(f"{path}: cannot read {local.suffix!r} files; use one of {', '.join(LOADERS)}")
    else:
        return _load_hub(path, split)
    if not any(f.stat().st_size for f in files):  # which the library takes for the end of an iterator
        raise DataError(f"{path}: is empty")
    try:
        loader = LOADERS[suffixes.pop()]
        return datasets.load_dataset(loader, data_files=[str(f) for f in files], split="train")
    except (datasets.exceptions.DatasetGenerationError, ValueError) as error:
        cause = error.__cause__ or error
        raise DataError(f"{path}: not readable: {' '.join(str(cause).split())[:200]}") from error


def _load_hub(path: str, split: str) -> Iterable[Mapping[str, Any]]:
    import datasets

    try:
        return datasets.load_dataset(path, split=split)
    except Exception as error:  # the hub client's errors have no common base
        raise DataError(
            f"{path}: neither a local file or folder nor a data set that the hub gives "
            f"({type(error).__name__}); check data.path, or name a local folder of JSONL files"
        ) from error


def _column(row: Mapping[str, Any], name: str, key: str, where: str) -> Any:
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = ", ".join(map(str, row))
            raise DataError(f"{where}: no column {name!r}; set {key} to one of: {known}")
        value = value[part]
    return value


def _text(row: Mapping[str, Any], name: str, key: str, where: str) -> str:
    value = _column(row, name, key, where)
    if isinstance(value, list | Mapping):
        raise DataError(
            f"{where}: column {name!r} holds a {type(value).__name__}, not a text (a list of messages is a prompt that "
            f"is rendered already); set {key} to the column of the plain texts, or to a field as {name}.FIELD"
        )
    return "" if value is None else str(value)


def messages(problem: str, settings: DataSettings) -> list[dict[str, str]]:
    """The conversation that asks a problem: system prompt, solved examples, the problem with its suffix."""
    turns = [("system", settings.system_prompt)] if settings.system_prompt else []
    for example in settings.examples:
        turns += [("user", example.problem + settings.prompt_suffix), ("assistant", example.response)]
    turns.append(("user", problem + settings.prompt_suffix))
    return [{"role": role, "content": content} for role, content in turns]


def render(problem: str, settings: DataSettings, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """Token ids of the rendered conversation, ready for the model to answer."""
    template = None if tokenizer.chat_template else PLAIN_TEMPLATE
    text = tokenizer.apply_chat_template(
        messages(problem, settings), chat_template=template, add_generation_prompt=True, tokenize=False
    )
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def build_prompts(
    problems: Sequence[Problem],
    settings: DataSettings,
    tokenizer: "PreTrainedTokenizerBase",
    gold_error: Callable[[str], str | None],
) -> tuple[list[Prompt], list[str]]:
    """Render all problems; return the prompts that can be trained on, and a sentence on each kind left out.

    Args:
        gold_error: of a gold answer, None if a response can be graded against it, else why not.

    Raises:
        DataError: fewer prompts are left than one step needs.
    """
    prompts, too_long, unreadable = [], 0, []
    for p in problems:
        prompt = Prompt(
            p.id, p.problem, p.answer, tuple(render(p.problem, settings, tokenizer)), p.difficulty
        )
        if len(prompt.token_ids) > settings.max_prompt_tokens:
            too_long += 1
        elif (reason := gold_error(p.answer)) is not None:
            unreadable.append(f"{p.id}: {reason}")
        else:
            prompts.append(prompt)
    notes = []
    if too_long:
        notes.append(
            f"{too_long} prompts are longer than data.max_prompt_tokens = {settings.max_prompt_tokens}"
        )
    if unreadable:
        notes.append(f"{len(unreadable)} gold answers cannot be graded against, for example {unreadable[0]}")
    if len(prompts) < settings.prompts_per_step:
        raise DataError(
            f"{settings.path}: {len(prompts)} of {len(problems)} prompts can be trained on, but data.prompts_per_step = "
            f"{settings.prompts_per_step}: lower it or bring more prompts{''.join(f' ({note})' for note in notes)}"
        )
    return prompts, notes


class PromptStream:
    """Prompts in an order that depends on the seed alone, epoch after epoch, each shuffled anew.

    No prompt comes twice in one step: what is left of an epoch and too little for a step is passed over.
    `position` counts the prompts that the stream has gone past; a stream made with it goes on from there.
    """

    def __init__(self, prompts: Sequence[Prompt], seed: int, position: int = 0):
        self._prompts = prompts
        self._seed = seed
        self.position = position
        self._epoch = -1
        self._order: list[int] = []

    @property
    def num_prompts(self) -> int:
        """Prompts of an epoch."""
        return len(self._prompts)

    def take(self, count: int) -> list[Prompt]:
        """The next `count` prompts, all different."""
        size = len(self._prompts)
        if count > size:
            raise ValueError(f"a step of {count} prompts needs as many in the data, there are {size}")
        if size - self.position % size < count:
            self.position += size - self.position % size
        epoch, start = divmod(self.position, size)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, list(range(size))
            Random(derive_seed("data", self._seed, epoch)).shuffle(self._order)
        self.position += count
        return [self._prompts[i] for i in self._order[start : start + count]]
