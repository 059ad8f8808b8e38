"""How tests wait and measure on a machine of any speed: for what can be seen, and in processor time or ratios."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rooflens.analysis.store.store import Store
    from rooflens.tools.get_run import RunResult
    from rooflens.tools.sql.sandbox import Sandbox

END_S = 120.0
"""When to give up waiting; what comes early costs nothing. What tests leave hanging takes at least LONG_S."""
LONG_S = 600
_USUAL_S = 0.010
"""What ``_sample`` takes on the machine for which tests state their limits: two cores with little else to do."""


def until(found: Callable[[], object], within_s: float = END_S) -> None:
    """Wait until something is so."""
    end = time.monotonic() + within_s
    while not found():
        assert time.monotonic() < end, f"did not happen within {within_s:g} s"
        time.sleep(0.02)


def ended(store: Store, run: RunResult) -> RunResult:
    """The answer about a run once it has ended, however often that has to be asked."""
    from rooflens.tools.get_run import get_run  # processes that tests start need the rest of this module alone

    while run.state in ("queued", "running"):
        run = get_run(store, run.run_id, wait_s=45)
    return run


def cpu_s(pid: int) -> float:
    """Processor time that a running process has used, with that of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def at_most(work_s: float) -> Iterator[None]:
    """What is done inside takes less processor time than this on the machine for which tests state their limits."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    assert took < work_s or took < work_s * slowness(), f"{took:.2f} s of work instead of {work_s:g} s"


def slowness() -> float:
    """How many times as long this machine takes now as the one for which limits are stated."""
    return max(_sample() for _ in range(5)) / _USUAL_S


def _sample() -> float:
    """Processor time of some work that is like that of the tests: text, numbers and memory."""
    began = time.thread_time()
    rows = [{"name": f"kernel_{i % 97}", "value": i * 1.5} for i in range(30_000)]
    totals: dict[str, float] = {}
    for row in rows:
        totals[str(row["name"])] = totals.get(str(row["name"]), 0.0) + float(row["value"])
    assert len(" ".join(sorted(totals))) > 500
    return time.thread_time() - began


@contextmanager
def unhurried_sql() -> Iterator[None]:
    """Queries without a ``timeout_s`` of their own have as long as tests wait: the ten seconds by the clock, which are
    enough for people, may pass on a busy machine. What a test states holds as it stands, and the default's number too.
    """
    from rooflens.tools import query_counters as query  # processes that tests start need the rest of this module alone

    usual = query.sandbox
    default = signature(query.query_counters).parameters["timeout_s"].default

    def sandbox(sql: str, timeout_s: float) -> AbstractContextManager[Sandbox]:
        return usual(sql, END_S if timeout_s == default else timeout_s)

    query.sandbox = sandbox
    try:
        yield
    finally:
        query.sandbox = usual


@contextmanager
def one_thread_in_duckdb() -> Iterator[int]:
    """Databases that are opened meanwhile use one thread, unless their number is stated; yields the usual number."""
    from rooflens.analysis.base import database

    usual = database._THREADS
    database._THREADS = 1
    try:
        yield usual
    finally:
        database._THREADS = usual


@contextmanager
def free_port() -> Iterator[int]:
    """A port of loopback on which a server may listen that asks for it, and which nobody else is given meanwhile.

    It stays bound: else another process can get it before the server does, and a client that calls before the server
    listens can be connected with itself.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
