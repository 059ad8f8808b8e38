"""Tools that run programs: who gets them, and what becomes of a run when its client, server or caller goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

from rooflens.analysis.store.store import Store
from rooflens.server.mcp import app
from rooflens.tests.standins.perf import install
from rooflens.tests.support.waiting import END_S, LONG_S, free_port, until

FAMILY = """
import os, subprocess, sys, time
pids = [os.getpid(), subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid]
pids.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True).pid)
open(sys.argv[1] + ".new", "w").write(" ".join(map(str, pids)))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""
TOKEN = "sixteen-characters-or-more"
EXECUTING = {"profile_command", "cancel_run"}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a server that finds the stand-in for perf and has locks of its own."""
    (runtime := tmp_path / "runtime").mkdir(mode=0o700)
    path = f"{install(tmp_path / 'bin')}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_RUNTIME_DIR": str(runtime)}


@pytest.fixture
def server(store: Store, environment: dict[str, str]) -> StdioServerParameters:
    arguments = ["-m", "rooflens", "serve", "--allow-exec", "--store", str(store.root)]
    return StdioServerParameters(command=sys.executable, args=arguments, env=environment)


def _request(code: str, *arguments: str, **more: object) -> dict[str, object]:
    command = [sys.executable, "-c", code, *arguments]
    return {"command": command, "gpu": "cpu", "metrics": ["task-clock"], **more}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("flags", "there"),
    [
        ({}, {"get_run"}),
        ({"allow_exec": True}, EXECUTING | {"get_run"}),
        ({"allow_exec": True, "read_only": True}, {"get_run"}),
    ],
)
async def test_tools_that_execute_exist_only_with_leave(store: Store, flags: dict[str, bool], there: set[str]) -> None:
    async with Client(app.build(store, **flags)) as client:
        listed = {t.name: t for t in (await client.list_tools()).tools}
        assert (EXECUTING | {"get_run"}) & set(listed) == there
        assert ("profile_command" in (client.instructions or "")) == ("profile_command" in there)
        assert len(client.instructions or "") < 1_500
        for name in EXECUTING & set(listed):
            hints = listed[name].annotations
            assert hints and hints.destructive_hint and hints.open_world_hint and hints.read_only_hint is False
        hints = listed["get_run"].annotations
        assert hints and hints.read_only_hint and not hints.open_world_hint
        if "profile_command" not in there:
            with pytest.raises(MCPError, match="no such tool"):
                await client.call_tool("profile_command", {"command": ["true"]})
            assert not store.runs.exists()


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_profiles_a_command_and_sees_progress(server: StdioServerParameters, mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(value: float, total: float | None, message: str | None) -> None:
        told.append((value, total, message))

    async with Client(server, mode=mode) as client:
        request = _request("import time; time.sleep(0.3)", repeats=2)
        done = await client.call_tool("profile_command", request, progress_callback=progress)
        answer = done.structured_content
        assert not done.is_error and answer["state"] == "done" and answer["kernels"]["rows"]
        found = await client.call_tool("query_counters", {"sql": "SELECT count(*) FROM dispatches"})
        assert found.structured_content["table"]["rows"] == [[2]]
    assert any("run 2 of 2" in (message or "") for _, _, message in told)
    values = [value for value, _, _ in told]
    assert values == sorted(set(values)) and all(total == 2 for _, total, _ in told)


@pytest.mark.anyio
async def test_a_cancelled_call_stops_waiting_and_cancel_run_ends_the_run(
    server: StdioServerParameters, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    async with Client(server) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "profile_command", _request(FAMILY, str(pids)))
            await anyio.to_thread.run_sync(until, pids.exists)
            group.cancel_scope.cancel()
        standing = await client.call_tool("get_run", {"run_id": "latest"})
        assert standing.structured_content["state"] == "running" and _alive(pids)
        ended = await client.call_tool("cancel_run", {"run_id": standing.structured_content["run_id"]})
        assert ended.structured_content["state"] == "cancelled" and not _alive(pids)


@pytest.mark.anyio
async def test_another_server_on_the_same_store_sees_and_ends_a_run(
    server: StdioServerParameters, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    async with Client(server) as one, Client(server) as other:
        begun = await one.call_tool("profile_command", _request(FAMILY, str(pids), wait_s=0))
        run = begun.structured_content["run_id"]
        await anyio.to_thread.run_sync(until, pids.exists)
        queued = await other.call_tool("profile_command", _request("pass", wait_s=0.5))
        assert queued.structured_content["state"] == "queued", "one run at a time, whichever server started it"
        assert (await other.call_tool("cancel_run", {"run_id": run})).structured_content["state"] == "cancelled"
        assert not _alive(pids)
        state = "queued"
        while state in ("queued", "running"):
            waiting = {"run_id": queued.structured_content["run_id"], "wait_s": 45}
            state = (await one.call_tool("get_run", waiting)).structured_content["state"]
        assert state == "done"


@pytest.mark.anyio
async def test_calls_that_wait_hold_no_threads(server: StdioServerParameters) -> None:
    async with Client(server) as client:
        begun = await client.call_tool("profile_command", _request(f"import time; time.sleep({LONG_S})", wait_s=0))
        run, over = {"run_id": begun.structured_content["run_id"]}, []

        async def wait() -> None:
            over.append(await client.call_tool("get_run", {**run, "wait_s": 45}))

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await client.call_tool("list_workloads", {})
            assert not over, "fifty waiting calls must not block the others"
            await client.call_tool("cancel_run", run)
        assert {found.structured_content["state"] for found in over} == {"cancelled"}


@pytest.mark.anyio
async def test_a_failure_reaches_the_client_in_words_without_a_traceback(server: StdioServerParameters) -> None:
    async with Client(server) as client:
        failed = await client.call_tool("profile_command", _request("import sys; sys.exit('\x1b[31mno data')"))
        refused = await client.call_tool("profile_command", {"command": ["-x"]})
    assert failed.structured_content["state"] == "failed"
    assert failed.structured_content["output"].endswith("no data") and "\x1b" not in failed.content[0].text
    assert "Traceback" not in failed.content[0].text
    assert refused.is_error and "begins with a dash" in refused.content[0].text


@pytest.fixture
def serving(server: StdioServerParameters, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A server in the middle of a run with children and grandchildren, and the file with their numbers."""
    pids = tmp_path / "pids"
    process = subprocess.Popen(
        [server.command, *server.args], env=server.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    arguments = {"name": "profile_command", "arguments": _request(FAMILY, str(pids))}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": arguments},
    ]
    assert process.stdin
    for message in messages:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
    until(pids.exists)
    yield process, pids
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL", "SIGINT", "closed input"])
def test_nothing_outlives_the_server(serving: tuple[subprocess.Popen[str], Path], store: Store, end: str) -> None:
    process, pids = serving
    assert len(_alive(pids)) == 3
    if end == "closed input":
        assert process.stdin
        process.stdin.close()
    else:
        process.send_signal(getattr(signal, end))
    process.wait(END_S)
    until(lambda: not _alive(pids))
    run = next(store.runs.iterdir())
    until(lambda: json.loads((run / "state.json").read_text())["state"] == "failed")
    supervisor = json.loads((run / "state.json").read_text())["supervisor"]["pid"]
    until(lambda: not Path(f"/proc/{supervisor}").exists())


