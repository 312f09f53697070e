"""Rows of problem sets as candidates for training, and what is left out of them with a reason."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adarl.errors import UserError
from adarl.prepared import PREFIX, locate
from adarl.templated import templated
from data_prep.collect_settings import Source
from eval.rows import Row, field, hub_rows, local_rows, text

_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n ?")
_EMPTY_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One problem of a source."""

    id: str
    source: str
    problem: str
    answer: str
    solutions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """A problem that was left out: at which stage, and a sentence."""

    id: str
    source: str
    stage: str
    reason: str


def drop(candidate: Candidate, stage: str, reason: str) -> Dropped:
    return Dropped(candidate.id, candidate.source, stage, reason)


def clean(problem: str) -> str:
    """Normalised white space: no runs of spaces, none at the ends of lines, at most one empty line."""
    return _EMPTY_LINES.sub("\n\n", _LINES.sub("\n", _SPACES.sub(" ", problem))).strip()


def read_candidates(sources: Sequence[Source]) -> list[Candidate]:
    """The rows of all sources in order, with cleaned problems.

    Raises:
        UserError: a source or a column is missing, an id comes twice, or problems are rendered prompts.
    """
    candidates: list[Candidate] = []
    seen: dict[str, str] = {}
    for source in sources:
        name = source_name(source)
        for number, row in enumerate(_rows(source)):
            where = f"{source.path}, row {number}"
            candidate = _candidate(row, number, name, source, where)
            if (hint := templated(candidate.problem)) is not None:
                raise UserError(f"{where}: {hint}")
            if candidate.id in seen:
                raise UserError(
                    f"{where}: id {candidate.id!r} stands in {seen[candidate.id]} too; leave out `id` of one source, "
                    "its rows are then numbered"
                )
            seen[candidate.id] = where
            candidates.append(candidate)
    return candidates


def source_name(source: Source) -> str:
    """A hub set's id, a file's name without its ending."""
    path = source.path.removeprefix(PREFIX)
    return Path(path).stem if _is_file(source) else path


def _is_file(source: Source) -> bool:
    return source.path.startswith(PREFIX) or Path(source.path).expanduser().is_file()


def _rows(source: Source) -> Any:
    if _is_file(source):
        return local_rows(Path(locate(source.path)).expanduser())
    if source.path.startswith((".", "/", "~")) or source.path.count("/") > 1:
        raise UserError(
            f"{source.path}: there is no such file, and it is not the form of a hub id, which is owner/name"
        )
    return hub_rows(source.path, source.split, source.revision, source.subset)


def _candidate(row: Row, number: int, name: str, source: Source, where: str) -> Candidate:
    id = f"{name}-{number}" if source.id is None else text(field(row, source.id, where))
    solutions: list[str] = []
    for column in source.solutions:
        value = field(row, column, where)
        solutions += [
            text(v) for v in (value if isinstance(value, list | tuple) else [value]) if v is not None
        ]
    problem, answer = (text(field(row, column, where)) for column in (source.problem, source.answer))
    return Candidate(id, name, clean(problem), answer.strip(), tuple(solutions))
