"""The scripted loop over whole ladders; tests/external/examples has its rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mcp.client import Client

from rooflens.analysis.store.store import Store
from rooflens.examples.loop import loop
from rooflens.server.mcp import app
from rooflens.tests.external.examples.test_loop import run
from rooflens.tools.query_counters import query_counters


def test_the_faulty_yax_is_refused_over_stdio_and_the_log_is_kept(tmp_path: Path) -> None:
    done = run("yax", "--store", str(tmp_path / "store"))
    assert done.returncode == 0, done.stderr
    assert "refused" in done.stdout and "it does different work" in done.stdout
    assert "yax_solution is" in done.stdout.splitlines()[-1]
    sql = '{"sql": "SELECT verdict FROM log"}'
    log = subprocess.run(
        [sys.executable, "-m", "rooflens", "--store", str(tmp_path / "store"), "call", "query_counters", sql],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert '"total_rows": 2' in log


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_transpose_is_walked_to_its_fast_version(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    async with Client(app.build(store)) as client:
        done = await loop.optimise(client, loop.ladders()["transpose"], loop.replay_recording(tmp_path))
    assert [r.best.kernel for r in done] == ["transpose_naive", "transpose_lds", "transpose_padded"]
    assert [r.found.subsystem for r in done[1:]] == ["lds", "hbm"]
    assert all(r.outcome and r.outcome.same_work == "yes" for r in done[:-1])
    total = done[0].outcome.speedup * done[1].outcome.speedup  # type: ignore[union-attr,operator]
    assert total == pytest.approx(4049.9 / 613.3, rel=0.05)
    assert "hbm" in done[-1].stop
    tried = query_counters(store, "SELECT change, verdict FROM log ORDER BY created").table.rows
    assert tried == [[v.change, "improved"] for v in loop.ladders()["transpose"].versions[1:]]
