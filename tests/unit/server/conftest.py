"""What several tests of the server need."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_place() -> Iterator[Path]:
    """A folder for sockets, whose paths must be short wherever temporary files are kept."""
    with tempfile.TemporaryDirectory(prefix="rooflens-", dir="/tmp") as folder:
        yield Path(folder)
