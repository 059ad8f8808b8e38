"""How tests wait and measure on a machine of any speed: for what can be seen, and in processor time or ratios."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

END_S = 120.0
"""When to give up waiting; what comes early costs nothing. What tests leave hanging takes at least LONG_S."""
LONG_S = 600


def until(found: Callable[[], object], within_s: float = END_S) -> None:
    """Wait until something is so."""
    end = time.monotonic() + within_s
    while not found():
        assert time.monotonic() < end, f"did not happen within {within_s:g} s"
        time.sleep(0.02)


def cpu_s(pid: int) -> float:
    """Processor time that a running process has used, with that of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def soon(undisturbed_s: float, claim_s: float) -> float:
    """The most that an answer may take which is claimed within ``claim_s``: more only on a machine so slow that the
    same answer, with nothing else to do, took a twentieth of that."""
    return max(claim_s, 20 * undisturbed_s)
