"""The pages that docs/generate.py writes are those of the present code."""

from __future__ import annotations

import subprocess
import sys

from rooflens.tests import ROOT


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}: run `make docs`"
