"""From a command to one process a device."""

import os
import subprocess
import sys

import pytest

from adarl import launch


def test_the_launcher_runs_the_module_on_every_device():
    command = launch.deepspeed_command(["r.yaml", "run.seed=1"], 8, hostfile=None)
    assert command[0].endswith("/deepspeed")
    assert command[1:3] == ["--log_level", "critical"]
    assert command[3:] == ["--num_accelerators", "8", "--module", "adarl.train", "r.yaml", "run.seed=1"]


def test_several_nodes_are_left_to_the_hostfile():
    command = launch.deepspeed_command(["r.yaml"], 8, hostfile="hosts")
    assert command[3:] == ["--hostfile", "hosts", "--module", "adarl.train", "r.yaml"]


def test_a_machine_without_a_driver_has_one_device(monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    assert launch.num_local_devices() == 1


def test_visible_devices_are_counted(monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5")
    assert launch.num_local_devices() == 3


@pytest.mark.parametrize(
    ("ranks", "command"),
    [
        ("1", "adarl train r.yaml run.max_steps=9 run.dir=/runs/a"),
        ("2", "adarl train r.yaml run.max_steps=9 run.dir=/runs/a --num-devices 2"),
    ],
)
def test_the_command_that_resumes_names_the_run_and_no_old_checkpoint(monkeypatch, ranks, command):
    monkeypatch.setenv("WORLD_SIZE", ranks)
    given = ["r.yaml", "run.dir=elsewhere", "run.resume=/runs/b/checkpoints/step-000002", "run.max_steps=9"]
    assert launch.resume_command(given, "/runs/a") == command


@pytest.fixture
def bare_environment(monkeypatch):
    for name in (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "OMP_NUM_THREADS",
    ):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_a_process_without_a_launcher_is_a_world_of_one(bare_environment):
    before = dict(os.environ)
    try:
        launch.prepare_environment()
        assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == ("0", "1")
        assert os.environ["OMP_NUM_THREADS"] == str(len(os.sched_getaffinity(0)))
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_ranks_share_the_cores(bare_environment):
    before = dict(os.environ)
    try:
        os.environ.update(RANK="1", WORLD_SIZE="2", LOCAL_SIZE="2")
        launch.prepare_environment()
        assert os.environ["OMP_NUM_THREADS"] == str(max(1, len(os.sched_getaffinity(0)) // 2))
        assert os.environ["RANK"] == "1"
    finally:
        os.environ.clear()
        os.environ.update(before)


def preloaded(**env: str) -> str:
    """What LD_PRELOAD is after the restart, in a fresh process."""
    code = "import os; from adarl.launch import preload_libraries as p; p(); print('=' + os.environ.get('LD_PRELOAD', ''))"
    kept = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "ADARL_PRELOAD")}
    result = subprocess.run([sys.executable, "-c", code], env={**kept, **env}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_process_starts_again_once_with_openmp_preloaded():
    if launch._intel_openmp() is None:
        pytest.skip("intel-openmp is not installed here")
    output = preloaded()
    assert output.count("starting again with libiomp5.so") == 1
    assert output.strip().split("=")[-1].startswith(str(launch._intel_openmp()))


def test_preloading_can_be_turned_off():
    assert preloaded(ADARL_PRELOAD="0") == "=\n"
