"""Thread traces by wave: which cycles of an instruction other waves of its SIMD covered, and which waves were resident.

Formats: the files of rocprofiler-sdk's att-tool beside code.json. A wave's se*_sm*_sl*_wv*.json has rows (clock, type,
stall, cycles, number of the instruction) and the states that it went through; occupancy.json has rows (clock, CU,
SIMD, slot, 1 for a start and 0 for an end, kernel) of each shader engine, also of waves that were not traced.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base import progress
from ...base.profile_files import head, is_inside
from ...base.untrusted_text import bounded_name, plain_kernel_name, visible_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_FILE = re.compile(r"se(\d{1,4})_sm(\d{1,4})_sl(\d{1,4})_wv(\d{1,9})\.json")
_MOST_FILES, _FILE_BYTES, _MOST_BYTES = 4096, 64 << 20, 1 << 30
"""Maximum number of wave files of a trace, size of one file, and size of all that are read."""
_MOST_RESIDENT = 2_000_000
_CLOCK, _STALL, _CYCLES, _NUMBER = 0, 2, 3, 4
"""Places of the cells of an instruction of a wave."""
_LARGEST = 2**53
STATES = {1: "idle_cycles", 2: "exec_cycles", 3: "wait_cycles", 4: "stall_cycles"}
"""State of a wave -> the column that adds up its cycles."""
WAVE = {  # column of the table waves, besides its kernel -> SQL type
    "shader_engine": "INTEGER", "cu": "INTEGER", "simd": "INTEGER", "slot": "INTEGER", "start_cycle": "BIGINT",
    "end_cycle": "BIGINT", "instructions": "BIGINT", **dict.fromkeys(STATES.values(), "BIGINT"),
}  # fmt: skip
RESIDENT = {"row": "BIGINT", "dispatch_id": "BIGINT", "kernel": "VARCHAR", **WAVE}


@dataclass(frozen=True)
class TracedWave:
    """One wave: where it ran, from when to when, and its instructions in order, in cycles of the shader clock."""

    engine: int
    cu: int
    simd: int
    slot: int
    begin: int
    end: int
    clock: Ints
    stall: Ints
    cycles: Ints
    """From its clock, including the stall."""
    number: Ints
    states: Mapping[str, int]
    """Column of STATES -> cycles."""
    waits: Sequence[tuple[int, int, int]] = ()
    """Number of a wait, that of an instruction that it waited for, and how often."""

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Shader engine, CU, SIMD and slot."""
        return self.engine, self.cu, self.simd, self.slot

    def busy(self) -> tuple[Ints, Ints]:
        """Return when it was issuing or executing: each instruction after its stall."""
        return self.clock + self.stall, self.clock + self.cycles

    def idle_from(self) -> Ints:
        """Return where the idle time before each instruction starts: the latest end before it, or its clock if earlier.

        The decoder counts the time from there to the clock as idle.
        """
        import numpy as np

        ends = np.concatenate([[self.begin], (self.clock + self.cycles)[:-1]])
        return np.minimum(np.maximum.accumulate(ends), self.clock)


@dataclass(frozen=True)
class CoveredCycles:
    """What the waves of a trace spent at one instruction: covered by other waves of their SIMD, and not."""

    executed: int
    hidden: int
    exposed: int


def read_waves(folder: Path) -> tuple[list[TracedWave], int]:
    """Return the waves of a decoded trace, and the number of their files that were not read: damaged, or too many."""
    files = [file for file in sorted(folder.glob("se*_sm*_sl*_wv*.json")) if _FILE.fullmatch(file.name)]
    waves, size, unread = list[TracedWave](), 0, max(0, len(files) - _MOST_FILES)
    for file in islice(files, _MOST_FILES):
        if not (is_inside(file, folder) and file.is_file()):
            unread += 1
            continue
        size += (own := file.stat().st_size)
        wave = _read_wave(file, own) if own <= _FILE_BYTES and size <= _MOST_BYTES else None
        if wave is None:
            unread += 1
        else:
            waves.append(wave)
        progress.report(f"read {len(waves)} of {len(files)} waves of {folder.name}")
    return waves, unread


def _read_wave(file: Path, size: int) -> TracedWave | None:
    """Return the wave of a file; None if it is damaged."""
    import numpy as np

    match = _FILE.fullmatch(file.name)
    try:
        stated = json.loads(head(file, size))["wave"]
        rows = np.asarray(stated.get("instructions", []), dtype=np.int64).reshape(-1, _NUMBER + 1)
        begin, end, cu = (int(stated[name]) for name in ("begin", "end", "cu"))
        states = dict.fromkeys(STATES.values(), 0)
        for state, cycles in stated.get("timeline", []):
            if state in STATES:
                states[STATES[state]] += int(cycles)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    waits = _parse_waits(stated.get("waitcnt"))
    stall = rows[:, _STALL]
    cycles = np.maximum(rows[:, _CYCLES], stall)
    if match is None or not 0 <= begin <= end < _LARGEST or (np.abs(rows) > _LARGEST).any() or (stall < 0).any():
        return None
    engine, simd, slot = (int(match[n]) for n in (1, 2, 3))
    return TracedWave(
        engine, cu, simd, slot, begin, end, rows[:, _CLOCK], stall, cycles, rows[:, _NUMBER], states, list(waits)
    )  # fmt: skip


