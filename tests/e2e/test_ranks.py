"""Several ranks, on one node and on two: another number of them, nodes without a shared disk, ranks that die."""

import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e import runs
from tests.e2e.scripted_runs import Run, finish, start

TWO = ("--num_accelerators", "2")
SHORT = ("run.heartbeat_seconds=10",)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps on two ranks."""
    folder = tmp_path_factory.mktemp("two") / "run"
    finish(folder, "run.max_steps=4", launcher=TWO)
    return folder


def on_two_nodes(
    folder: Path, *keys: str, own: Path | None = None, name: str = "log", **env: str
) -> list[Run]:
    """What `srun` starts: one launcher a node, no ssh between them.

    Args:
        own: what the second node sees in place of the folder's parent, as a disk of its own; needs root.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    folder.parent.mkdir(exist_ok=True)
    hostfile = folder.parent.parent / "hostfile"
    hostfile.write_text("node1 slots=1\nnode2 slots=1\n")
    nodes = []
    for node in (0, 1):
        options = ("--hostfile", str(hostfile), "--no_ssh", "--node_rank", str(node))
        options += ("--master_addr", "127.0.0.1", "--master_port", port)
        within: tuple[str, ...] = ()
        if node and own is not None:
            mount = f'mount --bind {own} {folder.parent} && exec "$@"'
            within = ("unshare", "--mount", "bash", "-c", mount, "bash")
        nodes.append(
            start(folder, *SHORT, *keys, launcher=options, within=within, name=f"{name}-node{node}", **env)
        )
    return nodes


@pytest.fixture
def started() -> Iterator[list[Run]]:
    """Runs that are ended whatever becomes of the test."""
    ours: list[Run] = []
    yield ours
    for run in ours:
        run.kill()


def rank_processes(run: Run) -> dict[int, int]:
    """Pids of a launcher's ranks, by rank."""
    below = psutil.Process(run.process.pid).children(recursive=True)
    ranks = [p for p in below if "tests.e2e.scripted" in p.cmdline() and "--module" not in p.cmdline()]
    return {int(p.environ()["RANK"]): p.pid for p in ranks}


def seconds_until_all_end(*ours: Run) -> float:
    start = time.monotonic()
    for run in ours:
        assert run.ended() != 0
    return time.monotonic() - start


def agree(got: list[dict], expected: list[dict]) -> None:
    """The same steps and samples, and the same training to rounding."""
    for a, b in zip(got, expected, strict=True):
        for key in (
            "step",
            "sampling/samples",
            "sampling/response_tokens",
            "verdict/correct",
            "policy_version",
        ):
            assert a[key] == b[key]
        for key in ("update/loss", "update/grad_norm", "update/entropy"):
            assert a[key] == pytest.approx(b[key], rel=1e-4)


def test_a_run_of_two_ranks_goes_on_with_one_and_back(two_ranks, straight, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(two_ranks, folder)
    assert "resuming after step 4" in finish(folder, "run.max_steps=6")
    assert not (folder / "checkpoints" / ".converted.tmp").exists()
    assert "resuming after step 6" in finish(folder, launcher=TWO, name="log2")
    agree(runs.metrics(folder), runs.metrics(straight))
    assert len(list((folder / "samples").glob("step-000006.rank-*"))) == 1
    assert len(list((folder / "samples").glob("step-000008.rank-*"))) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give the second node a disk of its own")
def test_two_nodes_without_a_shared_disk_stop_together_and_go_on(two_ranks, tmp_path):
    folder, own = tmp_path / "disk" / "run", tmp_path / "other-disk"
    own.mkdir()
    nodes = on_two_nodes(folder, "run.max_steps=4", own=own, SCRIPTED_SLEEP="1")
    nodes[0].wait_for("step 1/4")
    os.killpg(nodes[1].process.pid, signal.SIGUSR1)  # as Slurm does, to all processes, here of one node alone
    assert [run.ended() for run in nodes] == [0, 0], nodes[0].output + nodes[1].output
    assert "SIGUSR1; resume with: deepspeed ... --module adarl.train" in nodes[0].output
    done = runs.metrics(folder)[-1]["step"]
    for rank, seen in enumerate([folder, own / "run"]):
        shards = seen / "checkpoints" / f"step-{done:06d}" / "pytorch_model"
        assert {re.search(r"rank_(\d)", p.name)[1] for p in shards.iterdir()} == {str(rank)}
    assert not (own / "run" / "metrics.jsonl").exists()
    nodes = on_two_nodes(folder, "run.max_steps=4", own=own, name="again")
    assert [run.ended() for run in nodes] == [0, 0], nodes[0].output + nodes[1].output
    assert f"resuming after step {done}" in nodes[0].output
    agree(runs.metrics(folder), runs.metrics(two_ranks))  # a rank alone on its node has more threads


def test_a_node_whose_rank_is_stopped_takes_the_other_down(tmp_path, started):
    started += on_two_nodes(tmp_path / "disk" / "run", SCRIPTED_SLEEP="1")  # which both see
    started[0].wait_for("step 1/8")
    os.kill(rank_processes(started[1])[1], signal.SIGSTOP)
    assert seconds_until_all_end(*started) < 60
    assert re.search(
        r"adarl: rank 1 \(host \S+, pid \d+\) has not been heard from for 1\d s", started[0].output
    )


def test_a_killed_rank_takes_the_others_down(tmp_path, started):
    started.append(start(tmp_path / "run", launcher=TWO, SCRIPTED_SLEEP="1"))
    started[0].wait_for("step 1/8")
    pids = rank_processes(started[0])
    os.kill(pids[0], signal.SIGKILL)
    assert seconds_until_all_end(*started) < 60
    assert (
        f"pid {pids[0]}) was killed or crashed: the run ends, resume it from its last checkpoint"
        in started[0].output
    )
    assert not psutil.pid_exists(pids[1])
