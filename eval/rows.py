"""Rows of a local file or of a hub data set, as plain dictionaries."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from adarl.errors import UserError

LOADERS = {".parquet": "parquet", ".csv": "csv", ".json": "json"}
Row = Mapping[str, Any]


def local_rows(path: Path) -> list[Row]:
    """The rows of a JSONL, parquet, CSV or JSON file.

    Raises:
        UserError: no such file, another kind of file, or not readable.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    if path.suffix == ".jsonl":
        return _json_lines(path)
    if path.suffix not in LOADERS:
        raise UserError(f"{path}: cannot read {path.suffix!r} files; use .jsonl, {', '.join(LOADERS)}")
    import datasets

    try:
        return list(datasets.load_dataset(LOADERS[path.suffix], data_files=str(path), split="train"))
    except (datasets.exceptions.DatasetGenerationError, ValueError) as error:
        cause = " ".join(str(error.__cause__ or error).split())[:200]
        raise UserError(f"{path}: not readable: {cause}") from error


def _json_lines(path: Path) -> list[Row]:
    rows: list[Row] = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UserError(f"{path}, line {number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise UserError(f"{path}, line {number}: a line is one JSON object, this is not")
            rows.append(row)
    return rows


def hub_rows(id: str, split: str, revision: str | None = None, subset: str | None = None) -> Iterable[Row]:
    """The rows of a data set of the Hugging Face hub.

    Raises:
        UserError: the hub does not give it.
    """
    import datasets

    try:
        rows: Iterable[Row] = datasets.load_dataset(id, subset, split=split, revision=revision)
    except Exception as error:  # the hub client's errors have no common base
        reason = " ".join(str(error).split())[:160]
        raise UserError(
            f"{id}: the hub does not give split {split!r} at revision {revision or 'main'} "
            f"({type(error).__name__}: {reason})"
        ) from error
    return rows


def field(row: Row, column: str, where: str) -> Any:
    """One value of a row; `a.b` names field b of the struct in column a.

    Raises:
        UserError: there is no such column.
    """
    value: Any = row
    for part in column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise UserError(f"{where}: no column {column!r}; there are {', '.join(map(str, row))}")
        value = value[part]
    return value


def text(value: Any) -> str:
    """A cell as text; nothing is the empty text."""
    return "" if value is None else str(value)
