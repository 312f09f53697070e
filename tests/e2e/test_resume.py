"""A run that is stopped, killed or damaged goes on as if nothing had been: the engine is scripted, the rest is real."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import runs
from tests.e2e.scripted_runs import finish, start


def copied(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_stopped_killed_and_killed_in_a_save_it_ends_like_the_run_that_never_was(straight, tmp_path):
    folder = tmp_path / "run"
    run = start(folder, SCRIPTED_SLEEP="0.5")
    run.wait_for("step 1/8")
    run.process.send_signal(signal.SIGTERM)
    assert run.ended() == 0, run.output
    assert "SIGTERM; resume with: adarl train recipes/tiny_cpu.yaml" in run.output
    done = len(runs.metrics(folder))
    assert sorted(p.name for p in (folder / "checkpoints").iterdir())[-1] == f"step-{done:06d}"

    assert start(folder, SCRIPTED_KILL_SAVE="4", name="log2").ended() == -signal.SIGKILL
    assert len(runs.metrics(folder)) == 4
    assert (folder / "checkpoints" / ".step-000004.tmp").exists()
    assert not (folder / "checkpoints" / "step-000004").exists()

    assert start(folder, SCRIPTED_KILL="6", name="log3").ended() == -signal.SIGKILL
    assert not (folder / "checkpoints" / ".step-000004.tmp").exists()

    output = finish(folder, name="log4")
    assert "resuming after step 4" in output
    assert runs.metrics(folder) == runs.metrics(straight)
    assert [row["step"] for row in runs.metrics(folder)] == [1, 2, 3, 4, 5, 6, 7, 8]
    for step in range(1, 9):
        assert runs.pools(folder, step) == runs.pools(straight, step)
    weights = [run / "model" / "model.safetensors" for run in (folder, straight)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_flipped_bit_is_named_and_the_checkpoint_before_it_used(straight, tmp_path):
    folder = copied(straight, tmp_path)
    shards = "pytorch_model/zero_pp_rank_0_mp_rank_00_optim_states.pt"
    flip_a_bit(folder / "checkpoints" / "step-000008" / shards)
    output = finish(folder)
    assert f"step-000008 is damaged ({shards} has the right size but another checksum)" in output
    assert "resuming after step 6" in output
    assert "step-000008.set-aside is of steps that are taken anew" in output
    assert runs.metrics(folder) == runs.metrics(straight)


def test_a_truncated_checkpoint_that_the_user_names_is_one_sentence(straight, tmp_path):
    folder = copied(straight, tmp_path)
    path = folder / "checkpoints" / "step-000006"
    os.truncate(path / "scheduler.bin", 100)
    output = finish(folder, f"run.resume={path}", code=2)
    assert f"adarl: run.resume = {path}: scheduler.bin has 100 bytes instead of" in output


def test_ctrl_c_is_one_sentence(tmp_path):
    run = start(tmp_path / "run", SCRIPTED_SLEEP="1")
    run.wait_for("step 1/8")
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does
    assert run.ended() == 130
    assert "adarl: interrupted, what came after the last checkpoint is lost; resume with: adarl" in run.output
    assert "Traceback" not in run.output


def test_updates_without_a_finite_gradient_end_the_run_with_a_checkpoint(tmp_path):
    folder = tmp_path / "run"
    output = finish(folder, "learner.max_bad_updates=2", code=1, SCRIPTED_BAD="2")
    assert (
        "stopped after step 3: 2 updates in a row had no finite gradient (learner.max_bad_updates)" in output
    )
    assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == ["step-000002", "step-000003"]


def test_the_best_are_kept_beside_the_newest(tmp_path):
    """Every validation draws alike from the scripted engine, and of equal scores the earlier is better."""
    held_out = tmp_path / "heldout.jsonl"
    held_out.write_text('{"id": "a", "problem": "2+3=", "answer": "5"}\n')
    keys = (f"validation.path={held_out}", "validation.every=1", "run.max_steps=3", "run.keep_best=1")
    models, checkpoints = tmp_path / "models", tmp_path / "checkpoints"
    finish(models, *keys, "run.keep_last=1")
    assert [p.name for p in (models / "best").iterdir()] == ["step-000001"]
    assert (models / "best" / "step-000001" / "model.safetensors").exists()
    assert [p.name for p in (models / "checkpoints").iterdir()] == ["step-000003"]
    finish(checkpoints, *keys, "run.keep_last=1", "run.best=checkpoint")
    kept = sorted(p.name for p in (checkpoints / "checkpoints").iterdir())
    assert kept == ["step-000001", "step-000003"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """24 MiB: room for two checkpoints of 9 MB, not for a third."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs to mount a small disk, which only root may")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_on_a_full_disk_the_old_checkpoint_stays(small_disk):
    """Two ranks, so that nobody waits for the one that cannot write."""
    folder = small_disk / "run"
    ranks = ("--num_accelerators", "2")
    keys = ("run.keep_last=9", "run.save_every=1", "run.max_steps=4", "tracking.samples_every=0")
    output = finish(folder, *keys, launcher=ranks, code=1)
    assert re.search(
        r"the checkpoint of step 3 cannot be written \(rank \d: .* No space left on device", output
    )
    assert "the run goes on, the checkpoint before it stays" in output
    assert "stopped after step 4: the checkpoint of step 4 cannot be written (rank" in output
    assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == ["step-000001", "step-000002"]
    output = finish(folder, *keys, "run.on_save_failure=stop", launcher=ranks, code=1, name="log2")
    assert "resuming after step 2" in output
    assert "stopped after step 3: the checkpoint of step 3 cannot be written" in output


def test_export_makes_the_model_that_the_run_made_itself(straight, tmp_path):
    out = tmp_path / "model"
    runs.run("adarl", "export", str(straight), str(out))
    assert (out / "model.safetensors").read_bytes() == (straight / "model" / "model.safetensors").read_bytes()
    assert {"config.json", "generation_config.json", "tokenizer.json"} <= {p.name for p in out.iterdir()}


@pytest.mark.slow
def test_vllm_loads_an_exported_model(straight, tmp_path):
    out = tmp_path / "model"
    runs.run("adarl", "export", str(straight), str(out))
    code = (
        f"from vllm import LLM, SamplingParams; llm = LLM({str(out)!r}, max_model_len=64, kv_cache_memory_bytes=1 << 28); "
        "print('=', llm.generate('2+3=', SamplingParams(max_tokens=8, temperature=0))[0].outputs[0].text)"
    )
    result = runs.run("python", "-c", code, VLLM_ENABLE_V1_MULTIPROCESSING="0")
    assert "= \\boxed{" in result.stdout


def test_export_refuses_what_is_not_whole(straight, tmp_path):
    folder = copied(straight, tmp_path)
    flip_a_bit(
        folder / "checkpoints" / "step-000008" / "pytorch_model/zero_pp_rank_0_mp_rank_00_optim_states.pt"
    )
    result = runs.run(
        "adarl", "export", str(folder / "checkpoints" / "step-000008"), str(tmp_path / "out"), check=False
    )
    assert result.returncode == 2
    assert "step-000008 is damaged (pytorch_model/zero_pp" in result.stderr
    assert not (tmp_path / "out").exists()
