"""The scripted loop on the faulty kernel as a user runs it, over stdio; tests/external/examples has its other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rooflens.tests.external.examples.test_loop import run


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
