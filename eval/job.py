"""One model's sampling as a file, and the processes that do it: one a device, each with an engine of its own.

The processes start before any heavy library is loaded here, and end with this one. Where a launcher has started
this process as one of several ranks (RANK and WORLD_SIZE are set), it does its own rank's part alone.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from adarl.errors import UserError
from adarl.launch import has_cuda, num_local_devices
from adarl.types import Prompt
from eval.evaluate import Task, assemble
from eval.files import write_whole
from eval.records import ProblemResult, SampleResult
from eval.shards import finished_rows, wait_for_rows


@dataclass(frozen=True, slots=True)
class Job:
    """What a rank needs to answer its share of the tasks."""

    what: str  # for the progress line
    model_path: str
    revision: str | None
    engine: dict[str, Any]  # EngineSettings
    verifier: dict[str, Any]  # VerifierSettings
    max_sequence: int  # prompt and response, tokens
    max_new_tokens: int
    temperature: float
    k: int
    keep_texts: bool
    tasks: Sequence[Task]

    @property
    def keys(self) -> list[str]:
        """Of all samples."""
        return [t.key(index) for t in self.tasks for index in range(self.k)]

    def write(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self), ensure_ascii=False))

    @staticmethod
    def read(path: Path) -> "Job":
        held = json.loads(path.read_text(encoding="utf-8"))
        tasks = []
        for t in held.pop("tasks"):
            prompt = Prompt(**{**t["prompt"], "token_ids": tuple(t["prompt"]["token_ids"])})
            tasks.append(Task(t["benchmark"], prompt, t["seed"]))
        return Job(**held, tasks=tasks)


def default_ranks() -> int:
    """One on each device. On a CPU two share its cores: threads of one engine wait for each other at every operation."""
    return num_local_devices() if has_cuda() else min(2, len(os.sched_getaffinity(0)))


def rank_and_world() -> tuple[int, int]:
    """Of this process, as a launcher says; (0, 1) without one."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def run_job(job: Job, folder: Path, num_devices: int) -> list[ProblemResult] | None:
    """Draw all samples, those excepted that were drawn before.

    Args:
        folder: holds `shards/`, which a killed call leaves for the next.
        num_devices: processes to start, where no launcher has.

    Returns:
        The problems in the order of the tasks; None on a rank other than 0.

    Raises:
        UserError: a rank failed; what was finished is kept.
    """
    shards = folder / "shards"
    done = finished_rows(shards)
    if not all(key in done for key in job.keys):
        path = folder / f".job.rank-{rank_and_world()[0]}.json"
        job.write(path)
        try:
            _run_ranks(path, shards, num_devices)
        finally:
            path.unlink(missing_ok=True)
    if rank_and_world()[0] != 0:
        return None
    rows = wait_for_rows(shards, job.keys)
    return assemble(job.tasks, {key: SampleResult.from_row(row) for key, row in rows.items()}, job.k)


def _run_ranks(job: Path, shards: Path, num_devices: int) -> None:
    command = [sys.executable, "-m", "eval.rank", str(job), str(shards), str(os.getpid())]
    if "WORLD_SIZE" in os.environ:
        ranks = [subprocess.Popen(command)]
    else:
        ranks = [subprocess.Popen(command, env=_rank_environment(r, num_devices)) for r in range(num_devices)]
    try:
        while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
            time.sleep(0.2)
        for number, rank in enumerate(ranks):
            if code := rank.poll():
                how = (
                    f"by signal {-code}, as the kernel does where memory runs out"
                    if code < 0
                    else "by an error"
                )
                raise UserError(
                    f"sampling process {number} was ended {how}; see its messages above. What was finished is kept: "
                    "run the same command again"
                )
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def _rank_environment(rank: int, world_size: int) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0))
    mine = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size}
    threads = {"OMP_NUM_THREADS": str(max(1, cores // world_size))}
    return {**threads, **os.environ, **{key: str(value) for key, value in mine.items()}}
