"""Passes of one profile joined by (device, kernel, ordinal) into the tables of a workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.problems import BadInput
from ...analysis.store import sql_literal, sql_name, write_table
from .columns import plain_kernel_name
from .csvfile import Staged

if TYPE_CHECKING:
    import duckdb

_LAUNCH = {  # column of the table dispatches -> SQL type
    "pid": "BIGINT", "queue_id": "BIGINT", "grid": "BIGINT", "workgroup_size": "INT", "vgpr": "INT", "agpr": "INT",
    "sgpr": "INT", "lds_bytes": "BIGINT", "scratch_bytes": "BIGINT",
}  # fmt: skip


@dataclass
class Pass:
    """One profiled replay: its staged rows, which counters it holds and what they are called in the store."""

    staged: Staged
    counters: dict[str, str]
    """Counter in the file -> column in the store (``NAME`` in the main pass, ``NAME@PASS`` in others)."""
    instances: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Per-instance column in the file -> (counter, global instance number)."""
    matched: int = 0
    unmatched: int = 0


@dataclass
class Merged:
    """What was written: row counts, the counter columns of the wide table, and warnings in words."""

    dispatches: int
    kernels: int
    counters: list[str]
    passes: list[Pass]
    warnings: list[str]


def write_tables(con: duckdb.DuckDBPyConnection, passes: list[Pass], folder: Path, *, instances_per_xcd: int) -> Merged:
    """Write passes, dispatches, counters and counter_instances of one workload into ``folder``.

    The first pass is the main one: its dispatches are the workload's. Rows of the others are matched by
    (device, kernel, ordinal); how many were is recorded in each Pass and told in the warnings.
    """
    warnings: list[str] = []
    for index, item in enumerate(passes):
        con.execute(f"CREATE OR REPLACE TABLE keys_{index} AS {_keys(item.staged)}")
    main = passes[0]
    _number_dispatches(con, main, warnings)
    _match(con, passes, warnings)
    write_table(con, _dispatches(main), folder / "dispatches.parquet")
    no_time, total, kernels = con.execute(
        "SELECT count(*) FILTER (duration_ns IS NULL), count(*), count(DISTINCT kernel) FROM keys_0"
    ).fetchone() or (0, 0, 0)
    if no_time:
        warnings.append(f"{no_time} of {total} dispatches have no usable timing (start and end are missing, equal, zero "
                        "or rounded): their durations and every rate are empty.")
    columns, select = _wide(passes)
    write_table(con, select, folder / "counters.parquet")
    _write_instances(con, passes, folder, instances_per_xcd)
    _write_passes(con, passes, folder)
    for item in passes:
        item.staged.parquet.unlink(missing_ok=True)
    return Merged(total, kernels, columns, passes, [*(w for p in passes for w in p.staged.warnings), *warnings])


def _keys(staged: Staged) -> str:
    """Row number, identity and duration of every dispatch of one pass; few columns, so it fits in memory."""
    kernel = staged.header("kernel")
    if kernel is None:
        raise BadInput(f"{staged.source.name} has no column of kernel names", "neither Kernel_Name nor KernelName",
                       "Is this the profiler's own file?")
    device = staged.header("device_id")
    number = f"CAST(regexp_extract(CAST({device} AS VARCHAR), '(\\d+)', 1) AS INT)" if device else "0"
    given = staged.header("dispatch_id")
    raw = f"regexp_replace({kernel}, '[\\x00-\\x1f\\x7f]', ' ', 'g')"
    return (
        f"SELECT *, CAST(row_number() OVER (PARTITION BY device_id, kernel ORDER BY row) AS INT) AS ordinal FROM ("
        f"SELECT row, CAST({given or 'row'} AS BIGINT) AS dispatch_id, {number} AS device_id, {raw} AS kernel_raw, "
        f"{plain_kernel_name(raw)} AS kernel, {_times(staged)} FROM {staged.relation}) ORDER BY row"
    )


def _times(staged: Staged) -> str:
    """start_ns, end_ns, duration_ns: whole numbers are subtracted as integers, so that none above 2^53 is rounded.

    Timestamps with a fraction are means over replays and stay floating point. A duration that is not positive is no
    duration.
    """
    start, end = staged.header("start"), staged.header("end")
    if start is None or end is None:
        return "NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns, NULL::DOUBLE AS duration_ns"
    whole = f"regexp_full_match({start}, '\\d+') AND regexp_full_match({end}, '\\d+')"
    exact = f"CAST(TRY_CAST({end} AS BIGINT) - TRY_CAST({start} AS BIGINT) AS DOUBLE)"
    rough = f"TRY_CAST({end} AS DOUBLE) - TRY_CAST({start} AS DOUBLE)"
    span = f"CASE WHEN {whole} THEN {exact} ELSE {rough} END"
    return (
        f"TRY_CAST({start} AS BIGINT) AS start_ns, TRY_CAST({end} AS BIGINT) AS end_ns, "
        f"CASE WHEN {span} > 0 THEN {span} END AS duration_ns"
    )


