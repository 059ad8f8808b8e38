"""The process that is forked for every call: copies start fast, end when nobody listens, leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflens.tests.support.waiting import END_S, cpu_s, slowness, until
from rooflens.tests.system.tools.isolation import works
from rooflens.tests.system.tools.isolation.test_child import gone, running
from rooflens.tools.isolation.channel import Channel, ChannelClosed
from rooflens.tools.isolation.child import Work
from rooflens.tools.isolation.fork_server import ENDED, ForkServer
from rooflens.tools.isolation.limits import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, which is a thing of Linux")
LIMITS = Limits(memory_bytes=200_000_000, cpu_s=20)


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


def asked(forks: ForkServer, work: Work, limits: Limits = LIMITS, **arguments: Any) -> Channel:
    """A copy at work."""
    end = forks.spawn(work, limits)
    end.setblocking(True)
    channel = Channel(end)
    channel.send(arguments)
    return channel


def test_every_copy_is_a_process_of_its_own(forks: ForkServer) -> None:
    hello = [asked(forks, works.echo, n=n).receive(time.monotonic() + END_S) for n in range(3)]
    assert [h["arguments"] for h in hello] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert len({h["pid"] for h in hello}) == 3 and forks.pid not in {h["pid"] for h in hello}


def test_a_copy_ends_when_its_socket_is_closed_with_all_that_it_started(forks: ForkServer) -> None:
    channel = asked(forks, works.leave_children, wait=True)
    pids = channel.receive(time.monotonic() + END_S)["pids"]
    assert all(map(running, pids))
    channel.close()
    gone(*pids)


def test_what_a_copy_leaves_behind_ends_with_it(forks: ForkServer) -> None:
    channel = asked(forks, works.leave_children)
    pids = channel.receive(time.monotonic() + END_S)["pids"]
    assert channel.receive(time.monotonic() + END_S) == {ENDED: 0}
    gone(*pids)


@pytest.mark.parametrize(
    ("work", "limits", "status"),
    [
        (works.eat_memory, LIMITS, -signal.SIGKILL),
        (works.burn, Limits(200_000_000, cpu_s=1), -signal.SIGXCPU),
    ],
)
def test_how_a_copy_ended_is_the_last_message(forks: ForkServer, work: Work, limits: Limits, status: int) -> None:
    channel = asked(forks, work, limits)
    messages = []
    with pytest.raises(ChannelClosed):
        while True:
            messages.append(channel.receive(time.monotonic() + END_S))
    assert messages[-1] in ({ENDED: status}, {ENDED: -signal.SIGKILL})


def test_a_killed_fork_server_is_replaced() -> None:
    forks = ForkServer()
    first = asked(forks, works.echo).receive(time.monotonic() + END_S)["pid"]
    os.kill(forks.pid, signal.SIGKILL)
    gone(forks.pid, first)
    assert asked(forks, works.echo, n=1).receive(time.monotonic() + END_S)["arguments"] == {"n": 1}
    forks.close()


def test_one_that_is_started_in_a_thread_outlives_it() -> None:
    forks, first = ForkServer(), list[Channel]()
    thread = threading.Thread(target=lambda: first.append(asked(forks, works.echo)))
    thread.start()
    thread.join()
    pid = first[0].receive(time.monotonic() + END_S)["pid"]
    assert asked(forks, works.echo).receive(time.monotonic() + END_S)["pid"] != pid
    first[0].send({"n": 1})
    assert first[0].receive(time.monotonic() + END_S) == {"again": {"n": 1}} and running(pid)
    forks.close()


@pytest.mark.parametrize(
    ("how", "start"),
    [
        (signal.SIGKILL, "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"),
        (signal.SIGTERM, ""),
    ],
    ids=["fresh", "forked"],
)
def test_fork_server_and_copies_end_with_the_server(how: signal.Signals, start: str) -> None:
    code = f"""
from rooflens.tests.system.tools.isolation.test_forks import *
{start}
forks = ForkServer()
forks.start()
channels = [asked(forks, works.leave_children, wait=True) for _ in range(2)]
print(json.dumps([forks.pid, *(pid for channel in channels for pid in channel.receive()["pids"])]), flush=True)
time.sleep(600)
"""
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    pids = json.loads(server.stdout.readline())
    assert all(map(running, pids))
    server.send_signal(how)
    server.communicate()
    gone(*pids)


def test_a_copy_costs_less_than_a_tenth_of_a_second(forks: ForkServer) -> None:
    def used() -> float:
        """Of the fork server, and of copies that have ended."""
        pid = asked(forks, works.echo).receive(time.monotonic() + END_S)["pid"]
        gone(pid)
        until(lambda: not Path(f"/proc/{pid}").exists())
        return cpu_s(forks.pid)

    before = used()
    copies = 9
    for _ in range(copies):
        after = used()
    each = (after - before) / copies
    assert each < 0.1 or each < 0.1 * slowness()


def test_the_socket_never_blocks_the_server(forks: ForkServer) -> None:
    end = forks.spawn(works.echo, LIMITS)
    with pytest.raises(BlockingIOError):
        end.recv(1)
    assert isinstance(end, socket.socket)
    end.close()
