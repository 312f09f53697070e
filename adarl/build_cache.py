"""Where DeepSpeed's compiled operations lie, and that a killed build blocks nobody.

torch keeps compiled operations of all environments in one folder, where two environments with the same operation
compile it anew at every turn (half a minute each here), and a build that is killed leaves a lock that everybody
after it waits for, without end. So each environment has a folder, and its first process removes old locks.
"""

import fcntl
import hashlib
import os
import sys
from pathlib import Path
from typing import TextIO

_held: list[TextIO] = []  # open for the life of the process


def use_own_folder() -> None:
    """Name the folder to torch, unless the user has; remove the locks in it when no process of ours is alive.

    This environment's programs come first in PATH: another version of ninja takes what is compiled for outdated.
    """
    programs, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    if path.split(os.pathsep)[0] != programs:
        os.environ["PATH"] = os.pathsep.join((programs, path))
    if "TORCH_EXTENSIONS_DIR" in os.environ:
        return
    name = hashlib.sha256(sys.prefix.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("ADARL_CACHE") or "~/.cache/adarl").expanduser().absolute()
    folder = cache / f"torch_extensions-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_stale_locks(folder)
    except OSError:  # a home that cannot be written to: torch's own place then
        return
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)


def remove_stale_locks(folder: Path) -> None:
    """Remove torch's locks if nobody else uses the folder; count as one who does from here on."""
    users = (folder / ".users").open("a")
    _held.append(users)
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(users, fcntl.LOCK_SH)
        return
    for lock in folder.rglob("lock"):
        lock.unlink(missing_ok=True)
    fcntl.flock(users, fcntl.LOCK_SH)
