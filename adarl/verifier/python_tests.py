"""`python_tests`: the last Python block of a response against unit tests, in a sandbox process."""

import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from adarl.types import Verdict, Verification
from adarl.verifier.settings import VerifierSettings

MAX_PROGRAM_CHARS = 100_000
_START_SECONDS = 2.0  # for the sandbox itself, on top of the program's time
_BLOCK = re.compile(r"```(?:python|py|python3)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)
_SANDBOX = Path(__file__).with_name("sandbox.py")


def extract_program(response: str) -> str | None:
    """The last closed fenced block, None without one."""
    blocks: list[str] = _BLOCK.findall(response)
    return blocks[-1] if blocks else None


def grade_program(response: str, tests: str, settings: VerifierSettings) -> Verification:
    """Correct if the program and then `tests` (assert statements) run to their end within the limits."""
    program = extract_program(response)
    if program is None:
        return Verification(Verdict.NO_ANSWER, 0.0)
    if len(program) > MAX_PROGRAM_CHARS or not tests.strip():
        return Verification(
            Verdict.UNPARSABLE if tests.strip() else Verdict.INCORRECT, 0.0, program[:MAX_PROGRAM_CHARS]
        )
    outcome = run_tests(program, tests, settings.timeout_seconds, settings.memory_mb)
    if outcome.get("setup"):
        raise RuntimeError(str(outcome["setup"]))
    if outcome["passed"]:
        return Verification(Verdict.CORRECT, 1.0, program)
    if outcome["timed_out"]:
        return Verification(Verdict.TIMEOUT, 0.0, program)
    return Verification(Verdict.UNPARSABLE if outcome["syntax_error"] else Verdict.INCORRECT, 0.0, program)


def run_tests(program: str, tests: str, seconds: float, memory_mb: int) -> dict[str, object]:
    """What `sandbox` says of the run: passed, timed_out, syntax_error, isolated; or setup, why it cannot run."""
    scratch = tempfile.mkdtemp(prefix="adarl-")
    job = {"program": program, "tests": tests, "seconds": seconds, "memory_mb": memory_mb, "scratch": scratch,
           "nonce": secrets.token_hex(16)}  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_SANDBOX)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=scratch,
        env={},
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(json.dumps(job).encode(), timeout=seconds + _START_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"passed": False, "timed_out": True, "syntax_error": False, "isolated": False}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if not out.strip():
        return {"setup": f"the sandbox ended with status {process.returncode} before it ran anything"}
    outcome: dict[str, object] = json.loads(out)
    return outcome
