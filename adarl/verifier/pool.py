"""A fixed number of worker processes behind one dispatcher thread.

Tasks go out in small chunks and come back one by one. A worker that ends in the middle of a chunk costs the task
it was at: a time limit makes that task a timeout, a crash gets one more try; the rest of the chunk is graded
anew by others. Nothing here depends on the calling thread, on `__main__` or on fork.
"""

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from adarl.types import Verdict, Verification
from adarl.verifier.settings import VerifierSettings
from adarl.verifier.wire import frame, take_frame

CHUNK = 16  # tasks that travel together
_START_SECONDS = 120.0  # a worker that needs longer to start is broken
_GRACE_SECONDS = 5.0  # the worker's own timer comes first, this is for one that cannot even run it
_MAX_FAILED_STARTS = 3
_NEVER_WAITING = ("math", "exact", "numeric")  # kinds whose grading computes all the time
_TIME_SIGNALS = (-signal.SIGALRM, -signal.SIGXCPU)


@dataclass
class Task:
    """One answer (or response) to grade against one gold."""

    number: int
    gold: str
    text: str
    crashes: int = 0
    stalls: int = 0


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    deadline: float
    ready: bool = False
    cpu_seconds: float = 0.0  # that it had used up when it sent its last message
    buffer: bytearray = field(default_factory=bytearray)
    chunk: deque[Task] = field(default_factory=deque)


