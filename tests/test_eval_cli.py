import errno
import os

import pytest

from adarl.config import EngineSettings
from adarl.errors import UserError
from eval import job
from eval.cli import run_app, with_changes


def test_settings_are_changed_by_key_and_yaml_value():
    changed = with_changes(EngineSettings(), ["max_num_seqs=7", "vllm={block_size: 64}"], "--engine")
    assert (changed.max_num_seqs, changed.vllm) == (7, {"block_size": 64})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("speed=9", "--engine speed=9: give key=value with one of the keys dtype, "),
        ("max_num_seqs", "--engine max_num_seqs: give key=value"),
        ("max_num_seqs=0", "--engine: max_num_seqs = 0: Input should be greater than or equal to 1"),
        ("vllm=[1", "--engine vllm=[1: the value is not readable as YAML"),
    ],
)
def test_a_setting_that_cannot_be_is_a_sentence(change, sentence):
    with pytest.raises(UserError) as error:
        with_changes(EngineSettings(), [change], "--engine")
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (UserError("no such model"), "adarl: no such model\n"),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            "adarl: cannot read or write a file: No space left on device\n",
        ),
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/out"),
            "adarl: cannot read or write /out: Permission denied\n",
        ),
    ],
)
def test_a_command_ends_with_a_sentence(monkeypatch, capsys, problem, sentence):
    def command() -> None:
        raise problem

    monkeypatch.setattr("sys.argv", ["command"])
    with pytest.raises(SystemExit) as ended:
        run_app(command)
    assert ended.value.code == 2
    assert capsys.readouterr().err == sentence


def test_a_cpu_has_two_ranks_and_a_device_one(monkeypatch):
    monkeypatch.setattr(job, "num_local_devices", lambda: 8)
    monkeypatch.setattr(job, "has_cuda", lambda: True)
    assert job.default_ranks() == 8
    monkeypatch.setattr(job, "has_cuda", lambda: False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert job.default_ranks() == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert job.default_ranks() == 1
