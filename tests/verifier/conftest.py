"""One verifier for all tests that need no special one: its workers start once."""

from collections.abc import Iterator

import pytest

from adarl.verifier import Verifier, VerifierSettings


@pytest.fixture(scope="session")
def math() -> Iterator[Verifier]:
    # What is tested with it is grading: on a loaded machine a right answer may take more than the usual 5 s.
    with Verifier(VerifierSettings(workers=2, timeout_seconds=30)) as verifier:
        yield verifier
