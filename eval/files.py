"""Files that are whole or absent, and folders that hold one configuration."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from adarl.errors import UserError

CONFIG_FILE = "config.json"


def write_whole(path: Path, text: str) -> None:
    """Write under a temporary name, of this process alone, and rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def digest_of(content: Any) -> str:
    """64 bits of the SHA-256 of plain values, in hexadecimal."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def open_folder(folder: Path, config: dict[str, Any]) -> None:
    """Make the folder for this configuration, or check that it holds the same one.

    Raises:
        UserError: another configuration or something else lies there.
    """
    path = folder / CONFIG_FILE
    wanted = json.loads(json.dumps(config))  # as it reads back: tuples become lists
    if path.exists():
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: not readable ({error}); give another folder") from error
        changed = [key for key in {**held, **wanted} if held.get(key) != wanted.get(key)]
        if changed:
            differences = "; ".join(
                f"{key} is {_short(held.get(key))} there, {_short(wanted.get(key))} now" for key in changed
            )
            raise UserError(
                f"{folder} holds the results of another configuration: {differences}. Give another folder."
            )
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and holds no results; give a new or an empty folder.")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(wanted, indent=2, ensure_ascii=False) + "\n")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
