"""The server as a process on stdio: clean stdout, light start, both eras, end at end of input."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from rooflens.analysis.store import Store

HEAVY = ("duckdb", "pandas", "matplotlib", "hip", "numpy")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_real_client_gets_metrics_and_sql_over_stdio(samples: Store, mode: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "rooflens", "serve", "--store", str(samples.root)]
    )
    async with Client(server, mode=mode) as client:
        metrics = await client.call_tool("compute_metrics", {"workload": "yax_before", "metrics": ["17.3.7"]})
        sql = await client.call_tool("query_counters", {"sql": "SELECT sum(SQ_WAVES) AS waves FROM counters"})
    row = dict(
        zip(metrics.structured_content["table"]["columns"], metrics.structured_content["table"]["rows"][0], strict=True)
    )
    assert row["avg"] == pytest.approx(0.522807729495, rel=1e-9)
    assert sql.structured_content["table"]["rows"] == [[4096.0]]


def test_stdout_carries_nothing_but_json_rpc_and_the_server_ends_with_its_input(samples: Store) -> None:
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_workloads", "arguments": {}}},
    ]  # fmt: skip
    done = _serve(samples, messages)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {a["id"] for a in answers} == {1, 2}
    assert all(a["jsonrpc"] == "2.0" for a in answers)
    assert done.returncode == 0


def test_nothing_heavy_is_imported_before_a_tool_needs_it() -> None:
    code = (
        "import sys; from rooflens.server.app import build; from rooflens.analysis.store import Store;"
        "build(Store('x'));"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _serve(store: Store, messages: list[dict[str, object]]) -> subprocess.CompletedProcess[str]:
    """Feed the server one line at a time, waiting for each answer, then close its input."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rooflens", "--store", str(store.root), "serve"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    lines = []
    for message in messages:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        if "id" in message:
            lines.append(process.stdout.readline())
    rest, errors = process.communicate(timeout=30)
    return subprocess.CompletedProcess([], process.returncode, "".join(lines) + rest, errors)
