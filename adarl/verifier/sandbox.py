"""Runs one candidate program and its tests under limits. A script of its own, standard library only:
`python -I -S sandbox.py` with the job as JSON on stdin and the outcome as JSON on stdout.

Layers on Linux, where unprivileged namespaces are allowed: no network, processes of its own that end together,
a read-only file system with a small scratch directory in memory, no view of other processes. Everywhere: a process
group, resource limits, an empty environment. Root without namespaces becomes nobody. Not a security boundary
against a determined attacker: docs/verifier.md says what is left open.
"""

import ctypes
import errno
import json
import math
import os
import resource
import select
import signal
import struct
import sys
import time

_NOBODY = 65534
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = (
    0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY, _MS_PRIVATE = 442, -100, 0x8000, 1, 1 << 18
_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _CLONE_THREAD = 22, 2, 0x10000
# machine -> (audit architecture, clone, clone3, further calls that start a process)
_PROCESS_CALLS = {"x86_64": (0xC000003E, 56, 435, (57, 58)), "aarch64": (0xC00000B7, 220, 435, ())}
_FILE_BYTES = 16 * 1024 * 1024  # the largest file a program may write
_PROCESSES = 32
_OPEN_FILES = 64
_SCRATCH_OPTIONS = b"size=64m,nr_inodes=1k,mode=0700"  # of the file system that the scratch directory is on
_SYNTAX_ERROR = 3  # exit status of a program that is no Python
_NO_SANDBOX = 4  # exit status of a sandbox that could not be set up


def main() -> None:
    job = json.loads(sys.stdin.buffer.read())
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    isolated = _new_namespaces(libc)
    if not isolated:
        _become_nobody(job["scratch"])
    _die_with(parent, libc)
    result_read, result_write = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(result_read)
        _init(job, result_write, libc, isolated)
    os.close(result_write)
    outcome = _watch(init, result_read, job)
    if not isolated:
        _kill_descendants()
    outcome["isolated"] = isolated
    print(json.dumps(outcome), flush=True)


def _new_namespaces(libc: ctypes.CDLL | None) -> bool:
    """Namespaces of its own, in which this user is called nobody; False where the platform forbids it."""
    user, group = os.getuid(), os.getgid()
    flags = _CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWNET | _CLONE_NEWIPC
    if libc is None or libc.unshare(flags) != 0:
        return False
    for name, text in (
        ("setgroups", "deny"), ("uid_map", f"{_NOBODY} {user} 1"), ("gid_map", f"{_NOBODY} {group} 1"),
    ):  # fmt: skip
        with open(f"/proc/self/{name}", "w", encoding="ascii") as setting:
            setting.write(text)
    return True


def _become_nobody(scratch: str) -> None:
    """Root without namespaces gives its rights away."""
    if os.getuid() != 0:
        return
    os.chown(scratch, _NOBODY, _NOBODY)
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    if not os.access(os.__file__, os.R_OK):
        print(
            json.dumps(
                {"setup": f"user nobody cannot read {os.__file__}: install Python where all may read it"}
            )
        )
        sys.exit(0)


def _die_with(parent: int, libc: ctypes.CDLL | None) -> None:
    """After the change of user, which clears the setting."""
    if libc is not None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _read_only(scratch: str, libc: ctypes.CDLL) -> bool:
    """The whole file system read-only, /proc empty, the scratch directory in memory; then no capabilities left."""
    attributes = struct.pack("QQQQ", _MOUNT_ATTR_RDONLY, 0, _MS_PRIVATE, 0)
    done = (
        libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, len(attributes)) == 0
        and libc.mount(b"none", b"/proc", b"tmpfs", 1, b"size=4k") == 0
        and libc.mount(b"none", scratch.encode(), b"tmpfs", 0, _SCRATCH_OPTIONS) == 0
    )
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    none_left = libc.capset(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), struct.pack("IIIIII", *[0] * 6)) == 0
    return done and none_left


