"""Run the child that parses and executes a client's SQL: a new one for every query, without files or variables."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...analysis.base.temporary_files import scratch
from ..isolation.child import Child, Home
from ..isolation.limits import Limits, lower_priority
from .worker import answer_query

MEMORY_BYTES = 2_000_000_000
"""DuckDB's own limit, which covers tables, joins and sorts."""
ADDRESS_SPACE_BYTES = 3_500_000_000
"""The operating system's limit, which also covers what DuckDB does not count, such as huge texts and lists."""
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_SHORT_S = 1.0
"""A query that takes longer gets a lower priority than short ones."""


@dataclass(frozen=True)
class Sandbox:
    """The child of one query, and the folder that it runs in, where the parent may place files for it."""

    child: Child
    folder: Path

    def rows(self) -> dict[str, Any]:
        """Return the child's answer to the data sent to it; errors are those of ``Child.receive``."""
        try:
            return self.child.receive(_SHORT_S)
        except TimeoutError:
            lower_priority(self.child.pid)
            return self.child.receive()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Exclude the time spent inside from the query's time limit."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.child.deadline += time.monotonic() - start


@contextmanager
def sandbox(sql: str, timeout_s: float) -> Iterator[Sandbox]:
    """Start a child that answers one query; it is killed and its folder removed at the end."""
    # A relative home directory, so that the settings visible to SQL show no path of this machine.
    environment = {"HOME": ".", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    environment |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # The CPU limit is a second safeguard, in case the parent is stopped and cannot kill the child.
    limits = Limits(ADDRESS_SPACE_BYTES, math.ceil(timeout_s * 4) + 60, file_bytes=0)
    job = {"sql": sql, "timeout_s": timeout_s, "memory_bytes": MEMORY_BYTES}
    with scratch() as folder:
        deadline = time.monotonic() + timeout_s
        with Child(answer_query, job, limits, deadline, Home(folder, environment)) as child:
            yield Sandbox(child, folder)
