"""What is made once for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def common(factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that all workers of this run share; pytest removes it as it removes its others."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def making(folder: Path) -> Iterator[bool]:
    """Whether ``folder`` is still to be made, which others wait for; where that fails, the next one tries again."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder.with_name(f"{folder.name}.made")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not made.exists()
        made.touch()
