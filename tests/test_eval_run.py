"""The command end to end: the tiny model, a kill in the middle, and the same command again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adarl.prepared import locate
from eval.report import read_results

TINY = "prepared:tiny_arithmetic/model"
K = 32


def command(folder: Path, *more: str) -> list[str]:
    options = [
        "--catalogue",
        str(folder / "benchmarks.yaml"),
        "--benchmarks",
        "sums",
        "--data-dir",
        str(folder),
    ]
    prompt = ["--system-prompt", "", "--prompt-suffix", "", "--max-new-tokens", "12"]
    program = [sys.executable, "-m", "eval.run", TINY, "--out", str(folder / "out"), "--k", str(K)]
    return [
        *program,
        "--num-devices",
        "1",
        *options,
        *prompt,
        "--engine",
        "max_num_seqs=16",
        "--engine",
        "kv_cache_gib=0.2",
        *more,
    ]


@pytest.fixture
def folder(tmp_path):
    path = locate("prepared:tiny_arithmetic/heldout.jsonl")  # built where it is not in the cache
    heldout = Path(path).read_text().splitlines()
    (tmp_path / "sums.jsonl").write_text("\n".join(heldout[:20]) + "\n")
    (tmp_path / "benchmarks.yaml").write_text(
        "benchmarks:\n  sums:\n    local: {file: sums.jsonl, count: 20}\n    licence: ours\n"
    )
    return tmp_path


def test_a_killed_evaluation_goes_on_where_it_was(folder):
    environment = {**os.environ, "ADARL_PRELOAD": "0"}
    shard = folder / "out" / "tiny_arithmetic" / "shards" / "rank-0.jsonl"
    first = subprocess.Popen(
        command(folder), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        while not (shard.exists() and len(shard.read_bytes().splitlines()) > 20):
            assert first.poll() is None, first.stderr.read().decode()
            time.sleep(0.02)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    time.sleep(0.5)  # the kernel ends the rank with its parent
    before = shard.read_bytes()
    before = before[: before.rfind(b"\n") + 1]
    num_before = len(before.splitlines())
    assert 20 < num_before < 20 * K
    time.sleep(0.5)
    assert len(shard.read_bytes().splitlines()) <= num_before + 1

    second = subprocess.run(command(folder), env=environment, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert f"{num_before} of {20 * K} samples are finished already" in second.stdout
    assert shard.read_bytes().startswith(before)
    keys = [json.loads(line)["key"] for line in shard.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 20 * K

    results = read_results(folder / "out" / "tiny_arithmetic")
    assert [r.name for r in results.rows] == ["sums", "average"]
    assert 0.1 < results.average.avg_at_k < 0.6
    assert results.average.pass_at_k[K] > 0.8
    assert results.average.verdicts["error"] == 0
    assert "Ave@32" in second.stdout
    assert not list((folder / "out" / "tiny_arithmetic").glob(".*"))


def test_a_mistake_is_a_sentence_before_a_model_loads(folder):
    done = subprocess.run([*command(folder), "--k", "0"], capture_output=True, text=True)
    assert done.returncode == 2
    done = subprocess.run([*command(folder), "--benchmarks", "products"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "adarl: unknown benchmark 'products'; there are sums\n")
