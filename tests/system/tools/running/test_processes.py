"""Processes: telling them apart, finding all that belong to a run, and ending them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

import psutil
import pytest

from rooflens.tests.support.run_bench import gone
from rooflens.tests.support.waiting import END_S, until
from rooflens.tools.running.processes import (
    alive,
    descendants,
    end_all,
    processes_of_run,
    send,
    start_ticks,
    this_process,
)

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)",
]
NAME = f"run-of-a-test-{uuid4().hex}"
"""Another test process on this machine must not find, and end, what this one started."""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that bears the marker of a run."""
    process = subprocess.Popen(SLEEP, env={**os.environ, "ROOFLENS_RUN": NAME})
    until(lambda: processes_of_run(NAME))
    yield process
    process.kill()
    process.wait()


def test_this_process_is_alive_and_another_with_its_number_is_not() -> None:
    assert alive(this_process())
    assert not alive(this_process().model_copy(update={"start": this_process().start + 1}))
    assert not alive(this_process().model_copy(update={"boot": "another"}))


def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    who = this_process().model_copy(update={"pid": sleeper.pid, "start": start_ticks(sleeper.pid)})
    assert alive(who)
    os.kill(sleeper.pid, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not alive(who)


def test_a_process_with_an_odd_name_is_read(tmp_path) -> None:
    (odd := tmp_path / "a) S 1 (b c").symlink_to("/bin/sleep")
    process = subprocess.Popen([str(odd), "600"])
    try:
        until(lambda: process.pid in {p.pid for p in descendants(os.getpid())})
        assert {p.pid: p.ppid() for p in descendants(os.getpid())}[process.pid] == os.getpid()
    finally:
        process.kill()
        process.wait()


def test_the_marker_must_be_the_whole_value(sleeper: subprocess.Popen[bytes]) -> None:
    assert [p.pid for p in processes_of_run(NAME)] == [sleeper.pid]
    assert processes_of_run(NAME[:-1]) == []


def test_all_that_bears_the_marker_is_ended_and_nothing_else(sleeper: subprocess.Popen[bytes]) -> None:
    other = subprocess.Popen(SLEEP)
    try:
        assert end_all(NAME, 0) == 0
        assert gone(sleeper.pid) and not gone(other.pid)
        assert sleeper.wait() == -signal.SIGKILL, "its owner still learns how it ended"
    finally:
        other.kill()
        other.wait()


def test_who_ignores_sigterm_is_killed_after_the_grace() -> None:
    process = subprocess.Popen(STUBBORN, env={**os.environ, "ROOFLENS_RUN": NAME}, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline()
    start = time.monotonic()
    assert end_all(NAME, 0.3) == 0
    assert time.monotonic() - start >= 0.3 and process.wait() == -signal.SIGKILL
    process.stdout.close()


def test_a_number_used_again_is_not_signalled(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, earlier = psutil.Process(sleeper.pid), psutil.Process(sleeper.pid)
    monkeypatch.setattr(earlier, "_ident", (sleeper.pid, earlier.create_time() - 1))
    send(earlier, signal.SIGKILL)
    # Signals of one sender are taken in order: the first to arrive ends it.
    send(now, signal.SIGTERM)
    assert sleeper.wait(END_S) == -signal.SIGTERM
