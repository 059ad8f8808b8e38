"""The recordings of a profile's outputs, each from the best of its files that can be read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.problems import BadInput, LimitExceeded
from .csv_read import read_csv
from .json_read import read_json
from .outputs import LAUNCHES, Output
from .recording import Recording
from .rocpd_read import read_rocpd

if TYPE_CHECKING:
    import duckdb

_SPOKEN = {"rocpd": "rocpd databases", "json": "JSON files", "csv": "CSV files"}
_LISTED = 8


def collect(
    con: duckdb.DuckDBPyConnection, outputs: list[Output], work: Path, warnings: list[str], notes: list[str]
) -> list[Recording]:
    """The recordings of all outputs, each from the best of its files that can be read."""
    found: list[Recording] = []
    unread: Counter[str] = Counter()
    idle: list[str] = []
    for number, output in enumerate(outputs):
        kinds = list(dict.fromkeys("csv" if k in ("counters", "trace") else k for k in LAUNCHES if k in output.files))
        for place, kind in enumerate(kinds):
            try:
                items = _read(con, output, kind, work / f"file_{number}_{kind}", warnings)
            except (BadInput, LimitExceeded) as problem:
                warnings.append(f"{problem.text} It was left out.")
                continue
            found += items
            unread.update(kinds[place + 1 :])
            if not any(i.rows for i in items):
                idle.append(items[0].source.name)
            break
    found = _once(found, warnings)
    if unread and found:
        best = ", ".join(sorted({_SPOKEN[r.kind] for r in found}))
        others = " and ".join(_SPOKEN[k] for k in unread)
        notes.append(f"Read from {best}; {others} of the same runs were not needed.")
    if idle and any(r.rows for r in found):
        listed = ", ".join(idle[:_LISTED]) + (" ..." if len(idle) > _LISTED else "")
        notes.append(f"{len(idle)} processes launched no kernel: {listed}.")
    return found


def _read(
    con: duckdb.DuckDBPyConnection, output: Output, kind: str, work: Path, warnings: list[str]
) -> list[Recording]:
    if kind == "rocpd":
        return read_rocpd(con, output.files[kind], output, work)
    if kind == "json":
        return read_json(con, output.files[kind], output, work)
    return read_csv(con, output, work, warnings)


def _once(recordings: list[Recording], warnings: list[str]) -> list[Recording]:
    """Without copies of a database: its session, process and times name a recording wherever it lies."""
    seen: dict[tuple[object, ...], str] = {}
    kept = []
    for item in recordings:
        key = (item.session, item.pid, item.span, item.rows, item.counters)
        if item.session and key in seen:
            warnings.append(f"{item.source.name} is a copy of {seen[key]} and was left out.")
        else:
            seen[key] = item.source.name
            kept.append(item)
    return kept
