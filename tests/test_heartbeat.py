"""Who counts as silent, and signals that ask to stop."""

import os
import signal
import subprocess
import sys
import time

import pytest

from adarl import launch
from adarl.draws import OneRank
from adarl.heartbeat import Silence
from adarl.stopping import StopRequest
from tests.ranks import on_ranks


def test_a_counter_that_stands_still_is_silent_since_its_last_change():
    silence = Silence(2, now=0.0)
    assert silence.update(["1", "1"], 2.0) == [0.0, 0.0]
    assert silence.update(["2", "1"], 4.0) == [0.0, 2.0]
    assert silence.update(["3", "1"], 6.0) == [0.0, 4.0]
    assert silence.update(["4", "2"], 8.0) == [0.0, 0.0]


def test_a_process_that_stood_still_itself_blames_nobody():
    silence = Silence(2, now=0.0)
    silence.update(["1", "1"], 2.0)
    assert silence.update(["1", "1"], 600.0) == [0.0, 0.0]  # the whole job was suspended
    assert silence.update(["2", "1"], 602.0) == [0.0, 2.0]


@pytest.fixture
def listening():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    stop = StopRequest()
    stop.listen()
    yield stop
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_signal_asks_to_stop_and_does_not_end_the_process(listening, name):
    assert listening.agreed(OneRank()) is None
    os.kill(os.getpid(), getattr(signal, name))
    assert listening.agreed(OneRank()) == name


def test_one_rank_that_got_the_signal_is_enough():
    def work(ranks):
        stop = StopRequest()
        stop.reason = "SIGTERM" if ranks.rank == 1 else None
        return stop.agreed(ranks)

    assert on_ranks(3, work) == ["SIGTERM"] * 3


RANK = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(60)
"""
LAUNCHER = f"""
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "-c", {RANK!r}, "-m", "adarl.train"]).returncode)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_the_command_hands_the_signal_to_its_ranks_past_the_launcher(number):
    code = f"import sys; from adarl.launch import run_launcher; sys.exit(run_launcher([sys.executable, '-c', {LAUNCHER!r}]))"
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    assert command.stdout.readline() == "ready\n"
    command.send_signal(number)
    start = time.monotonic()
    assert command.wait(timeout=50) == 7
    assert time.monotonic() - start < 30  # not by the rank's own end
    assert launch._ranks_below(os.getpid()) == []
