"""The whole loop on an NVIDIA GPU, through a real MCP client over stdio (``pytest -m nvidia tests/external/gpu``)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from rooflens.tests import ROOT

KERNELS = (
    "hbm_copy", "stream_add", "stream_triad", "matrix_add_row", "matrix_add_col", "matmul_naive", "matmul_tiled",
    "stencil_naive_1", "transpose_naive", "transpose_padded", "fp32_fma", "fp64_fma", "tensor_f16", "atomic_contention",
    "divergence", "latency_chase",
)  # fmt: skip
LINE = re.compile(r"^(\w+)\s+(\d+)\s+([\d.]+)\s+(\S+)\s+(hbm|l2|lds)\s+\S+\s+(\S+)")

pytestmark = [pytest.mark.anyio, pytest.mark.nvidia]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    arguments = ["-m", "rooflens", "serve", "--allow-exec", "--store", str(tmp_path / "store")]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))) as connected:
        yield connected


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments, read_timeout_seconds=120)
    assert not answer.is_error, answer.content
    found: dict[str, Any] = answer.structured_content
    return found


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


async def test_plan_run_import_metrics_roofline_and_sql_agree_with_what_the_program_states(
    client: Client, program: Path
) -> None:
    devices = await ask(client, "list_devices")
    assert "sm_90" in str(devices), "the figures below are for a Hopper GPU"
    plan = await ask(client, "plan_profile", gpu="sm_90", metrics=["overview", "roofline"])
    assert plan["commands"], plan
    names = ",".join(KERNELS)
    printed = subprocess.run([program, names, "--check"], check=True, capture_output=True, text=True).stdout
    stated = {m[1]: (float(m[4]), m[5], float(m[6])) for line in printed.splitlines() if (m := LINE.match(line))}
    assert len(stated) >= 8, stated
    run = await ask(
        client, "profile_command", command=[str(program), names, "--repeat", "0"], metrics=["overview", "roofline"],
        timeout_s=600, budget_s=300, name="kernels",
    )  # fmt: skip
    while run["state"] in ("queued", "running"):
        run = await ask(client, "get_run", run_id=run["run_id"], wait_s=45)
    assert run["state"] == "done", run
    counted = await ask(
        client, "query_counters", workload=run["workload"],
        sql="SELECT kernel, count(*) AS n, sum(duration_ns) AS ns FROM dispatches GROUP BY kernel ORDER BY ns DESC",
    )  # fmt: skip
    assert len(counted["table"]["rows"]) >= 8
    metrics = await ask(client, "compute_metrics", workload=run["workload"], by_kernel=True, metrics=["overview"])
    assert {r["status"] for r in rows(metrics["table"])} & {"ok"}
    roofline = await ask(client, "compute_roofline", workload=run["workload"])
    assert roofline["points"]["rows"], roofline
    flop = await ask(
        client, "query_counters", workload=run["workload"], limit=100,
        sql="SELECT kernel, value, status, reason FROM metrics WHERE metric = 'dispatch.flop' ORDER BY kernel",
    )  # fmt: skip
    measured = {row[0]: row[1:] for row in flop["table"]["rows"]}
    for name in ("stream_triad", "matrix_add_row", "matmul_tiled", "fp32_fma", "fp64_fma"):
        kernel = next(k for k in measured if name in k)
        value, status, reason = measured[kernel]
        assert status == "ok", (name, value, status, reason, run, counted["table"]["rows"])
        assert value == pytest.approx(stated[name][2], rel=0.02), name


@pytest.mark.parametrize(
    ("ladder", "best", "least"), [("transpose", "transpose_padded", 4.0), ("yax", "yax_solution", 1.5)]
)
def test_the_loop_ends_with_the_fast_version(program: Path, ladder: str, best: str, least: float) -> None:
    script = ROOT / "examples" / "loop" / "optimize.py"
    done = subprocess.run(
        [sys.executable, script, ladder, "--live", str(program)], capture_output=True, text=True, timeout=580
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == best and float(last[2]) > least
    assert ("it does different work" in done.stdout) == (ladder == "yax")
