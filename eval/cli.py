"""What the commands of eval and data_prep share: a user's mistake as a sentence, settings as key=value."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
import yaml
from pydantic import BaseModel, ValidationError
from rich.console import Console

from adarl.errors import UserError

Settings = TypeVar("Settings", bound=BaseModel)


def run_app(command: Callable[..., Any]) -> None:
    """Run one command as a program: a mistake of the user's is a sentence and exit code 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        app(standalone_mode=True)
    except UserError as error:
        for line in str(error).splitlines():
            print(f"adarl: {line}", file=sys.stderr, flush=True)
        sys.exit(2)
    except OSError as error:  # a folder that cannot be written, a full disk
        print(f"adarl: {disk_problem(error)}", file=sys.stderr, flush=True)
        sys.exit(2)


def disk_problem(error: OSError) -> str:
    """A sentence about a file that cannot be read or written."""
    return f"cannot read or write {error.filename or 'a file'}: {error.strerror or error}"


def with_changes(settings: Settings, changes: Sequence[str] | None, option: str) -> Settings:
    """Settings with `key=value` strings laid over them; values are YAML.

    Raises:
        UserError: not of that form, an unknown key or an impossible value.
    """
    values = settings.model_dump()
    for change in changes or ():
        key, separator, value = change.partition("=")
        if not separator or key not in values:
            raise UserError(f"{option} {change}: give key=value with one of the keys {', '.join(values)}")
        try:
            values[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"{option} {change}: the value is not readable as YAML") from error
    try:
        return type(settings).model_validate(values)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc']))} = {e['input']!r}: {e['msg']}" for e in error.errors()]
        raise UserError("\n".join(f"{option}: {problem}" for problem in problems)) from error


def console() -> Console:
    """The terminal; where the output goes to a file, wide enough for a table."""
    screen = Console()
    if not screen.is_terminal:
        screen.width = 150
    return screen
