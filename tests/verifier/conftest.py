"""One verifier for all tests that need no special one: its workers start once."""

from collections.abc import Iterator

import pytest

from adarl.verifier import Verifier, VerifierSettings


@pytest.fixture(scope="session")
def math() -> Iterator[Verifier]:
    with Verifier(VerifierSettings(workers=2)) as verifier:
        yield verifier
