"""Passes of one profile joined by (device, kernel, ordinal) into the tables of a workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.store import sql_literal, sql_name, write_table
from .keys import Pass, write_keys
from .wide import write_counters

if TYPE_CHECKING:
    import duckdb

_LAUNCH = {  # column of the table dispatches -> SQL type
    "pid": "BIGINT", "queue_id": "BIGINT", "grid": "BIGINT", "workgroup_size": "INT", "vgpr": "INT", "agpr": "INT",
    "sgpr": "INT", "lds_bytes": "BIGINT", "scratch_bytes": "BIGINT",
}  # fmt: skip
_REGISTERS = ("vgpr", "agpr", "sgpr")
_LARGEST = {"INT": 2**31 - 1, "BIGINT": 2**63 - 1}


@dataclass
class Merged:
    """What was written: row counts, the counter columns of the wide table, warnings and hints in words."""

    dispatches: int
    kernels: int
    counters: list[str]
    passes: list[Pass]
    warnings: list[str]
    notes: list[str] = field(default_factory=list)


def write_tables(con: duckdb.DuckDBPyConnection, passes: list[Pass], folder: Path, *, instances_per_xcd: int) -> Merged:
    """Write passes, dispatches, counters and counter_instances of one workload into ``folder``.

    The first pass is the main one: its dispatches are the workload's. Rows of the others are matched by
    (device, kernel, grid, ordinal); how many were is recorded in each Pass and told in the warnings.
    """
    warnings: list[str] = []
    notes: list[str] = []
    write_keys(con, passes, warnings, notes)
    write_table(con, _dispatches(passes, warnings), folder / "dispatches.parquet")
    no_time, total, kernels = con.execute(
        "SELECT count(*) FILTER (duration_ns IS NULL), count(*), count(DISTINCT kernel_id) FROM keys_0"
    ).fetchone() or (0, 0, 0)
    if no_time:
        warnings.append(
            f"{no_time} of {total} dispatches have no usable timing (start and end are missing, equal, zero "
            "or rounded): their durations and every rate are empty."
        )
    columns = write_counters(con, passes, folder)
    _write_instances(con, passes, folder, instances_per_xcd)
    write_passes(con, passes, folder)
    for item in passes:
        item.staged.parquet.unlink(missing_ok=True)
    told = [*(w for p in passes for w in p.staged.warnings), *warnings]
    return Merged(total, kernels, columns, passes, told, notes)


def write_passes(con: duckdb.DuckDBPyConnection, passes: list[Pass], folder: Path) -> None:
    """Write the table of passes."""
    con.execute(
        "CREATE OR REPLACE TABLE pass_rows (pass_id INT, name VARCHAR, tool VARCHAR, source VARCHAR, dispatches INT, "
        "matched INT, unmatched INT, counters VARCHAR)"
    )
    con.executemany(
        "INSERT INTO pass_rows VALUES (?, ?, NULL, ?, ?, ?, ?, ?)",
        [
            [
                i,
                p.staged.name,
                p.staged.source.name,
                p.staged.rows,
                p.matched,
                p.unmatched,
                ",".join(p.counters.values()),
            ]
            for i, p in enumerate(passes)
        ],
    )
    write_table(con, "FROM pass_rows", folder / "passes.parquet")


def _dispatches(passes: list[Pass], warnings: list[str]) -> str:
    """The launches of the main pass; registers that it does not state (a trace before ROCm 7.0) come from another."""
    main = passes[0]
    picks, joins = [], ""
    for name, kind in _LAUNCH.items():
        header = main.staged.header(name)
        lender = _lender(passes, name) if name in _REGISTERS else 0
        if lender:
            lent = passes[lender].staged.header(name) or ""
            rows = passes[lender].staged.relation([lent])
            known = f"SELECT main_row, {lent} AS {name} FROM {rows} JOIN pairs_{lender} USING (row)"
            joins += f" LEFT JOIN ({known}) {name}_lent ON {name}_lent.main_row = launch.row"
        picks.append(f"TRY_CAST({f'{name}_lent.{name}' if lender else header or 'NULL'} AS {kind}) AS {name}")
        low, high = main.staged.bounds.get((header or "").strip('"'), (0, 0))
        if low < 0 or high > _LARGEST[kind]:
            warnings.append(
                f"{main.staged.source.name}: {name} ranges from {low:g} to {high:g}, which no launch can have; "
                "what does not fit is NULL."
            )
    rows = f"SELECT row, {', '.join(picks)} FROM {main.staged.relation(main.staged.named(*_LAUNCH))} launch{joins}"
    return (
        "SELECT k.dispatch_id, n.kernel, n.raw AS kernel_raw, k.device_id, "
        "launch.* EXCLUDE (row), k.ordinal, k.start_ns, k.end_ns, k.duration_ns "
        f"FROM ({rows}) launch JOIN keys_0 k USING (row) JOIN names n USING (name_id) ORDER BY row"
    )


def _lender(passes: list[Pass], name: str) -> int:
    """The first pass that has values of a column which the main one lacks; 0 where it has them itself, or none has."""
    held = [(p.staged.header(name) or "").strip('"') in p.staged.bounds for p in passes]
    return held.index(True) if True in held else 0


def _write_instances(con: duckdb.DuckDBPyConnection, passes: list[Pass], folder: Path, per_xcd: int) -> None:
    """Per-instance values as rows; ``instance`` counts within its XCD. Of a value measured twice the first counts."""
    selects, seen = [], set()
    for index, item in enumerate(passes):
        new = {h: n for h, n in item.instances.items() if n not in seen}
        seen |= set(new.values())
        if not new:
            continue
        names = ", ".join(f"({sql_literal(h)}, {sql_literal(c)}, {n})" for h, (c, n) in new.items())
        wanted = [sql_name(h) for h in new]
        rows = item.staged.relation(wanted)
        if index:
            pairs = f"{rows} JOIN pairs_{index} USING (row)"
            rows = f"(SELECT * EXCLUDE (row, main_row, duration_ns), main_row AS row FROM {pairs})"
        selects.append(
            f"SELECT dispatch_id, n.counter, n.n, value "
            f"FROM (UNPIVOT {rows} ON {', '.join(wanted)} INTO NAME header VALUE value) "
            f"JOIN (VALUES {names}) n(header, counter, n) USING (header) JOIN keys_0 USING (row)"
        )
    if selects:
        place = f"CAST(n // {per_xcd} AS SMALLINT) AS xcd, CAST(n % {per_xcd} AS SMALLINT) AS instance"
        select = f"SELECT dispatch_id, counter, {place}, value FROM ({' UNION ALL '.join(selects)})"
        write_table(con, f"{select} ORDER BY counter, dispatch_id, n", folder / "counter_instances.parquet")
