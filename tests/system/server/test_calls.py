"""Tool calls in children: what is slow, hungry or hostile in one harms no other, and ends with whoever asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import StdioServerParameters
from mcp.client import Client

from rooflens.analysis.base.problems import LimitExceeded, Problem
from rooflens.analysis.store.store import Store
from rooflens.server.mcp import calls
from rooflens.server.mcp.calls import CLIENT, Call, Calls, Kind, Reply
from rooflens.tests.made.rocprofv3 import Launch, Writer, repeated
from rooflens.tests.made.rocprofv3 import run as made_run
from rooflens.tests.support.waiting import END_S, LONG_S, until
from rooflens.tests.system.tools.isolation import works
from rooflens.tests.system.tools.isolation.test_child import gone
from rooflens.tools.isolation.fork_server import ForkServer
from rooflens.tools.isolation.limits import Limits

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, which is a thing of Linux"),
]
COLD = "rooflens.tests.support.cold"
SLOW_SQL = {"sql": "SELECT sum(a.range + b.range) FROM range(1000000000) a, range(1000000000) b", "timeout_s": 60}
KIND = Kind(Limits(500_000_000, cpu_s=20), wall_s=END_S, places=2, each=1)


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


def call(**arguments: Any) -> Call:
    return Call("nowhere", False, False, "list_workloads", arguments)


async def nobody(_: str) -> None:
    pass


# -- one call ---------------------------------------------------------------------------------------------


async def test_progress_comes_before_the_reply(forks: ForkServer) -> None:
    told: list[str] = []

    async def listen(text: str) -> None:
        told.append(text)

    reply = await Calls(forks, works.progress_and_reply).reply(call(), listen)
    assert isinstance(reply, Reply) and reply.outcome == "ok" and told == ["half of it"]


async def test_a_bug_is_logged_and_told_without_its_traceback(
    forks: ForkServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls.logger, "propagate", True)
    problem = await Calls(forks, works.fail).reply(call(), nobody)
    assert isinstance(problem, Problem) and "bug" in problem.text and "secret" not in problem.text
    assert "unexpected and secret" in caplog.text


@pytest.mark.parametrize(
    ("work", "kind", "text"),
    [
        (works.eat_memory, KIND, "0.5 GB of memory"),
        (works.burn, Kind(Limits(500_000_000, cpu_s=20), 0.5, 2, 1), "more than 0.5 s"),
        (works.flood, KIND, "bug"),
        (works.die_within_a_message, KIND, "was stopped by the system"),
    ],
    ids=["memory", "time", "answer", "half an answer"],
)
async def test_a_call_beyond_its_limits_is_a_problem_that_says_which(
    forks: ForkServer, monkeypatch: pytest.MonkeyPatch, work: Any, kind: Kind, text: str
) -> None:
    monkeypatch.setattr(calls, "OTHERS", kind)
    problem = await Calls(forks, work).reply(call(), nobody)
    assert isinstance(problem, Problem) and text in problem.text


async def test_one_client_cannot_take_every_place(forks: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "OTHERS", KIND)
    server, working = Calls(forks, works.progress_and_reply), anyio.Event()

    async def occupy() -> None:
        CLIENT.set("greedy")

        async def told(_: str) -> None:
            working.set()

        await server.reply(call(sleep_s=LONG_S), told)

    async with anyio.create_task_group() as group:
        group.start_soon(occupy)
        await working.wait()
        CLIENT.set("other")
        assert isinstance(await server.reply(call(), nobody), Reply)
        monkeypatch.setattr(calls, "_PATIENCE_S", 0.2)
        CLIENT.set("greedy")
        refused = await server.reply(call(), nobody)
        group.cancel_scope.cancel()
    assert isinstance(refused, LimitExceeded) and "did not start" in refused.text
    assert not [place for place in server._places if place[1]]


async def test_calls_that_wait_for_a_silent_store_hold_up_none_that_asks_no_store(
    forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_PATIENCE_S", 0.2)
    server, waiting = Calls(forks, works.progress_and_reply), 0
    full = anyio.Event()

    async def told(_: str) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == calls.OTHERS.each:
            full.set()

    async with anyio.create_task_group() as group:
        for _ in range(calls.OTHERS.each):
            group.start_soon(server.reply, call(sleep_s=LONG_S), told)
        await full.wait()
        assert isinstance(await server.reply(call(), nobody), LimitExceeded)
        for tool in ("search_metrics", "plan_profile", "list_devices", "get_run", "cancel_run"):
            assert isinstance(await server.reply(Call("nowhere", False, False, tool, {}), nobody), Reply)
        group.cancel_scope.cancel()


# -- a server ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def connected(store: Store) -> AsyncIterator[tuple[Client, int]]:
    """A client of a server in a process of its own, and the process's number."""
    arguments = ["-m", COLD, "serve", "--store", str(store.root)]
    server = StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ})
    before = set(below(os.getpid()))
    async with Client(server) as client:
        await client.call_tool("list_workloads", {})
        (pid,) = [p for p in _children(os.getpid()) if p not in before]
        yield client, pid


def below(pid: int) -> list[int]:
    """The processes that descend from one."""
    children = _children(pid)
    return children + [p for child in children for p in below(child)]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


async def answers(client: Client) -> None:
    """A short call is answered, and another one."""
    for _ in range(2):
        assert not (await client.call_tool("list_workloads", {})).is_error


async def seen(found: Callable[[], object]) -> None:
    """``until`` beside the other tasks."""
    await anyio.to_thread.run_sync(until, found)


async def test_slow_queries_and_an_import_delay_nobody_and_end_with_their_calls(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    launches = repeated(4_000, Launch("k(int)"), X_A=[1.0] * 4_000)
    profile = Writer(tmp_path).json("1_results.json", made_run(*launches))
    async with connected(store) as (client, pid):
        await answers(client)
        idle, over = set(below(pid)), []

        async def ask() -> None:
            over.append(await client.call_tool("query_counters", SLOW_SQL))

        def running() -> set[int]:
            return set(below(pid)) - idle

        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(ask)
            # The queries that run, each with its locked child, and no more.
            await seen(lambda: len(running()) == 4)
            busy = running()
            await answers(client)
            # The children of the short answers are gone again, those of the queries are the same.
            await seen(lambda: running() == busy)
            assert not over, "the short ones waited for none of the slow ones"
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(gone, *busy)
        assert not (await client.call_tool("query_counters", {"sql": "SELECT 1"})).is_error

        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "import_profile", {"path": str(profile), "format": "rocprofv3"})
            # It reads, which takes a hundred times as long as to notice that.
            await seen(lambda: list(store.root.glob("tmp/*")))
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(gone, *running())
        await answers(client)
        await seen(lambda: not list(store.root.glob("tmp/*")))
    assert not [p for p in store.root.glob("*") if p.name not in ("tmp", "format.json")]


# -- the process that is forked ---------------------------------------------------------------------------


def test_the_warm_up_leaves_no_thread_behind() -> None:
    """A process with threads cannot be copied."""
    code = (
        "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'\n"
        "from rooflens.server.mcp import warm_up\nfor step in warm_up.STEPS: step()\n"
        "import sys; print(len(os.listdir('/proc/self/task')), 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "True"]
