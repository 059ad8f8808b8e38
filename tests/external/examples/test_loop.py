"""The scripted loop as a user runs it: a process of its own that talks to a server over stdio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rooflens.tests import ROOT

SCRIPT = ROOT / "examples" / "loop" / "optimize.py"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=120, check=False)


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


def test_a_refusal_ends_it_with_the_advice_and_status_1(tmp_path: Path) -> None:
    done = run("transpose", "--live", str(tmp_path / "no such program"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and done.stderr.strip()