def _parse_waits(stated: Any) -> Iterator[tuple[int, int, int]]:
    """Yield what waits waited for, from rows (number, [[number, count], ...])."""
    for row in stated if isinstance(stated, list) else ():
        if not (isinstance(row, list) and len(row) == 2 and isinstance(row[0], int) and isinstance(row[1], list)):
            continue
        for pair in row[1][:64]:
            if isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, int) and n >= 0 for n in pair):
                yield row[0], pair[0], max(1, pair[1])  # rocprofv3 writes 0 if it happened once


def covered_cycles(waves: Sequence[TracedWave]) -> dict[int, CoveredCycles]:
    """Return the covered and the exposed cycles of every instruction, by its number.

    A cycle in which a wave is idle or stalled is covered if another wave of the same SIMD issues or executes an
    instruction in it. All other cycles are exposed, those of the instruction itself included.
    """
    import numpy as np

    groups = defaultdict(list)
    for wave in waves:
        groups[wave.place[:-1]].append(wave)
    sums: dict[int, Ints] = defaultdict(lambda: np.zeros(3, dtype=np.int64))
    for group in groups.values():
        for number, row in enumerate(group):
            others = [o for n, o in enumerate(group) if n != number and o.begin < row.end and o.end > row.begin]
            busy = _union(others)
            start = row.idle_from()
            hidden = _overlap(busy, start, row.clock) + _overlap(busy, row.clock, row.clock + row.stall)
            cost = row.clock - start + row.cycles
            own, at = np.unique(row.number, return_inverse=True)
            columns = [
                np.bincount(at, weights=w, minlength=len(own)) for w in (np.ones(len(at)), hidden, cost - hidden)
            ]
            for line, *cells in zip(own.tolist(), *columns, strict=True):
                sums[line] += np.asarray(cells, dtype=np.int64)
    return {line: CoveredCycles(*(int(cell) for cell in row)) for line, row in sums.items()}


def _union(waves: Sequence[TracedWave]) -> tuple[Ints, Ints]:
    """Return the disjoint intervals, in order, in which any of the waves was issuing or executing."""
    import numpy as np

    parts = [wave.busy() for wave in waves]
    s, e = (np.concatenate([part[side] for part in parts] or [np.zeros(0, dtype=np.int64)]) for side in (0, 1))
    s, e = s[e > s], e[e > s]
    order = np.argsort(s, kind="stable")
    s, reach = s[order], np.maximum.accumulate(e[order]) if len(order) else e
    first = np.flatnonzero(np.concatenate([[True], s[1:] > reach[:-1]])) if len(s) else np.zeros(0, dtype=np.int64)
    return s[first], np.append(reach[first[1:] - 1], reach[-1:])


def _overlap(busy: tuple[Ints, Ints], start: Ints, end: Ints) -> Ints:
    """Return how much of each interval lies within the disjoint intervals ``busy``."""
    import numpy as np

    s, e = busy
    if not len(s):
        return np.zeros(len(start), dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(e - s)])

    def until(at: Ints) -> Ints:
        k = np.searchsorted(s, at, side="right")
        open_part = np.where(k > 0, np.minimum(at, e[np.maximum(k - 1, 0)]) - s[np.maximum(k - 1, 0)], 0)
        return before[np.maximum(k - 1, 0)] + open_part

    return until(np.maximum(start, end)) - until(start)


def resident_waves(
    occupancy: Mapping[str, Any], waves: Sequence[TracedWave]
) -> Iterator[tuple[int | None, dict[str, int | None]]]:
    """Yield every wave as the number of its kernel in occupancy.json and its cells of the table waves.

    Waves of other CUs have no instructions. A traced wave that occupancy.json lacks has no kernel number.
    """
    traced = {(*wave.place, wave.begin): wave for wave in waves}
    for engine, rows in occupancy.items():
        if not (engine.isdigit() and isinstance(rows, list)):
            continue
        started = {}
        for row in islice(rows, _MOST_RESIDENT):
            if not (isinstance(row, list) and len(row) >= 6 and all(isinstance(cell, int) for cell in row)):
                continue
            clock, cu, simd, slot, starts, kernel = row[:6]
            place = int(engine), cu, simd, slot
            if starts:
                started[place] = clock, kernel
            elif place in started:
                begin, of = started.pop(place)
                yield of, _cells(place, begin, clock, traced.pop((*place, begin), None))
        for place, (begin, of) in started.items():
            yield of, _cells(place, begin, None, traced.pop((*place, begin), None))
    for wave in traced.values():
        yield None, _cells(wave.place, wave.begin, wave.end, wave)


def _cells(
    place: tuple[int, int, int, int], begin: int, end: int | None, wave: TracedWave | None
) -> dict[str, int | None]:
    seen = {"instructions": len(wave.clock), **wave.states} if wave else {}
    return dict(zip(WAVE, (*place, begin, end), strict=False)) | seen


def select_waves(waves: str, stored: str) -> str:
    """Return SQL for the table waves; ``stored`` is a FROM item with the stored launches, empty without any."""
    columns = ", ".join(WAVE)
    kernel = plain_kernel_name(bounded_name(visible_name("w.kernel")))
    if not stored:
        picks = f"dispatch_id, {kernel} AS kernel, {columns} FROM ({waves}) w"
    else:
        picks = f"coalesce(d.dispatch_id, w.dispatch_id) AS dispatch_id, coalesce(d.kernel, {kernel}) AS kernel, "
        picks += f"{columns} FROM ({waves}) w LEFT JOIN {stored} d USING (row)"
    return f"SELECT {picks} ORDER BY dispatch_id, shader_engine, start_cycle, cu, simd, slot"
