"""Runs that several tests look at are made once."""

from pathlib import Path

import pytest

from tests.e2e import runs
from tests.e2e.scripted_runs import finish


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight steps in one go on one rank, validated after every second."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    runs.train(folder, "run.max_steps=8", "validation.every=2")
    return folder


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight steps of the scripted engine in one go, checkpoints after 6 and 8."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    finish(folder)
    return folder