def _no_new_processes(libc: ctypes.CDLL) -> bool:
    """A seccomp filter: threads may start, processes may not. RLIMIT_NPROC does not bind root."""
    known = _PROCESS_CALLS.get(os.uname().machine)
    if known is None:
        return False
    architecture, clone, clone3, others = known
    load, equal, at_least, bit_set, give = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF operations
    allow, forbidden, missing = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
    filters = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, forbidden), (load, 0, 0, 0)]
    filters += [(at_least, 0, 1, 0x40000000), (give, 0, 0, forbidden)]  # the x32 twins of all calls
    filters += [(equal, 0, 1, clone3), (give, 0, 0, missing)]  # libc then uses clone
    for call in others:
        filters += [(equal, 0, 1, call), (give, 0, 0, forbidden)]
    filters += [(equal, 1, 0, clone), (give, 0, 0, allow), (load, 0, 0, 16)]
    filters += [(bit_set, 1, 0, _CLONE_THREAD), (give, 0, 0, forbidden), (give, 0, 0, allow)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in filters))
    program = struct.pack("HxxxxxxQ", len(filters), ctypes.addressof(instructions))
    return libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0) == 0


def _init(job: dict[str, object], result: int, libc: ctypes.CDLL | None, isolated: bool) -> None:
    """First process of the namespace: runs the program in a child; when it ends, the kernel kills the rest."""
    if libc is not None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if isolated and not _read_only(str(job["scratch"]), libc):
            os._exit(_NO_SANDBOX)
    program = os.fork()
    if program == 0:
        try:
            if libc is not None:
                _no_new_processes(libc)
            _run(job, result)
        except SyntaxError:
            os._exit(_SYNTAX_ERROR)
        except BaseException:  # whatever the candidate raises, SystemExit too, is a failed test
            os._exit(1)
        os._exit(1)
    os.close(result)
    while True:
        ended, status = os.wait()
        if ended == program:
            os._exit(0 if status == 0 else os.waitstatus_to_exitcode(status) % 128 or 1)


def _run(job: dict[str, object], result: int) -> None:
    """The program, then its tests, in one module namespace; the nonce says that both came to their end."""
    nonce = str(job["nonce"]).encode()
    program, tests = str(job["program"]), str(job["tests"])
    _limit(float(str(job["seconds"])), int(str(job["memory_mb"])))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, result)
    os.closerange(result + 1, 4096)
    os.environ.clear()
    os.chdir(str(job["scratch"]))
    namespace: dict[str, object] = {"__name__": "candidate"}
    code = compile(program, "<program>", "exec", dont_inherit=True)
    exec(code, namespace)
    try:
        exec(compile(tests, "<tests>", "exec", dont_inherit=True), namespace)
    except SyntaxError:
        os._exit(1)
    os.write(result, nonce)
    os._exit(0)


def _limit(seconds: float, memory_mb: int) -> None:
    memory = memory_mb * 1024 * 1024
    limits = {
        resource.RLIMIT_CPU: math.ceil(seconds) + 1,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: _FILE_BYTES,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: _PROCESSES,
    }
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (bound, bound))


def _watch(init: int, result: int, job: dict[str, object]) -> dict[str, object]:
    """Waits for the end of the program or of its time, then kills what is left."""
    deadline = time.monotonic() + float(str(job["seconds"]))
    received = b""
    timed_out = False
    while True:
        ready, _, _ = select.select([result], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            timed_out = True
            break
        data = os.read(result, 4096)
        received += data
        if not data or len(received) > 4096:
            break
    ended, status = 0, 0
    while not timed_out and time.monotonic() < deadline:
        ended, status = os.waitpid(init, os.WNOHANG)
        if ended:
            break
        time.sleep(0.002)
    if not ended:
        os.kill(init, signal.SIGKILL)
        _, status = os.waitpid(init, 0)
        timed_out = True
    code = os.waitstatus_to_exitcode(status)
    if code == _NO_SANDBOX and not received:
        return {
            "setup": "the sandbox cannot make its file system read-only: run in a container that allows it"
        }
    passed = received == str(job["nonce"]).encode() and code == 0 and not timed_out
    return {"passed": passed, "timed_out": timed_out, "syntax_error": code == _SYNTAX_ERROR}


def _kill_descendants() -> None:
    """Without a process namespace: everything that the program left behind is a child of this process by now."""
    for _ in range(20):
        try:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
                pids = [int(pid) for pid in children.read().split()]
        except OSError:
            return
        if not pids:
            return
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
