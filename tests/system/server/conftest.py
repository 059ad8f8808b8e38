"""What several tests of the server need."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rooflens.tests.standins.perf import install


@pytest.fixture
def short_place() -> Iterator[Path]:
    """A folder for sockets, whose paths must be short wherever temporary files are kept."""
    with tempfile.TemporaryDirectory(prefix="rooflens-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a server that finds the stand-in for perf and has locks of its own."""
    (runtime := tmp_path / "runtime").mkdir(mode=0o700)
    path = f"{install(tmp_path / 'bin')}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_RUNTIME_DIR": str(runtime)}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