class WorkerPool:
    """Grades tasks in worker processes; `on_result(number, verification)` is called from the dispatcher thread."""

    def __init__(self, settings: VerifierSettings, on_result: Callable[[int, Verification], None]) -> None:
        self._settings = settings
        self._on_result = on_result
        slow = 3.5 if settings.kind == "python_tests" else 1.0
        self._patience = settings.timeout_seconds * slow + _GRACE_SECONDS
        self._queue: deque[Task] = deque()
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, _Worker] = {}  # by the file descriptor of their output
        self._failed_starts = 0
        self._closing = False
        self._ended = False
        self._started = threading.Event()
        self.failure: str | None = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        # The thread that starts the workers has to live as long as they do: the kernel ends them with it.
        self._thread = threading.Thread(target=self._run, name="adarl-verifier", daemon=True)
        self._thread.start()

    def wait_until_ready(self) -> None:
        """Blocks until every worker runs; raises RuntimeError with the reason if one cannot start."""
        self._started.wait()
        if self.failure:
            raise RuntimeError(self.failure)

    def submit(self, tasks: Iterable[Task]) -> None:
        with self._lock:
            self._queue.extend(tasks)
        self._wake()

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in list(self._workers.values())]

    def close(self) -> None:
        """Ends the workers and waits for them; tasks that are still out get no result."""
        self._closing = True
        self._wake()
        self._thread.join()

    def _wake(self) -> None:
        with self._lock:
            if self._ended:
                return  # the pipe is closed, its number may belong to another file by now
            try:
                os.write(self._wake_write, b"x")
            except BlockingIOError:
                pass  # it is awake already

    # Everything below runs in the dispatcher thread.

    def _run(self) -> None:
        try:
            for _ in range(self._settings.workers):
                self._start_worker()
            while not self._closing:
                self._turn()
        except Exception as error:
            self.failure = f"the verifier's dispatcher failed: {type(error).__name__}: {error}"
        finally:
            self._started.set()
            self._stop_all()
            self._selector.close()
            with self._lock:
                self._ended = True
                os.close(self._wake_read)
                os.close(self._wake_write)

    def _turn(self) -> None:
        for key, _ in self._selector.select(timeout=self._next_deadline()):
            if key.fd == self._wake_read:
                os.read(self._wake_read, 4096)
            elif key.fd in self._workers:
                self._receive(key.fd)
        for fd, worker in list(self._workers.items()):
            if time.monotonic() > worker.deadline and (worker.chunk or not worker.ready):
                worker.process.kill()
                self._bury(fd, ran_out_of_time=True)
        self._assign()

    def _next_deadline(self) -> float | None:
        deadlines = [worker.deadline for worker in self._workers.values() if worker.chunk or not worker.ready]
        return max(0.0, min(deadlines) - time.monotonic()) + 0.01 if deadlines else None

    def _start_worker(self) -> None:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "adarl.verifier.worker",
                self._settings.model_dump_json(),
                str(os.getpid()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            bufsize=0,
        )
        assert process.stdout is not None
        fd = process.stdout.fileno()
        os.set_blocking(fd, False)
        self._workers[fd] = _Worker(process, time.monotonic() + _START_SECONDS)
        self._selector.register(fd, selectors.EVENT_READ)

    def _receive(self, fd: int) -> None:
        worker = self._workers[fd]
        data = os.read(fd, 1 << 18)
        if not data:
            self._bury(fd)
            return
        worker.buffer += data
        while (message := take_frame(worker.buffer)) is not None:
            self._handle(worker, message)

    def _handle(self, worker: _Worker, message: object) -> None:
        if isinstance(message, dict):
            if "failed" in message:
                self.failure = str(message["failed"])
                self._started.set()
                return
            worker.ready = True
            worker.cpu_seconds = float(message["cpu"])
            self._failed_starts = 0
            if all(other.ready for other in self._workers.values()):
                self._started.set()
            return
        assert isinstance(message, list)
        number, verdict, reward, answer, seconds, note, worker.cpu_seconds = message
        worker.chunk.popleft()
        worker.deadline = time.monotonic() + self._patience
        if note:
            print(f"adarl: verifier error on one answer: {note}", file=sys.stderr)
        self._on_result(number, Verification(Verdict(verdict), reward, answer, seconds))

    def _bury(self, fd: int, ran_out_of_time: bool = False) -> None:
        """A worker has ended: settle its current task, put the others back, start the next one."""
        worker = self._workers.pop(fd)
        self._selector.unregister(fd)
        code, cpu_seconds = _exit_status(worker.process)
        for pipe in (worker.process.stdin, worker.process.stdout):
            if pipe is not None:
                _close_quietly(pipe)
        if not worker.ready:
            self._failed_starts += 1
            if self.failure is None and self._failed_starts >= _MAX_FAILED_STARTS:
                self.failure = (
                    f"verifier workers end while they start (exit status {code}): see their output above"
                )
            if self.failure is not None:
                self._started.set()
                self._closing = True
                return
        if worker.chunk and code != 0:
            self._settle(worker.chunk.popleft(), code, ran_out_of_time, cpu_seconds - worker.cpu_seconds)
        with self._lock:
            self._queue.extendleft(reversed(worker.chunk))
        self._start_worker()

    def _settle(self, task: Task, code: int, ran_out_of_time: bool, cpu_seconds: float) -> None:
        stalled = (
            code == -signal.SIGALRM
            and not ran_out_of_time
            and task.stalls == 0
            and self._settings.kind in _NEVER_WAITING
            and cpu_seconds < self._settings.timeout_seconds / 4
        )
        if stalled:
            task.stalls = 1  # the machine was at other things: the answer has not had its time
            with self._lock:
                self._queue.appendleft(task)
        elif ran_out_of_time or code in _TIME_SIGNALS:
            seconds = self._settings.timeout_seconds
            self._on_result(task.number, Verification(Verdict.TIMEOUT, 0.0, None, seconds))
        elif task.crashes == 0:
            task.crashes = 1  # it may have been the victim, for example of the machine running out of memory
            with self._lock:
                self._queue.appendleft(task)
        else:
            print(
                f"adarl: a verifier worker crashed twice on one answer (exit status {code})", file=sys.stderr
            )
            self._on_result(task.number, Verification(Verdict.ERROR, 0.0))

    def _assign(self) -> None:
        idle = [worker for worker in self._workers.values() if worker.ready and not worker.chunk]
        for worker in idle:
            with self._lock:
                if not self._queue:
                    return
                # Small shares while the queue is short, so that all workers have some.
                size = min(CHUNK, -(-len(self._queue) // len(self._workers)))
                chunk = [self._queue.popleft() for _ in range(size)]
            if chunk[0].crashes or chunk[0].stalls:
                with self._lock:
                    self._queue.extendleft(reversed(chunk[1:]))
                chunk = chunk[:1]
            worker.chunk.extend(chunk)
            worker.deadline = time.monotonic() + self._patience
            assert worker.process.stdin is not None
            try:
                worker.process.stdin.write(frame([[task.number, task.gold, task.text] for task in chunk]))
            except BrokenPipeError:
                pass  # it has just retired: its end of file puts the chunk back

    def _stop_all(self) -> None:
        for worker in self._workers.values():
            assert worker.process.stdin is not None
            _close_quietly(worker.process.stdin)
            if worker.chunk or not worker.ready:
                worker.process.kill()
        for worker in self._workers.values():
            try:
                worker.process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            assert worker.process.stdout is not None
            worker.process.stdout.close()
        self._workers.clear()


def _exit_status(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """(exit status, CPU seconds) of a process that has closed its output, which means that it ends now or has to."""
    until = time.monotonic() + 2.0
    ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    while not ended and time.monotonic() < until:
        time.sleep(0.002)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    if not ended:
        process.kill()
        ended, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _close_quietly(pipe: object) -> None:
    try:
        pipe.close()  # type: ignore[attr-defined]
    except BrokenPipeError:
        pass


def _environment() -> dict[str, str]:
    """The parent's, so that own functions find their modules, but without what belongs to training."""
    kept = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "PYTHONSTARTUP")}
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *(os.path.abspath(path) for path in sys.path)]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONHASHSEED": "0",  # sympy orders by hashes: the same in every worker
        "OMP_NUM_THREADS": "1",
    }
