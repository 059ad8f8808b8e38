"""Scratch folders of processes that were killed are gone at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from rooflens.analysis.base.temporary_files import scratch
from rooflens.tests.unit.analysis.test_scratch import home, temporary

HOLD = """
from rooflens.analysis.base.temporary_files import scratch
with scratch() as folder:
    (folder / "content").write_text("x")
    print(folder, flush=True)
    input()
"""


__all__ = ["temporary"]


def test_what_a_killed_process_left_goes_at_once_and_that_of_the_living_stays(temporary):
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    dead, alive = (Path(holder.stdout.readline().strip()) for holder in holders)
    holders[0].send_signal(signal.SIGKILL)
    holders[0].wait()
    assert dead.is_dir() and alive.is_dir()
    with scratch() as mine:
        assert set(home(temporary).iterdir()) == {alive, mine}
    holders[1].communicate("\n")
    assert list(home(temporary).iterdir()) == []


def test_a_zombie_counts_as_dead(temporary):
    child = os.fork()
    if child == 0:
        scratch().__enter__()
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with scratch() as mine:
        assert list(home(temporary).iterdir()) == [mine]
    os.waitpid(child, 0)
