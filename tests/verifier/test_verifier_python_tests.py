"""python_tests: candidate programs in the sandbox."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adarl.types import Verdict
from adarl.verifier import Verifier, VerifierSettings
from adarl.verifier.python_tests import extract_program, run_tests

TESTS = "assert add(1, 2) == 3\nassert add(-1, 1) == 0\n"
RIGHT = "def add(a, b):\n    return a + b\n"


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier(
        VerifierSettings(kind="python_tests", workers=2, timeout_seconds=1.0, memory_mb=512)
    ) as one:
        yield one


def verdict(verifier: Verifier, program: str, tests: str = TESTS) -> Verdict:
    (found,) = verifier.verify([f"Here it is:\n```python\n{program}\n```\nDone."], [tests])
    return found.verdict


def test_right_and_wrong_programs(verifier: Verifier) -> None:
    assert verdict(verifier, RIGHT) is Verdict.CORRECT
    assert verdict(verifier, "def add(a, b):\n    return a - b") is Verdict.INCORRECT
    assert verdict(verifier, "def add(a, b) return") is Verdict.UNPARSABLE
    assert verdict(verifier, RIGHT, " ") is Verdict.INCORRECT
    assert verifier.verify(["no program"], [TESTS])[0].verdict is Verdict.NO_ANSWER


def test_ending_early_is_not_passing(verifier: Verifier) -> None:
    for trick in (
        "import sys\nsys.exit(0)",
        "import os\nos._exit(0)",
        "raise SystemExit(0)",
        "print('passed')",
        "quit()",
    ):
        assert verdict(verifier, f"{trick}\ndef add(a, b):\n    return 0") is Verdict.INCORRECT, trick


def test_endless_programs_are_stopped_at_the_time_limit(verifier: Verifier) -> None:
    start = time.monotonic()
    assert verdict(verifier, "while True: pass") is Verdict.TIMEOUT
    assert verdict(
        verifier, "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(99)"
    ) is (Verdict.TIMEOUT)
    assert time.monotonic() - start < 15.0


def test_memory_files_and_environment_are_limited(verifier: Verifier) -> None:
    assert verdict(verifier, "data = bytearray(10**9)\n" + RIGHT) is Verdict.INCORRECT
    assert verdict(verifier, "open('big', 'wb').write(b'x' * (64 << 20))\n" + RIGHT) is Verdict.INCORRECT
    assert verdict(verifier, "import os\nassert not os.environ\n" + RIGHT) is Verdict.CORRECT
    assert (
        verdict(verifier, "open('small', 'w').write('x')\nassert open('small').read() == 'x'\n" + RIGHT)
        is Verdict.CORRECT
    )


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces and seccomp are Linux's")
def test_processes_network_and_file_system_are_out_of_reach(verifier: Verifier, tmp_path: Path) -> None:
    if not run_tests(RIGHT, TESTS, 5.0, 512)["isolated"]:
        pytest.skip("this machine forbids unprivileged namespaces")
    victim = tmp_path / "victim"
    assert verdict(verifier, "import os\nos.fork()\n" + RIGHT) is Verdict.INCORRECT
    assert verdict(verifier, "import subprocess\nsubprocess.run(['true'])\n" + RIGHT) is Verdict.INCORRECT
    network = "import socket\nsocket.create_connection(('127.0.0.1', 22), timeout=0.5)\n"
    assert verdict(verifier, network + RIGHT) is Verdict.INCORRECT
    assert verdict(verifier, f"open({str(victim)!r}, 'w')\n" + RIGHT) is Verdict.INCORRECT
    assert verdict(verifier, "import os\nassert not os.listdir('/proc')\n" + RIGHT) is Verdict.CORRECT
    assert verdict(verifier, "import os\nos.kill(os.getppid(), 9)\n" + RIGHT) is not Verdict.ERROR
    assert not victim.exists()


def test_threads_may_run_but_do_not_hold_the_result_back(verifier: Verifier) -> None:
    sleeping = "import threading, time\nthreading.Thread(target=time.sleep, args=(50,)).start()\n"
    assert verdict(verifier, sleeping + RIGHT) is Verdict.CORRECT


def test_nothing_is_left_behind(verifier: Verifier) -> None:
    verdict(verifier, "while True: pass")
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
    assert "verifier/sandbox.py" not in listing


def test_the_last_closed_block_is_the_program() -> None:
    assert extract_program("```python\na = 1\n```\ntext\n```py\nb = 2\n```") == "b = 2"
    assert extract_program("```\nc = 3\n```") == "c = 3"
    assert extract_program("```python\nd = 4") is None
    assert extract_program("none") is None