@pytest.mark.anyio
async def test_a_server_on_http_ends_its_runs_although_a_client_still_waits(
    store: Store, environment: dict[str, str], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    with free_port() as port:
        arguments = ["serve", "--allow-exec", "--http", f"127.0.0.1:{port}", "--store", str(store.root)]
        process = subprocess.Popen(
            [sys.executable, "-m", "rooflens", *arguments],
            env={**environment, "ROOFLENS_TOKEN": TOKEN},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            assert process.stderr and b"rooflens serves" in process.stderr.readline()
            own = create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"})
            transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=own)
            async with own, Client(transport) as client, anyio.create_task_group() as group:
                group.start_soon(_called, client, _request(FAMILY, str(pids)))
                await anyio.to_thread.run_sync(until, pids.exists)
                process.terminate()
                await anyio.to_thread.run_sync(process.wait, END_S)
                group.cancel_scope.cancel()
            await anyio.to_thread.run_sync(until, lambda: not _alive(pids))
            assert process.returncode == 0
        finally:
            process.kill()
            process.communicate()


def _call(
    store: Store, environment: dict[str, str], request: dict[str, object], *, ignored: bool = False
) -> subprocess.Popen[str]:
    """A call at a terminal; or one that ignores interrupts, as a shell makes what it starts in the background."""

    def disposed() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)

    command = [sys.executable, "-m", "rooflens", "--store", str(store.root), "call", "profile_command", "-"]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=disposed,
    )  # fmt: skip
    assert process.stdin
    process.stdin.write(json.dumps(request))
    process.stdin.close()
    process.stdin = None
    return process


def test_a_call_from_the_command_line_waits_for_its_run(store: Store, environment: dict[str, str]) -> None:
    process = _call(store, environment, _request("import time; time.sleep(0.5)", wait_s=0))
    out, _ = process.communicate(timeout=END_S)
    assert process.returncode == 0
    assert json.loads(out)["state"] == "done" and json.loads(out)["workload"]


def test_a_failed_run_is_exit_status_1_with_the_result_and_the_reason(
    store: Store, environment: dict[str, str]
) -> None:
    process = _call(store, environment, _request("raise SystemExit(4)"))
    out, err = process.communicate(timeout=END_S)
    assert process.returncode == 1
    assert json.loads(out)["state"] == "failed" and "status 4" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_run_of_a_call(
    store: Store, environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    pids = tmp_path / "pids"
    process = _call(store, environment, _request(FAMILY, str(pids)), ignored=number == signal.SIGTERM)
    until(pids.exists)
    process.send_signal(number)
    out, err = process.communicate(timeout=END_S)
    assert process.returncode == 1 and not _alive(pids)
    assert json.loads(out)["state"] == "cancelled" and "Traceback" not in err


def test_a_killed_call_leaves_nothing_running(store: Store, environment: dict[str, str], tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    process = _call(store, environment, _request(FAMILY, str(pids)))
    until(pids.exists)
    assert len(_alive(pids)) == 3
    process.kill()
    process.communicate()
    until(lambda: not _alive(pids))
    assert process.returncode == -signal.SIGKILL, "it did not end in order"


async def _called(client: Client, request: dict[str, object]) -> None:
    """A call whose server ends meanwhile."""
    with suppress(MCPError):
        await client.call_tool("profile_command", request)


def _alive(pids: Path) -> list[int]:
    """Those of a family that still run."""
    found = []
    for pid in map(int, pids.read_text().split()):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(pid)
        except OSError:
            continue
    return found
