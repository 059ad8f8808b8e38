"""Runs the child in which SQL of a client is parsed and executed: fresh for every query, without files or variables."""

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
"""DuckDB's own limit; it covers tables, joins and sorts."""
ADDRESS_SPACE_BYTES = 3_500_000_000
"""The system's limit; it also covers what DuckDB does not count, such as huge texts and lists."""
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_SHORT_S = 1.0
"""A query that takes longer yields to whoever waits for a short answer."""


@dataclass(frozen=True)
class Sandbox:
    """The child of one query, and the folder that it runs in, where the parent may leave files for it."""

    child: Child
    folder: Path

    def rows(self) -> dict[str, Any]:
        """The child's answer to the data that it was sent; errors are those of ``Child.receive``."""
        try:
            return self.child.receive(_SHORT_S)
        except TimeoutError:
            lower_priority(self.child.pid)
            return self.child.receive()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Time spent inside does not count as the query's."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.child.deadline += time.monotonic() - start


@contextmanager
def sandbox(sql: str, timeout_s: float) -> Iterator[Sandbox]:
    """A child that answers one query; it is killed, and its folder removed, at the end."""
    # A relative home: the settings that SQL can list then show no path of this machine.
    environment = {"HOME": ".", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    environment |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # The CPU limit is a second line, should the parent itself be stopped and unable to kill.
    limits = Limits(ADDRESS_SPACE_BYTES, math.ceil(timeout_s * 4) + 60, file_bytes=0)
    job = {"sql": sql, "timeout_s": timeout_s, "memory_bytes": MEMORY_BYTES}
    with scratch() as folder:
        deadline = time.monotonic() + timeout_s
        with Child(answer_query, job, limits, deadline, Home(folder, environment)) as child:
            yield Sandbox(child, folder)
