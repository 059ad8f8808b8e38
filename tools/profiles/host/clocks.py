"""The clock of samples of the host against that of a timeline: from what both state, or from what happens on both.

1. Both state Unix time: the difference.
2. A clock of the whole machine (CLOCK_MONOTONIC and others): the one on which samples and events overlap.
3. Otherwise landmarks: a stack and the call of the GPU's runtime that is made from it occur together. The shift is
   looked for at which the stacks tell most about the calls (mutual information, by cross-correlation over all shifts).
   It is accepted only if no other shift comes near, because steps that repeat look alike at the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....analysis.timeline.trace import thread_rows
from ..merging.contract import one_row, parquet
from .recording import HostRecording

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_BIN_NS = 1_000_000
_MOST_BINS = 1 << 18
_CLASSES, _STACKS = 8, 40
"""The calls with most time, and the stacks with most samples, that are compared; the others are one class each."""
_LEAST_GAIN, _RUNNER_UP, _NEAR = 0.05, 0.9, 0.95
"""The information that the best shift has to give (bits), the share of it that no distant shift may reach, and the
share that shifts within the error reach."""
_LEAST_OVERLAP = 0.5
"""The part of the shorter recording that lies within the other one."""
_DISTANT = 25
"""Bins from which on a shift is another one."""


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
    """Return how the times of a recording relate to those of the events below ``out``; None if that is not known."""
    events, clock = out / "events.parquet", recording.clock
    if clock is None or not events.is_file():
        return ClockMatch(0, 0)
    sampled = one_row(con, f"SELECT min(start_ns), max(end_ns) FROM ({recording.samples})")
    recorded = one_row(con, f"SELECT min(start_ns), max(end_ns) FROM {parquet([events])}")
    if None in sampled or None in recorded:
        return None

    def overlap(shift: int) -> int:
        return int(min(sampled[1] + shift, recorded[1]) - max(sampled[0] + shift, recorded[0]))

    if unix_shift is not None and clock.unix_shift is not None:
        return ClockMatch(unix_shift - clock.unix_shift, clock.error_ns, "as both state Unix time")
    for shift in clock.candidates:
        if overlap(shift) > 0:
            return ClockMatch(shift, clock.error_ns, "as both use a clock of the machine")
    return _landmark_shift(con, recording, events, (sampled, recorded))


def _landmark_shift(
    con: duckdb.DuckDBPyConnection, recording: HostRecording, events: Path, ends: tuple[Any, Any]
) -> ClockMatch | None:
    """Return the shift at which stacks and calls of the runtime agree, if there is one."""
    (s0, s1), (e0, e1) = ends
    size = max(_BIN_NS, -(-(s1 - s0 + e1 - e0) // _MOST_BINS))
    sampled = _intervals(con, f"({recording.samples})", "stack", _STACKS)
    called = _intervals(con, f"{parquet([events])} WHERE kind IN ('api', 'sync', 'alloc')", "name", _CLASSES)
    bins = int((s1 - s0 + e1 - e0) // size) + 2
    gains = np.zeros(bins)
    weight = 0
    for who in sampled.keys() & called.keys():
        stacks = _marks(sampled[who], s0, size, int((s1 - s0) // size) + 1)
        calls = _marks(called[who], e0, size, int((e1 - e0) // size) + 1)
        gains += _information(stacks, calls, bins)
        weight += 1
    if not weight:
        return None
    best = int(gains.argmax())
    near = np.flatnonzero(gains >= _NEAR * gains[best])
    around = near[np.abs(near - best) < _DISTANT]
    distant = np.delete(gains, np.arange(max(best - _DISTANT, 0), min(best + _DISTANT + 1, bins)))
    if gains[best] < _LEAST_GAIN or (len(distant) and distant.max() > _RUNNER_UP * gains[best]):
        return None
    # Bin ``lag`` of the result is the shift by which the samples lie that much after the beginning of the events.
    shift = int(e0 - s0 + (best - (int((s1 - s0) // size))) * size)
    error = int(max(around.max() - best, best - around.min()) + 1) * size
    return ClockMatch(shift, error, "from the stacks of its calls")


def _intervals(con: duckdb.DuckDBPyConnection, rows: str, what: str, most: int) -> dict[tuple[int, int], Any]:
    """Return start, end and class of the rows of each thread; classes are the values with most time, from 1."""
    classes = (
        f"SELECT {what} AS value, row_number() OVER (ORDER BY sum(end_ns - start_ns) DESC, {what}) AS class "
        f"FROM {rows} GROUP BY {what} QUALIFY class <= {most}"
    )
    columns = con.execute(
        f"SELECT pid, thread, start_ns, end_ns, coalesce(class, {most + 1}) AS class FROM (FROM {rows}) r "
        f"LEFT JOIN ({classes}) c ON c.value = r.{what} WHERE pid IS NOT NULL AND thread IS NOT NULL ORDER BY 1, 2, 3"
    ).fetchnumpy()
    pid, thread, *others = (np.ma.getdata(column).astype(np.int64) for column in columns.values())
    return {who: tuple(one[mine] for one in others) for who, mine in thread_rows(pid, thread)}


def _marks(intervals: Sequence[Ints], zero: int, size: int, bins: int) -> Floats:
    """Return for each class, in a row of its own, the share of each bin that its intervals cover; row 0 is the rest."""
    start, end, number = intervals
    marks = np.zeros((int(number.max(initial=0)) + 1, bins + 1))
    for row in range(1, len(marks)):
        mine = number == row
        for at, sign in ((start[mine], 1.0), (end[mine], -1.0)):
            where = np.clip((at - zero) / size, 0, bins - 1e-9)
            whole = where.astype(np.int64)
            # A step that begins within a bin covers the rest of it.
            np.add.at(marks[row], whole, sign * (1 - (where - whole)))
            np.add.at(marks[row], np.minimum(whole + 1, bins), sign * (where - whole))
        marks[row] = np.cumsum(marks[row])
    marks = np.clip(marks[:, :bins], 0, 1)
    marks[0] = np.clip(1 - marks[1:].sum(axis=0), 0, 1)
    return marks


def _information(stacks: Floats, calls: Floats, bins: int) -> Floats:
    """Return for each shift what the stacks tell about the calls, in bits; 0 where too little of them overlaps.

    That is the entropy of the stacks, plus that of the calls, minus that of both together.
    """
    size = 1 << int(bins - 1).bit_length()
    spectra = np.fft.rfft(calls, size, axis=1)
    shorter = min(stacks.shape[1], calls.shape[1])
    ramp = np.arange(1, bins + 1)
    total = np.maximum(np.minimum(np.minimum(ramp, shorter), stacks.shape[1] + calls.shape[1] - ramp), 1)

    def entropy(times: Floats) -> Floats:
        share = np.maximum(times, 1e-9) / total
        parts: Floats = -share * np.log2(share)
        return parts

    gain, called = np.zeros(bins), np.zeros((len(calls), bins))
    for row in stacks:
        joint = np.fft.irfft(np.fft.rfft(row[::-1], size) * spectra, size, axis=1)[:, :bins]
        gain += entropy(joint.sum(axis=0)) - entropy(joint).sum(axis=0)
        called += joint
    gain += entropy(called).sum(axis=0)
    kept: Floats = np.where(total >= _LEAST_OVERLAP * shorter, gain, 0.0)
    return kept
