"""The learner's sharded state on disk: through accelerate and DeepSpeed, and what they leave open.

They write from many ranks between barriers, and a rank that meets a full disk in the middle would leave the others
waiting at the next one. So every write is caught, the rank takes part in the rest, and raises at the end.
"""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import set_seed
from deepspeed.runtime.checkpoint_engine import TorchCheckpointEngine

SHARDS = "pytorch_model"  # accelerate's name for the folder of the first model
_FULL = 1 << 20  # bytes free on a disk that is called full


class _CarryOn(TorchCheckpointEngine):
    """DeepSpeed's writer, which keeps the first error for the end of the save."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.error: OSError | RuntimeError | None = None

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._attempt(path, lambda: super(_CarryOn, self).makedirs(path, exist_ok=exist_ok))

    def save(self, state_dict: Any, path: str) -> None:
        if self.error is None:
            self._attempt(path, lambda: super(_CarryOn, self).save(state_dict, path))

    def _attempt(self, path: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, RuntimeError) as error:
            self.error = _in_plain_words(error, Path(path).parent)


def _in_plain_words(error: OSError | RuntimeError, folder: Path) -> OSError | RuntimeError:
    """torch's RuntimeError says nothing of the disk."""
    if isinstance(error, RuntimeError) and shutil.disk_usage(folder).free < _FULL:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    return error


def save(accelerator: Accelerator, engine: Any, folder: Path, on_each_node: bool) -> None:
    """Write sharded weights, optimizer, schedule and random generators; all ranks together.

    Args:
        on_each_node: the folder is local to each node, so each gets what all ranks share.

    Raises:
        OSError, RuntimeError: this rank could not write; it has taken part in everything before.
    """
    writer = _CarryOn(engine._config)
    engine.checkpoint_engine = writer
    engine._copy_recovery_script = lambda folder: None  # not needed, and it would fail outside of the writer
    accelerator.project_configuration.save_on_each_node = on_each_node
    try:
        accelerator.save_state(str(folder), save_latest=False)
    except (OSError, RuntimeError) as error:  # of accelerate's own files, which come after the last barrier
        raise writer.error or _in_plain_words(error, folder) from error
    if writer.error is not None:
        raise writer.error


def load(accelerator: Accelerator, folder: Path) -> None:
    """Read what `save` wrote; all ranks together, as many as wrote it, or a folder that `convert` has made."""
    if not (folder / f"random_states_{accelerator.process_index}.pkl").exists():
        set_seed(accelerator.process_index)  # an added rank's generators start anew
    accelerator.load_state(str(folder))


def take_any_number_of_ranks(accelerator: Accelerator) -> None:
    """Make the learner that is built next read what `convert` writes."""
    config = accelerator.state.deepspeed_plugin.deepspeed_config
    config["checkpoint"] = {**config.get("checkpoint", {}), "load_universal": True}


def convert(folder: Path, out: Path) -> None:
    """Write a checkpoint of ZeRO stage 3 anew for any number of ranks (DeepSpeed's universal checkpoint).

    Takes as much disk as the checkpoint, once more while it works. One process, before a learner is built.

    Raises:
        RuntimeError: DeepSpeed could not convert it.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal"]
    given = ["--input_folder", str(folder / SHARDS), "--output_folder", str(out / SHARDS)]
    done = subprocess.run(
        [*command, *given, "--num_extract_workers", "1", "--num_merge_workers", "1"],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"DeepSpeed cannot convert {folder}: {done.stderr.strip().splitlines()[-1]}")
    for file in folder.iterdir():
        if file.is_file():
            shutil.copy2(file, out / file.name)


def shards_missing(folder: Path, world_size: int) -> list[int]:
    """The ranks whose shards are not in a checkpoint: they lie on other nodes."""
    names = [f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(world_size)]
    return [rank for rank, name in enumerate(names) if not (folder / SHARDS / name).exists()]
