"""One rank of a job: `python -m eval.rank JOB SHARDS PARENT`, started by eval.job.

Heavy libraries are imported inside the functions, because they read the environment that is set first.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adarl.config import EngineSettings
from adarl.errors import UserError
from adarl.launch import preload_libraries, prepare_environment
from adarl.seeds import derive_seed
from adarl.verifier import Verifier, VerifierSettings
from adarl.verifier.worker import die_with_parent
from eval.cli import disk_problem
from eval.evaluate import answers
from eval.job import Job, rank_and_world
from eval.progress import Progress
from eval.shards import Shard, finished_rows

if TYPE_CHECKING:
    from adarl.engine import VllmEngine


def pin_device() -> None:
    """Leave this rank the one CUDA device that is its own: each rank's engine takes the first it sees."""
    if int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"))) == 1:
        return
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    visible = [d for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d.strip()]
    os.environ["CUDA_VISIBLE_DEVICES"] = visible[local_rank] if visible else str(local_rank)


def run_rank(job: Job, shards: Path) -> None:
    """Draw this rank's share, `tasks[rank::world_size]`, without what any rank has drawn before."""
    rank, world_size = rank_and_world()
    done = finished_rows(shards).keys()
    mine = job.tasks[rank::world_size]
    missing = sum(t.key(index) not in done for t in mine for index in range(job.k))
    if not missing:
        return

    def say(line: str) -> None:
        if rank == 0:
            print(f"adarl: {job.what}: {line}", flush=True)

    if done:
        say(f"{len(done)} of {len(job.keys)} samples are finished already")
    with Shard(shards, rank) as shard, Verifier(VerifierSettings.model_validate(job.verifier)) as verifier:
        engine = start_engine(job)
        what = "samples" if world_size == 1 else f"samples of the first of {world_size} ranks"
        progress = Progress(what, missing, say, "tokens")
        for key, result in answers(mine, engine, verifier, job.k, done):
            shard.append({"key": key, **result.to_row(job.keep_texts)})
            progress.add(result.num_tokens)
        engine.shutdown()


def start_engine(job: Job) -> "VllmEngine":
    """An engine of this rank's own: ranks share nothing but the folder."""
    from adarl.engine import VllmEngine

    return VllmEngine(
        job.model_path,
        EngineSettings.model_validate(job.engine),
        revision=job.revision,
        # Only their sum counts: a response may fill what its prompt leaves of the model's context.
        max_prompt_tokens=job.max_sequence - job.max_new_tokens,
        max_response_tokens=job.max_new_tokens,
        temperature=job.temperature,
        seed=derive_seed("eval engine") % 2**31,
        distributed=False,
        logprobs=False,
    )


def main() -> int:
    """Exit code 2 for what the user can mend."""
    job, shards, parent = sys.argv[1:]
    die_with_parent(int(parent))  # a rank left behind would write into the same shard as the next call
    preload_libraries()
    pin_device()
    prepare_environment()
    try:
        run_rank(Job.read(Path(job)), Path(shards))
    except UserError as error:
        print(f"adarl: {error}", file=sys.stderr, flush=True)
        return 2
    except OSError as error:
        print(f"adarl: {disk_problem(error)}", file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
