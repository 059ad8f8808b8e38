"""Tools that run programs: who gets them, and what becomes of a run when its client, server or caller goes away."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp import StdioServerParameters
from mcp.client import Client

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.mcp import toolbox
from rooflens.tests.support.waiting import END_S, until
from rooflens.tests.system.server.test_calls import COLD, SLOW_SQL, below
from rooflens.tests.system.tools.isolation.test_child import gone, running
from rooflens.tools.get_run import RunResult

FAMILY = """
import os, subprocess, sys, time
pids = [os.getpid(), subprocess.Popen(["sleep", "600"]).pid]
pids.append(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
open(sys.argv[1] + ".new", "w").write(" ".join(map(str, pids)))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def server(store: Store, environment: dict[str, str]) -> StdioServerParameters:
    arguments = ["-m", COLD, "serve", "--allow-exec", "--store", str(store.root)]
    return StdioServerParameters(command=sys.executable, args=arguments, env=environment)


def profiling(code: str, *arguments: str, **more: object) -> dict[str, object]:
    command = [sys.executable, "-ISc", code, *arguments]
    return {"command": command, "gpu": "cpu", "metrics": ["task-clock"], **more}


@pytest.mark.anyio
async def test_a_run_shows_its_progress_and_outlives_its_cancelled_call(
    server: StdioServerParameters, store: Store, tmp_path: Path
) -> None:
    """In the older protocol; those of test_calls.py use the newer one. Calls that wait for the run hold no threads."""
    pids, over = tmp_path / "pids", []
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(value: float, total: float | None, message: str | None) -> None:
        told.append((value, total, message))

    async with Client(server, mode="legacy") as client:
        request = profiling("import time; time.sleep(0.3)", repeats=2)
        done = await client.call_tool("profile_command", request, progress_callback=progress)
        answer = done.structured_content
        assert not done.is_error and answer["state"] == "done" and answer["kernels"]["rows"]
        found = await client.call_tool("query_counters", {"sql": "SELECT count(*) FROM dispatches"})
        assert found.structured_content["table"]["rows"] == [[2]]
        assert any(" of 2: " in (message or "") for _, _, message in told)
        values = [value for value, _, _ in told]
        assert values == sorted(set(values)) and all(total == 2 for _, total, _ in told)

        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "profile_command", profiling(FAMILY, str(pids)))
            await anyio.to_thread.run_sync(until, pids.exists)
            group.cancel_scope.cancel()
        standing = toolbox.answer(store, "get_run", {"run_id": "latest"})
        assert isinstance(standing, RunResult) and standing.state == "running" and len(alive(pids)) == 3

        async def wait() -> None:
            over.append(await client.call_tool("get_run", {"run_id": standing.run_id, "wait_s": 45}))

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await client.call_tool("list_workloads", {})
            assert not over, "fifty waiting calls must not block the others"
            ended = toolbox.answer(store, "cancel_run", {"run_id": standing.run_id})
            assert isinstance(ended, RunResult) and ended.state == "cancelled" and not alive(pids)
        assert {found.structured_content["state"] for found in over} == {"cancelled"}


@pytest.fixture
def serving(server: StdioServerParameters, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A server in the middle of a run with descendants and of slow queries, and the file with the run's processes."""
    pids = tmp_path / "pids"
    process = subprocess.Popen(
        [server.command, *server.args], env=server.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    arguments = {"name": "profile_command", "arguments": profiling(FAMILY, str(pids))}
    query = {"name": "query_counters", "arguments": SLOW_SQL}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": arguments},
        *({"jsonrpc": "2.0", "id": 3 + n, "method": "tools/call", "params": query} for n in range(2)),
    ]
    assert process.stdin
    for message in messages:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
    until(lambda: pids.exists() and len(below(process.pid)) >= 3)
    yield process, pids
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


@pytest.mark.parametrize("end", ["SIGKILL", "closed input"])
def test_nothing_outlives_the_server(serving: tuple[subprocess.Popen[str], Path], store: Store, end: str) -> None:
    process, pids = serving
    family = below(process.pid)
    assert len(alive(pids)) == 3
    if end == "closed input":
        assert process.stdin
        process.stdin.close()
    else:
        process.send_signal(getattr(signal, end))
    # Its queries would go on for minutes.
    process.wait(END_S)
    until(lambda: not alive(pids))
    gone(*family)
    assert process.stdout and process.stdout.read().count("structuredContent") == 0, "nothing was waited for"
    run = next(store.runs.iterdir())
    until(lambda: json.loads((run / "state.json").read_text())["state"] == "failed")
    supervisor = json.loads((run / "state.json").read_text())["supervisor"]["pid"]
    until(lambda: not Path(f"/proc/{supervisor}").exists())


def test_a_signal_cancels_the_run_of_a_call(store: Store, environment: dict[str, str], tmp_path: Path) -> None:
    """The call ignores interrupts, as a shell makes what it starts in the background."""
    pids = tmp_path / "pids"
    command = [sys.executable, "-m", "rooflens", "--store", str(store.root), "call", "profile_command", "-"]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert process.stdin
    process.stdin.write(json.dumps(profiling(FAMILY, str(pids))))
    process.stdin.close()
    process.stdin = None
    until(pids.exists)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=END_S)
    assert process.returncode == 1 and not alive(pids)
    assert json.loads(out)["state"] == "cancelled" and "Traceback" not in err


def test_a_call_from_the_command_line_waits_for_its_run_and_ends_with_its_status(
    store: Store, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PATH", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, environment[name])
    for code, status, state in (("import time; time.sleep(0.3)", 0, "done"), ("raise SystemExit(4)", 1, "failed")):
        request = json.dumps(profiling(code, wait_s=0))
        assert main(["--store", str(store.root), "call", "profile_command", request]) == status
        said = capsys.readouterr()
        assert json.loads(said.out)["state"] == state
        assert bool(json.loads(said.out)["workload"]) == (status == 0) and ("status 4" in said.err) == (status == 1)


def alive(pids: Path) -> list[int]:
    """Those of a family that still run."""
    return [pid for pid in map(int, pids.read_text().split()) if running(pid)]
