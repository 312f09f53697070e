"""A worker process: reads chunks of tasks from stdin, grades one after the other, writes each result at once.

Started by `pool` as a program of its own, so nothing of the parent is inherited: no `__main__`, no torch, no
threads. Limits are the kernel's: a timer without handler ends the process at the time limit even inside C code,
RLIMIT_CPU and RLIMIT_AS stand behind it, PR_SET_PDEATHSIG ends it with its parent.
"""

import ctypes
import gc
import math
import os
import resource
import signal
import sys
import time

from adarl.verifier.wire import frame, read_frame

_PR_SET_PDEATHSIG = 1
_MIB = 1024 * 1024


def die_with_parent(parent: int) -> None:
    """The kernel kills this process when its parent is gone, also by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def restore_signals() -> None:
    """A parent may have blocked or ignored what ends this process: undo that. Ctrl-C and SIGUSR1 are the parent's."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for name in (signal.SIGALRM, signal.SIGXCPU, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(name, signal.SIG_DFL)
    for name in (signal.SIGINT, signal.SIGUSR1):
        signal.signal(name, signal.SIG_IGN)


def arm(seconds: float) -> None:
    """From now on: `seconds` of wall-clock time and one second more of CPU time, then the process ends."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    spent = usage.ru_utime + usage.ru_stime
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(spent + seconds + 1), hard))


def disarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)


def main() -> None:
    settings_json, parent = sys.argv[1], int(sys.argv[2])
    die_with_parent(parent)
    restore_signals()
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library or an own function prints goes to stderr

    from adarl.verifier.settings import VerifierSettings

    settings = VerifierSettings.model_validate_json(settings_json)
    limit = settings.memory_mb * _MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from adarl.verifier.domains import load_grader

    try:
        grader = load_grader(settings)
    except ValueError as error:
        out.write(frame({"failed": str(error)}))
        return
    gc.freeze()  # what is loaded stays: parsing makes many short-lived objects, so look at them less often
    gc.set_threshold(50_000, 20, 20)
    out.write(
        frame(
            {
                "ready": os.getpid(),
                "cpu": time.process_time(),
                "modules": sorted(set(sys.modules) & {"torch", "vllm", "transformers"}),
            }
        )
    )
    # python_tests keeps its own limit for the program; the worker only stands behind it.
    seconds = settings.timeout_seconds * (1 if settings.kind != "python_tests" else 1.5) + (
        2 if settings.kind == "python_tests" else 0
    )
    while (chunk := read_frame(sys.stdin.buffer)) is not None:
        assert isinstance(chunk, list)
        for task, gold, text in chunk:
            out.write(frame([task, *_graded(grader, gold, text, seconds), time.process_time()]))
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > limit / 2:
            return  # a fresh worker takes over before memory runs out


def _graded(grader, gold: str, text: str, seconds: float) -> tuple[str, float, str | None, float, str]:  # type: ignore[no-untyped-def]
    """(verdict, reward, answer, seconds, note) of one task."""
    start = time.perf_counter()
    arm(seconds)
    note = ""
    try:
        found = grader(text, gold)
        result = str(found.verdict), found.reward, found.answer
    except (MemoryError, RecursionError):
        result = "unparsable", 0.0, None  # the answer is too large to be read within the limits
    except Exception as error:  # the one place where the verifier's own failure becomes a verdict
        result, note = ("error", 0.0, None), f"{type(error).__name__}: {error}"[:500]
    disarm()
    return (*result, time.perf_counter() - start, note)


if __name__ == "__main__":
    main()
