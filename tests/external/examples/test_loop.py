"""The scripted loop as a user runs it: a process of its own that talks to a server over stdio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rooflens.tests import ROOT

SCRIPT = ROOT / "examples" / "loop" / "optimize.py"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=120, check=False)


def test_a_refusal_ends_it_with_the_advice_and_status_1(tmp_path: Path) -> None:
    done = run("transpose", "--live", str(tmp_path / "no such program"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and done.stderr.strip()
