"""A process that imports rooflens reads nothing of the interface until it is asked for."""

from __future__ import annotations

import subprocess
import sys


def test_importing_rooflens_reads_nothing_of_the_interface() -> None:
    code = (
        "import sys, rooflens; rooflens.__version__; "
        "print([m for m in sys.modules if m.startswith(('rooflens.', 'pandas', 'duckdb', 'pydantic'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
