"""Compiled operations: locks of killed builds."""

import subprocess
import sys

from adarl.build_cache import remove_stale_locks

HOLD = "import sys; from pathlib import Path; from adarl.build_cache import remove_stale_locks as r; r(Path(sys.argv[1])); print('in', flush=True); sys.stdin.read()"


def test_a_lock_that_a_killed_build_left_is_removed(tmp_path):
    (tmp_path / "op").mkdir()
    (tmp_path / "op" / "lock").touch()
    remove_stale_locks(tmp_path)
    assert not (tmp_path / "op" / "lock").exists()


def test_a_lock_stays_while_another_process_uses_the_folder(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "in\n"
    (tmp_path / "lock").touch()
    remove_stale_locks(tmp_path)
    assert (tmp_path / "lock").exists()
    other.communicate()
    remove_stale_locks(tmp_path)
    assert (tmp_path / "lock").exists()  # two of this process's own
