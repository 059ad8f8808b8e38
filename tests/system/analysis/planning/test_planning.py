"""Plans do not depend on the order in which a process happens to keep sets."""

from __future__ import annotations

import subprocess
import sys

from rooflens.analysis.planning.plan import plan

SCRIPT = """
from rooflens.analysis.planning.plan import plan
print([plan(target, words).passes for target in ("gfx90a", "gfx950") for words in (["roofline"], ["memory"])])
"""


def test_other_processes_make_the_same_plan() -> None:
    command = [sys.executable, "-c", SCRIPT]
    found = subprocess.run(command, env={"PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True).stdout
    here = [plan(target, words).passes for target in ("gfx90a", "gfx950") for words in (["roofline"], ["memory"])]
    assert found == f"{here}\n"
