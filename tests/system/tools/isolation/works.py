"""What the children of these tests do: functions that another process can find by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rooflens.tests.support.waiting import END_S
from rooflens.tools.isolation.channel import Channel, encode_message
from rooflens.tools.isolation.child import Child, Home, Work
from rooflens.tools.isolation.limits import Limits

LIMITS = Limits(memory_bytes=200_000_000, cpu_s=20, file_bytes=0)


def started(work: Work, home: Home | None = None, **more: Any) -> Child:
    """A child that does one of the works below; programs of tests import this, so it needs little."""
    return Child(work, more, LIMITS, time.monotonic() + END_S, home)


def echo(channel: Channel, arguments: dict[str, Any]) -> None:
    """Send the arguments back, and what the process is like."""
    numbers = [n for n in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{n}")]  # noqa: PTH208
    channel.send({
        "arguments": arguments,
        "pid": os.getpid(),
        "session": os.getsid(0),
        "files": [str(Path(f"/proc/self/fd/{n}").readlink()) for n in numbers],
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "threads": threading.active_count(),
    })  # fmt: skip
    while True:
        channel.send({"again": channel.receive()})


def eat_memory(channel: Channel, arguments: dict[str, Any]) -> None:
    """Ask for more and more."""
    kept = []
    while True:
        kept.append(b"x" * 50_000_000)


def burn(channel: Channel, arguments: dict[str, Any]) -> None:
    """Compute for ever."""
    channel.send({"pid": os.getpid()})
    while True:
        pass


def fail(channel: Channel, arguments: dict[str, Any]) -> None:
    """Raise what nobody expects."""
    raise RuntimeError("unexpected and secret")


def write_file(channel: Channel, arguments: dict[str, Any]) -> None:
    """Write a file that is larger than allowed."""
    try:
        Path(arguments["path"]).write_bytes(b"x" * 1_000_000)
    except OSError as error:
        channel.send({"refused": error.strerror})


def leave_children(channel: Channel, arguments: dict[str, Any]) -> None:
    """Start a program that moves to a session of its own, and wait."""
    code = "import time; time.sleep(600)"
    other = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    channel.send({"pids": [os.getpid(), other.pid]})
    if arguments.get("wait"):
        time.sleep(600)


def flood(channel: Channel, arguments: dict[str, Any]) -> None:
    """One message that is too long."""
    channel.send({"text": "x" * 33_000_000})


def die_within_a_message(channel: Channel, arguments: dict[str, Any]) -> None:
    """Be killed, as the system kills, when half of a long message is sent."""
    whole = encode_message({"reply": {"text": "x" * 100_000}})
    channel.end.sendall(whole[: len(whole) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def progress_and_reply(channel: Channel, arguments: dict[str, Any]) -> None:
    """What a tool call looks like from outside."""
    channel.send({"progress": "half of it"})
    time.sleep(arguments["arguments"].get("sleep_s", 0))
    channel.send({"reply": {"result": {"content": [], "pid": os.getpid()}, "outcome": "ok"}})
