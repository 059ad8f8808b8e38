"""The processes of one pass as one staged table: a row for every launch, a column for every counter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.problems import BadInput
from ....analysis.store import sql_literal, sql_name, write_table
from ..columns import Column
from ..names import plain_text
from ..passes import ACCUMULATE
from ..staged import Staged, measure
from .recording import LAUNCH, Recording, relation

if TYPE_CHECKING:
    import duckdb

_COLUMNS = {  # column of a staged pass -> (its role, SQL over a recording's launches)
    "Process": ("process", "{process}"), "PID": ("pid", "pid"), "Dispatch_ID": ("dispatch_id", "dispatch_id"),
    "Kernel_Name": ("kernel", "kernel"), "GPU_ID": ("device_id", "CAST(device AS VARCHAR)"),
    "Queue_ID": ("queue_id", "queue_id"), "Grid_Size": ("grid", "grid"),
    "Workgroup_Size": ("workgroup_size", "workgroup_size"), "LDS_Per_Workgroup": ("lds_bytes", "lds_bytes"),
    "Scratch_Per_Workitem": ("scratch_bytes", "scratch_bytes"), "Arch_VGPR": ("vgpr", "vgpr"),
    "Accum_VGPR": ("agpr", "agpr"), "SGPR": ("sgpr", "sgpr"),
    "Start_Timestamp": ("start", "CAST(start_ns AS VARCHAR)"), "End_Timestamp": ("end", "CAST(end_ns AS VARCHAR)"),
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z]\w{0,119}(\[\d{1,4}\])?", re.ASCII)
_RESERVED = {
    "row",
    "file_row_number",
    "workload",
    "filename",
    "duration_ns",
    "kernel_id",
    *LAUNCH,
    *(c.casefold() for c in _COLUMNS),
}
_VALUES_AT_ONCE = 3_000_000
_MOST_COUNTERS = 20_000


def stage_pass(
    con: duckdb.DuckDBPyConnection, name: str, recordings: list[Recording], processes: list[int], work: Path
) -> Staged:
    """Write the launches of ``recordings`` with their counters; ``processes`` numbers them within the workload.

    Counter values are spread over columns a few thousand launches at a time, so that memory stays bounded.
    """
    warnings: list[str] = []
    counters = _usable(sorted({c for r in recordings for c in r.counters}), recordings, warnings)
    parts: list[Path] = []
    repeated = 0
    for recording, process in zip(recordings, processes, strict=True):
        for low, high in _slices(con, recording):
            parts.append(work / f"part_{name}_{len(parts)}.parquet")
            repeated += _write_part(con, recording, process, (low, high), counters, parts[-1])
    whole = work / f"stage_{name}.parquet"
    rows = write_table(con, f"FROM {relation(parts)}", whole)
    for part in parts:
        part.unlink()
    if repeated:
        warnings.append(
            f"{recordings[0].source.name}: {repeated} counters are stated several times for one launch; "
            "the values were added up, as those of instances are."
        )
    columns = [Column(header, role) for header, (role, _) in _COLUMNS.items()]
    columns += [Column(c, "instance" if c.endswith("]") else "counter") for c in counters]
    staged = Staged(name, recordings[0].source, whole, columns, rows, warnings)
    measure(con, staged)
    return staged


def _usable(names: list[str], recordings: list[Recording], warnings: list[str]) -> list[str]:
    """Counters in the order of columns: an accumulation directly after the only level it can belong to."""
    source = recordings[0].source.name
    if len(names) > _MOST_COUNTERS:
        raise BadInput(f"{source} names more than {_MOST_COUNTERS} counters", "no GPU has so many")
    found: dict[str, str] = {}
    for name in names:
        if _NAME.fullmatch(name) and name.casefold() not in _RESERVED:
            found.setdefault(name.casefold(), name)
    counters = list(found.values())
    if strange := [plain_text(n, 40) for n in names if n not in counters]:
        warnings.append(
            f"{source}: {len(strange)} names that are no counters were left out: {', '.join(strange[:8])}"
            f"{' ...' if len(strange) > 8 else ''}."
        )
    levels = [c for c in counters if "LEVEL" in c and not c.endswith("_ACCUM")]
    if ACCUMULATE in counters and len(levels) == 1:
        counters.remove(ACCUMULATE)
        counters.insert(counters.index(levels[0]) + 1, ACCUMULATE)
    return counters


def _slices(con: duckdb.DuckDBPyConnection, recording: Recording) -> list[tuple[int, int]]:
    """Ranges of keys that hold about as many values as fit in memory at ease."""
    low, high = recording.keys
    if not recording.counters:
        return [(low, high)]
    (values,) = con.execute(
        f"SELECT count(*) FROM {relation(recording.values)} WHERE key BETWEEN {low} AND {high}"
    ).fetchone() or (0,)
    step = max(1, int(_VALUES_AT_ONCE / max(1.0, values / recording.rows)))
    return [(start, min(high, start + step - 1)) for start in range(low, high + 1, step)]


def _write_part(
    con: duckdb.DuckDBPyConnection, recording: Recording, process: int, keys: tuple[int, int], counters: list[str],
    path: Path,
) -> int:  # fmt: skip
    """One slice of a recording; returns how many counters were stated several times for one launch of a CSV file."""
    low, high = keys
    launched = ", ".join(f"{sql.format(process=process)} AS {header}" for header, (_, sql) in _COLUMNS.items())
    select = f"SELECT key, {launched} FROM {relation([recording.launches])} WHERE key BETWEEN {low} AND {high}"
    own = [c for c in counters if c in recording.counters]
    empty = "".join(f", NULL::DOUBLE AS {sql_name(c)}" for c in counters)
    if not own:
        write_table(con, f"SELECT * EXCLUDE (key){empty} FROM ({select}) ORDER BY key", path)
        return 0
    names = ", ".join(f"({sql_literal(c)}, {i})" for i, c in enumerate(counters))
    con.execute(
        "CREATE OR REPLACE TABLE summed AS SELECT key, code, sum(value) AS value, count(*) AS n "
        f"FROM {relation(recording.values)} JOIN (VALUES {names}) c(counter, code) USING (counter) "
        f"WHERE key BETWEEN {low} AND {high} GROUP BY key, code"
    )
    codes = [i for i, c in enumerate(counters) if c in recording.counters]
    picks = "".join(
        f", w.{sql_name(str(i))} AS {sql_name(c)}" if i in codes else f", NULL::DOUBLE AS {sql_name(c)}"
        for i, c in enumerate(counters)
    )
    wide = (
        f"PIVOT (SELECT key, code, value FROM summed) ON code IN ({', '.join(map(str, codes))}) "
        "USING first(value) GROUP BY key"
    )
    con.execute(f"CREATE OR REPLACE TABLE spread AS {wide}")
    write_table(
        con, f"SELECT l.* EXCLUDE (key){picks} FROM ({select}) l LEFT JOIN spread w USING (key) ORDER BY l.key", path
    )
    (again,) = con.execute("SELECT count(*) FROM summed WHERE n > 1").fetchone() or (0,)
    con.execute("DROP TABLE summed; DROP TABLE spread")
    return int(again) if recording.kind == "csv" else 0
