"""Runs that several tests look at are made once."""

from pathlib import Path

import pytest

from tests.e2e import runs


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight steps in one go on one rank."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    runs.train(folder, "run.max_steps=8")
    return folder
