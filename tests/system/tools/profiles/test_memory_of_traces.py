"""The import of a large trace takes little memory, measured in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rooflens.tests import ROOT


def test_a_trace_with_the_python_stack_takes_less_than_300_mib(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "timeline_import.py"
    command = [sys.executable, script, tmp_path / "t.json", "--events", "80000", "--shape", "python"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (tmp_path / "t.json").stat().st_size > 15e6
    found = re.search(r"([\d,]+) MiB", said)
    assert found is not None and 0 < int(found[1].replace(",", "")) < 300, said