def _number_dispatches(con: duckdb.DuckDBPyConnection, main: Pass, warnings: list[str]) -> None:
    total, distinct = con.execute("SELECT count(*), count(DISTINCT dispatch_id) FROM keys_0").fetchone() or (0, 0)
    if total != distinct:
        con.execute("UPDATE keys_0 SET dispatch_id = row")
        warnings.append(f"{main.staged.source.name}: dispatch ids repeat (several devices, processes or ranks), "
                        "so dispatches were numbered from 0 in file order.")


def _match(con: duckdb.DuckDBPyConnection, passes: list[Pass], warnings: list[str]) -> None:
    passes[0].matched = passes[0].staged.rows
    for index, item in enumerate(passes[1:], start=1):
        joined = con.execute(
            f"SELECT count(*) FROM keys_0 JOIN keys_{index} USING (device_id, kernel, ordinal)"
        ).fetchone() or (0,)
        item.matched = int(joined[0])
        item.unmatched = item.staged.rows - item.matched
        missing = passes[0].staged.rows - item.matched
        if item.unmatched or missing:
            warnings.append(f"Pass {item.staged.name}: {item.matched} dispatches matched by device, kernel and ordinal, "
                            f"{item.unmatched} only in this pass (left out), {missing} of the main pass without it (NULL).")


def _dispatches(main: Pass) -> str:
    launch = ", ".join(
        f"CAST({main.staged.header(name) or 'NULL'} AS {kind}) AS {name}" for name, kind in _LAUNCH.items()
    )
    return (
        "SELECT k.dispatch_id, k.kernel, k.kernel_raw, k.device_id, "
        f"launch.* EXCLUDE (row), k.ordinal, k.start_ns, k.end_ns, k.duration_ns "
        f"FROM (SELECT row, {launch} FROM {main.staged.relation}) launch JOIN keys_0 k USING (row) ORDER BY row"
    )


def _wide(passes: list[Pass]) -> tuple[list[str], str]:
    """The columns and the SELECT of the table counters."""
    columns, picks, joins = [], [], []
    for index, item in enumerate(passes):
        picks += [f"p{index}.{sql_name(read)} AS {sql_name(name)}" for read, name in item.counters.items()]
        columns += list(item.counters.values())
        wanted = "".join(f", {sql_name(read)}" for read in item.counters)
        if index == 0:
            joins.append(f"(SELECT row{wanted} FROM {item.staged.relation}) p0 JOIN keys_0 k0 USING (row)")
            continue
        duration = f"duration_ns@{item.staged.name}"
        picks.append(f"p{index}.duration_ns AS {sql_name(duration)}")
        joins.append(
            f"LEFT JOIN (SELECT device_id, kernel, ordinal, duration_ns{wanted} FROM "
            f"(SELECT row{wanted} FROM {item.staged.relation}) JOIN keys_{index} USING (row)) p{index} "
            f"ON p{index}.device_id = k0.device_id AND p{index}.kernel = k0.kernel AND p{index}.ordinal = k0.ordinal"
        )
    select = ", ".join(["k0.dispatch_id", "k0.kernel", "k0.duration_ns", *picks])
    return columns, f"SELECT {select} FROM {' '.join(joins)} ORDER BY k0.row"


def _write_instances(con: duckdb.DuckDBPyConnection, passes: list[Pass], folder: Path, per_xcd: int) -> None:
    """Per-instance values as rows; ``instance`` counts within its XCD."""
    main = passes[0]
    if not main.instances:
        return
    names = ", ".join(f"({sql_literal(h)}, {sql_literal(c)}, {n})" for h, (c, n) in main.instances.items())
    wanted = ", ".join(sql_name(h) for h in main.instances)
    write_table(
        con,
        f"SELECT dispatch_id, n.counter, CAST(n.n // {per_xcd} AS SMALLINT) AS xcd, "
        f"CAST(n.n % {per_xcd} AS SMALLINT) AS instance, value FROM "
        f"(UNPIVOT (SELECT row, {wanted} FROM {main.staged.relation}) ON {wanted} INTO NAME header VALUE value) "
        f"JOIN (VALUES {names}) n(header, counter, n) USING (header) JOIN keys_0 USING (row) "
        "ORDER BY counter, dispatch_id, n.n",
        folder / "counter_instances.parquet",
    )


def _write_passes(con: duckdb.DuckDBPyConnection, passes: list[Pass], folder: Path) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE pass_rows (pass_id INT, name VARCHAR, tool VARCHAR, source VARCHAR, dispatches INT, "
        "matched INT, unmatched INT, counters VARCHAR)"
    )
    con.executemany(
        "INSERT INTO pass_rows VALUES (?, ?, NULL, ?, ?, ?, ?, ?)",
        [
            [i, p.staged.name, p.staged.source.name, p.staged.rows, p.matched, p.unmatched, ",".join(p.counters.values())]
            for i, p in enumerate(passes)
        ],
    )
    write_table(con, "FROM pass_rows", folder / "passes.parquet")
