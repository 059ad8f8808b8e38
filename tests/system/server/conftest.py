"""What several tests of the server need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rooflens.tests.standins.perf import install


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a server that finds the stand-in for perf and has locks of its own."""
    (runtime := tmp_path / "runtime").mkdir(mode=0o700)
    path = f"{install(tmp_path / 'bin')}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_RUNTIME_DIR": str(runtime)}
