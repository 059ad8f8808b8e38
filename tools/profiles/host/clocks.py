"""The clock of samples of the host against that of a timeline, from what both state.

Both state Unix time, or both use one clock of the machine, on which they overlap. A clock is never guessed from what
happens on both: in recordings whose clocks are known, the shift at which stacks told most about the calls of the GPU's
runtime was wrong in 12 of 17, because steps that repeat look alike (docs/decisions/065).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..merging.contract import one_row, parquet
from .recording import HostRecording

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class ClockMatch:
    """What to add to the times of a recording, by how much that may be wrong, and how it is known."""

    shift: int
    error_ns: int
    way: str = ""
    """Empty if the times are on one clock anyhow."""

    def text(self) -> str:
        """Return a clause on how well the clock is known; empty if that is no question."""
        return f"; the clock is known to {self.error_ns / 1e6:.1f} ms, {self.way}" if self.way else ""


def match_clock(
    con: duckdb.DuckDBPyConnection, recording: HostRecording, out: Path, unix_shift: int | None
) -> ClockMatch | None:
    """Return how the times of a recording relate to those of the events below ``out``; None if that is not known.

    ``unix_shift`` is the clock of the events minus Unix time in ns, if it is known.
    """
    events, clock = out / "events.parquet", recording.clock
    if clock is None or not events.is_file():
        return ClockMatch(0, 0)
    if unix_shift is not None and clock.unix_shift is not None:
        return ClockMatch(unix_shift - clock.unix_shift, clock.error_ns, "as both state Unix time")
    sampled = one_row(con, f"SELECT min(start_ns), max(end_ns) FROM ({recording.samples})")
    recorded = one_row(con, f"SELECT min(start_ns), max(end_ns) FROM {parquet([events])}")
    if None in sampled or None in recorded:
        return None
    for shift in clock.candidates:
        if min(sampled[1] + shift, recorded[1]) > max(sampled[0] + shift, recorded[0]):
            return ClockMatch(shift, clock.error_ns, "as both use a clock of the machine")
    return None
