"""Work that survives a kill: each rank appends finished records to a file of its own, one line of JSON each.

A record is on disk when `append` returns. What a kill cuts short is the last line: it has no line feed and is
ignored, so its record is simply made again.
"""

import fcntl
import json
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

from adarl.errors import UserError

Row = dict[str, Any]


class Shard:
    """The file of this rank, open for appending by this process alone. A half-written last line is cut off first.

    Raises:
        UserError: another process has it open.
    """

    def __init__(self, folder: Path, rank: int):
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(_path(folder, rank), "ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"{_path(folder, rank)}: another process is writing there; let it end first"
            ) from error
        whole = _whole_bytes(_path(folder, rank))
        if self._file.tell() != whole:
            self._file.truncate(whole)

    def append(self, row: Row) -> None:
        """Write one record and wait until the disk has it."""
        self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def finished_rows(folder: Path) -> dict[str, Row]:
    """The whole records of all ranks by their "key", whatever number of ranks wrote them; none without a folder.

    Raises:
        UserError: a line is not what `append` writes.
    """
    rows: dict[str, Row] = {}
    for path in sorted(folder.glob("rank-*.jsonl")):
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):  # cut short by a kill, or being written now
                    break
                try:
                    row = json.loads(line)
                    rows.setdefault(row["key"], row)
                except (ValueError, KeyError, TypeError) as error:
                    raise UserError(
                        f"{path}, line {number}: damaged; delete the line and run again"
                    ) from error
    return rows


def wait_for_rows(folder: Path, keys: Collection[str], seconds: float = 5.0) -> dict[str, Row]:
    """The records of all ranks by key, once they hold all of `keys`.

    Waits as long as it takes: a launcher ends this process when another rank fails.
    """
    while True:
        rows = finished_rows(folder)
        if all(key in rows for key in keys):
            return rows
        time.sleep(seconds)


def _path(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.jsonl"


def _whole_bytes(path: Path) -> int:
    """Bytes of the file up to and with its last line feed."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        end = size
        while end > 0:  # backwards in blocks: a shard may hold gigabytes
            start = max(0, end - (1 << 20))
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0
