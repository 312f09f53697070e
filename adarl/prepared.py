"""Models and prompts that the project makes itself, built on first use and kept in a cache.

A recipe names them as `prepared:NAME/SUBPATH`, for instance `prepared:tiny_arithmetic/model`. Their folder
in the cache carries a hash of what they are made from, so an edited builder or another torch is built anew
and never mistaken for the old one.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from adarl.errors import UserError

PREFIX = "prepared:"

#: The modules that take `--out DIR` and fill it, by the name that recipes use.
BUILDERS = {
    "smollm2": "data_prep.smollm2",
    "tiny_arithmetic": "data_prep.tiny_arithmetic",
}


def locate(path: str, build: bool = True) -> str:
    """The local path that `path` stands for; a path that is not `prepared:NAME/SUBPATH` is returned unchanged.

    With `build`, a folder that is not in the cache yet is built there in a subprocess whose output is shown.
    Processes that ask at the same time build it once. Without `build` nothing is written, and the returned
    path may not exist.

    Raises:
        UserError: NAME is unknown, what NAME holds has no SUBPATH, or the builder failed; then the cache is
            as it was before.
    """
    if not path.startswith(PREFIX):
        return path
    name, _, subpath = path.removeprefix(PREFIX).partition("/")
    folder = _folder(name)
    if build and not folder.is_dir():
        _build(name, folder)
    target = folder / subpath
    if folder.is_dir() and not target.exists():
        held = ", ".join(sorted(entry.name for entry in folder.iterdir()))
        raise UserError(f"'{path}': {name} has no '{subpath}'; it holds {held}.")
    return str(target)


def is_built(path: str) -> bool:
    """Whether `locate(path)` would return at once: `path` is not a prepared one, or it lies in the cache."""
    return not path.startswith(PREFIX) or Path(locate(path, build=False)).exists()


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `path` when the block ends and vanishes when the block raises.

    Raises:
        FileExistsError: `path` exists and is not an empty folder.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"{path} exists already; remove it or name another folder.")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final place, since a rename is atomic only within one file system.
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        staging.chmod(0o755)  # mkdtemp's 0700 would hide the result from others who share the cache
        yield staging
        staging.rename(path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _folder(name: str) -> Path:
    """<cache>/<name>-<hash of the builder's source and of the libraries that decide what it writes>."""
    if name not in BUILDERS:
        raise UserError(
            f"'{PREFIX}{name}' is unknown; there are {', '.join(PREFIX + n for n in sorted(BUILDERS))}."
        )
    spec = importlib.util.find_spec(BUILDERS[name])
    if spec is None or spec.origin is None:
        raise UserError(f"'{PREFIX}{name}' is made by {BUILDERS[name]}, which is not installed.")
    digest = hashlib.sha256(Path(spec.origin).read_bytes())
    for package in ("torch", "tokenizers"):
        digest.update(f"{package}=={importlib.metadata.version(package)}\n".encode())
    cache = os.environ.get("ADARL_CACHE") or "~/.cache/adarl"
    return Path(cache).expanduser().absolute() / f"{name}-{digest.hexdigest()[:12]}"


def _build(name: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():  # another process built it while this one waited
            return
        print(f"Preparing {name} in {folder} (once; later runs find it there)", flush=True)
        with new_directory(folder) as staging:
            command = [sys.executable, "-m", BUILDERS[name], "--out", str(staging)]
            status = subprocess.run(command, env=_own_environment(), check=False).returncode
            if status != 0:
                raise UserError(
                    f"Preparing {name} failed: `{' '.join(command)}` ended with exit code {status}."
                )


def _own_environment() -> dict[str, str]:
    """The environment less what a rank or a preloaded OpenMP changes: the same bytes whoever asks first."""
    changing = ("LD_PRELOAD", "OMP_", "KMP_", "MKL_", "RANK", "LOCAL_RANK", "WORLD_SIZE")
    return {key: value for key, value in os.environ.items() if not key.startswith(changing)}
