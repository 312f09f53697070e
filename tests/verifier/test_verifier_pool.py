"""Worker processes: limits, replacement, sharing, life and death."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adarl.types import Verdict, Verification
from adarl.verifier import Verifier, VerifierSettings

ROOT = Path(__file__).parents[2]

OWN = """
import os, time, sys
def grade(response, gold):
    if response == "hang":
        while True:
            pass
    if response == "hang in C":
        return (7 ** (7 ** 9)) % 10 == 3  # one call that never looks at a signal handler
    if response == "sleep":
        time.sleep(60)
    if response == "die":
        os.kill(os.getpid(), 11)
    if response == "raise":
        raise KeyError("nothing")
    if response == "eat":
        return len(bytearray(1 << 34)) > 0
    if response == "modules":
        print("noise on stdout")
        return 0.25 if {"torch", "vllm", "transformers"} & set(sys.modules) else 0.75
    if response == "once" and not os.path.exists(gold):
        open(gold, "w").close()
        os.kill(os.getpid(), 9)
    return True
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Verifier]:
    """A verifier with a function of its own that misbehaves on demand."""
    (tmp_path / "misbehaving.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    with Verifier(VerifierSettings(kind="misbehaving:grade", workers=2, timeout_seconds=0.5)) as verifier:
        yield verifier


def verdicts(found: list[Verification]) -> list[str]:
    return [str(one.verdict) for one in found]


def test_a_hang_costs_its_own_time_limit_and_nobody_elses_result(own: Verifier) -> None:
    start = time.monotonic()
    found = own.verify(["fine", "hang", "fine 2", "sleep", "fine 3", "hang in C", "fine 4"], ["x"] * 7)
    assert verdicts(found) == ["correct", "timeout", "correct", "timeout", "correct", "timeout", "correct"]
    assert time.monotonic() - start < 20.0
    assert found[1].seconds == 0.5


def test_crashes_errors_and_memory_become_verdicts(own: Verifier, capfd: pytest.CaptureFixture[str]) -> None:
    found = own.verify(["die", "raise", "eat", "fine"], ["x"] * 4)
    assert verdicts(found) == ["error", "error", "unparsable", "correct"]
    assert "KeyError: 'nothing'" in capfd.readouterr().err


def test_a_worker_that_is_killed_from_outside_is_replaced_and_its_task_graded_anew(
    own: Verifier, tmp_path: Path
) -> None:
    assert verdicts(own.verify(["once"], [str(tmp_path / "marker")])) == ["correct"]
    os.kill(own.worker_pids[0], signal.SIGKILL)
    assert verdicts(own.verify([f"fine {n}" for n in range(40)], ["x"] * 40)) == ["correct"] * 40
    assert len(own.worker_pids) == 2


def test_workers_import_no_torch_and_keep_stdout_clean(own: Verifier) -> None:
    assert own.verify(["modules"], ["x"])[0].reward == 0.75


def test_float_rewards_of_own_functions_are_kept(own: Verifier) -> None:
    (found,) = own.verify(["modules"], ["x"])
    assert (found.verdict, found.reward) == (Verdict.INCORRECT, 0.75)


def test_a_round_comes_back_whole_and_by_its_key(math: Verifier) -> None:
    math.submit(("p", 0), [r"\boxed{1}", r"\boxed{2}", "none"], "1")
    math.submit(("q", 3), [r"\boxed{x}"], r"\frac{1}{2}")
    math.submit("empty", [], "1")
    assert math.pending == 3
    found = {}
    while math.pending:
        found.update(dict(math.poll(timeout=5.0)))
    assert {key: verdicts(list(group)) for key, group in found.items()} == {
        ("p", 0): ["correct", "incorrect", "no_answer"], ("q", 3): ["incorrect"], "empty": [],
    }  # fmt: skip
    assert [one.answer for one in found["p", 0]] == ["1", "2", None]
    assert [one.reward for one in found["p", 0]] == [1.0, 0.0, 0.0]
    assert math.poll() == []


def test_poll_does_not_wait_longer_than_asked(own: Verifier) -> None:
    own.submit("slow", ["sleep"], "x")
    start = time.monotonic()
    assert own.poll() == []
    assert own.poll(timeout=0.1) == []
    assert time.monotonic() - start < 0.45
    assert [key for key, _ in own.poll(timeout=10.0)] == ["slow"]


def test_equal_answers_are_graded_once(math: Verifier) -> None:
    before = math.num_graded
    found = math.verify([r"\boxed{\sqrt{8}}"] * 50, [r"2\sqrt{2}"] * 50)
    assert verdicts(found) == ["correct"] * 50
    assert math.num_graded == before + 1
    again = math.verify([r"so \boxed{\sqrt{8}}"], [r"2\sqrt{2}"])
    assert (math.num_graded, again[0].seconds, again[0].verdict) == (before + 1, 0.0, Verdict.CORRECT)


def test_any_thread_may_use_it(math: Verifier) -> None:
    results: dict[int, list[str]] = {}

    def use(number: int) -> None:
        found = math.verify([rf"\boxed{{{n}}}" for n in range(20)], [str(number)] * 20)
        results[number] = verdicts(found)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {n: group.index("correct") for n, group in results.items()} == {n: n for n in range(8)}
    assert {group.count("correct") for group in results.values()} == {1}


def test_close_ends_the_workers_and_is_final() -> None:
    verifier = Verifier(VerifierSettings(kind="exact", workers=2))
    pids = verifier.worker_pids
    assert len(pids) == 2
    verifier.close()
    verifier.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    with pytest.raises(RuntimeError, match="the verifier is closed"):
        verifier.verify(["x"], ["y"])


def test_a_function_that_is_not_there_is_named_at_once() -> None:
    with pytest.raises(
        RuntimeError, match=r"verifier.kind is 'adarl.types:nothing', but .* give an importable module"
    ):
        Verifier(VerifierSettings(kind="adarl.types:nothing", workers=1))


def test_lengths_have_to_agree(math: Verifier) -> None:
    with pytest.raises(
        ValueError, match="2 responses, 1 answers and 2 truncation flags: pass as many of each"
    ):
        math.verify(["a", "b"], ["1"])
    with pytest.raises(ValueError, match="1 responses, 1 answers and 2 truncation flags"):
        math.submit("key", ["a"], "1", [False, True])
    assert math.pending == 0


@pytest.mark.parametrize(
    ("responses", "answers", "sentence"),
    [
        ([r"\boxed{5}"], [5], "answer 0 is of type int: convert it to a string"),
        ([r"\boxed{5}"], [None], "answer 0 is of type NoneType"),
        (["a", b"b"], ["1", "1"], "response 1 is of type bytes: convert it to a string"),
        (r"\boxed{5}", ["5"], "responses and answers are lists of texts"),
    ],
)
def test_what_is_no_text_is_named_at_once(
    math: Verifier, responses: list[str], answers: list[str], sentence: str
) -> None:
    with pytest.raises(TypeError, match=sentence):
        math.verify(responses, answers)


def test_an_answer_that_had_no_time_because_the_machine_stood_still_is_graded_anew() -> None:
    found: list[Verification] = []
    answer, gold = r"\boxed{\sqrt{(x+1)^2}+\sqrt{y^2+2y+1}}", r"\sqrt{x^2+2x+1}+\sqrt{(y+1)^2}"
    with Verifier(VerifierSettings(workers=1, timeout_seconds=1.0)) as verifier:
        thread = threading.Thread(target=lambda: found.extend(verifier.verify([answer], [gold])))
        thread.start()
        time.sleep(0.05)
        (pid,) = verifier.worker_pids
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(pid, signal.SIGCONT)
        thread.join(60.0)
    assert verdicts(found) == ["correct"]


def test_a_failed_pool_says_so_every_time_and_closes() -> None:
    verifier = Verifier(VerifierSettings(kind="exact", workers=1))
    deadline = time.monotonic() + 60.0
    while verifier._pool.failure is None and time.monotonic() < deadline:
        for pid in verifier.worker_pids:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="verifier workers end while they start"):
            verifier.verify(["x"], ["x"])
    verifier.close()


@pytest.mark.parametrize("response", ["x" * 10_000_000 + r"\boxed{5}", "\ud800\x00" + r"\boxed{5}"])
def test_long_and_broken_responses_are_read(math: Verifier, response: str) -> None:
    assert verdicts(math.verify([response], ["5"])) == ["correct"]


PARENT = """
import sys, threading, time
import torch  # the main module of a training run
from adarl.verifier import Verifier, VerifierSettings
verifier = Verifier(VerifierSettings(kind="report:modules", workers=2))
(found,) = verifier.verify(["x"], ["y"])
assert found.verdict == "correct", found
print(*verifier.worker_pids, flush=True)
time.sleep(60)
"""


def test_workers_die_with_a_killed_parent_whose_main_module_imports_torch(tmp_path: Path) -> None:
    (tmp_path / "main_with_torch.py").write_text(PARENT)
    (tmp_path / "report.py").write_text(
        "import sys\ndef modules(response, gold):\n    return not {'torch', 'vllm', 'transformers'} & set(sys.modules)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "main_with_torch.py")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline and any(_runs(pid) for pid in pids):
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_busy_worker_dies_with_a_killed_parent_too(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("def grade(response, gold):\n    return (7 ** (7 ** 9)) % 10 == 3\n")
    script = (
        "import time\nfrom adarl.verifier import Verifier, VerifierSettings\n"
        "v = Verifier(VerifierSettings(kind='slow:grade', workers=1, timeout_seconds=120))\n"
        "v.submit(0, ['x'], 'y')\ntime.sleep(0.5)\nprint(*v.worker_pids, flush=True)\ntime.sleep(60)\n"
    )
    (tmp_path / "busy.py").write_text(script)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "busy.py")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    (pid,) = [int(one) for one in parent.stdout.readline().split()]
    assert _runs(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline and _runs(pid):
        time.sleep(0.05)
    assert not _runs(pid)


def test_a_parent_that_ignores_signals_does_not_make_workers_immortal() -> None:
    before = signal.getsignal(signal.SIGALRM)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        with Verifier(VerifierSettings(workers=1, timeout_seconds=0.3)) as verifier:
            bait = r"\boxed{x^5+x+1+\sin(x^{400}+\tan(x^{300}))<0}"
            found = verifier.verify([bait, r"\boxed{1}"], ["x^7+x^3+x<2", "1"])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        signal.signal(signal.SIGALRM, before)
    assert found[0].verdict is not Verdict.CORRECT
    assert found[1].verdict is Verdict.CORRECT


def test_a_small_soak_with_bait_from_another_thread() -> None:
    from bench.verifier import run_soak

    if not (ROOT / "../shared/data/eval/math500.jsonl").exists():
        pytest.skip("../shared/data/eval/math500.jsonl is not there: the soak takes its golds from it")
    outcome = run_soak(workers=2, total=600, seed=1)
    assert (outcome["verifications"], outcome["left_over"]) == (600, 0)
    assert sum(outcome["verdicts"].values()) == 600
    assert outcome["worker_peak_mib"] < 1024
    assert "error" not in outcome["verdicts"]
