"""Which dispatch is which: identity, order and duration of every row of a pass, and how passes pair up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .names import plain_kernel_name, visible_name
from .pairs import pair, told_filter
from .staged import Staged

if TYPE_CHECKING:
    import duckdb

# A time such as 8.1097E+14 lost its digits in a spreadsheet; one with 14 digits or more lost nothing that matters.
_ROUNDED = "'\\d(\\.\\d{0,12})?[eE]\\+?\\d+'"
_WHOLE = "'\\d+'"
_KEY_ROLES = ("process", "kernel", "dispatch_id", "device_id", "pid", "grid", "start", "end", "duration")


@dataclass
class Pass:
    """One profiled replay: its staged rows, which counters it holds and what they are called in the store."""

    staged: Staged
    counters: dict[str, str]
    """Counter in the file -> column in the store (``NAME``, or ``NAME@PASS`` where another pass has it too)."""
    instances: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Per-instance column in the file -> (counter, global instance number)."""
    matched: int = 0
    unmatched: int = 0


def write_keys(con: duckdb.DuckDBPyConnection, passes: list[Pass], warnings: list[str], notes: list[str]) -> None:
    """Tables ``names`` (of kernels), ``keys_<i>`` (rows of pass i), ``pairs_<i>`` (row of the main pass, row of i).

    Dispatches pair up by device, kernel, grid and ordinal, in the order of their ids; with several processes also by
    process: as the reader numbered them, else in the order of the process ids, since every process counts its
    dispatches from the start. A pass that lacks some launches of a kernel pairs up by the dispatch ids instead, where
    all of its launches are found by them.
    """
    _write_names(con, passes, warnings)
    process = _process(passes)
    for index, item in enumerate(passes):
        con.execute(f"CREATE OR REPLACE TABLE keys_{index} AS {_keys(item.staged, process)}")
    _number_dispatches(con, passes[0], warnings, notes)
    passes[0].matched = passes[0].staged.rows
    filtered: dict[tuple[str, int], list[str]] = {}
    for index in range(1, len(passes)):
        pair(con, passes[0], passes[index], index, warnings, filtered)
    notes += [told_filter(names, kernels, missing) for (kernels, missing), names in filtered.items()]


def _write_names(con: duckdb.DuckDBPyConnection, passes: list[Pass], warnings: list[str]) -> None:
    """Every kernel name once, cleaned; rows of all passes then refer to it by number."""
    texts = " UNION ".join(
        f"SELECT DISTINCT {_kernel(p.staged)} AS text FROM {p.staged.relation([_kernel(p.staged)])}" for p in passes
    )
    visible = f"SELECT text, {visible_name('text')} AS raw FROM ({texts})"
    con.execute(
        "CREATE OR REPLACE TABLE names AS SELECT CAST(row_number() OVER () AS INT) AS name_id, "
        "CAST(dense_rank() OVER (ORDER BY kernel) AS INT) AS kernel_id, * "
        f"FROM (SELECT *, {plain_kernel_name('raw')} AS kernel FROM ({visible}))"
    )
    unclean, unnamed = con.execute(
        "SELECT count(*) FILTER (raw != trim(text) AND text != ''), count(*) FILTER (raw = '(no name)') FROM names"
    ).fetchone() or (0, 0)
    if unclean:
        warnings.append(f"{unclean} kernel names held control or invisible characters, which were removed.")
    if unnamed:
        warnings.append("Some dispatches have no kernel name; they are called '(no name)'.")


def _process(passes: list[Pass]) -> str | None:
    """The role by which the processes of all passes are told apart; None where there is but one process."""
    if all(p.staged.header("process") for p in passes):
        return "process"
    by_id = all(p.staged.header("pid") for p in passes) and any(_several(p.staged, "pid") for p in passes)
    return "pid" if by_id else None


def _keys(staged: Staged, process: str | None) -> str:
    """Row number, identity and duration of every dispatch of one pass; few columns, so it fits in memory."""
    device, given = staged.header("device_id"), staged.header("dispatch_id")
    number = f"coalesce(TRY_CAST(regexp_extract({device}, '(\\d+)', 1) AS INT), 0)" if device else "0"
    column = staged.header(process) if process else None
    pid = (column if process == "process" else f"dense_rank() OVER (ORDER BY {column})") if column else "1"
    inner = (
        f"SELECT row, CAST({pid} AS INT) AS process, {number} AS device_id, n.name_id, n.kernel_id, "
        f"coalesce(TRY_CAST({staged.header('grid') or 'NULL'} AS BIGINT), -1) AS grid, "
        f"TRY_CAST({given or 'row'} AS BIGINT) AS dispatch_id, TRY_CAST({given or 'NULL'} AS BIGINT) AS given_id, "
        f"{_times(staged)} "
        f"FROM {staged.relation(staged.named(*_KEY_ROLES))} "
        f"JOIN names n ON n.text IS NOT DISTINCT FROM {_kernel(staged)}"
    )
    same = "PARTITION BY process, device_id, kernel_id"
    order = "ORDER BY dispatch_id NULLS LAST, row"
    return (
        f"SELECT *, CAST(row_number() OVER ({same} {order}) AS INT) AS ordinal, "
        f"CAST(row_number() OVER ({same}, grid {order}) AS INT) AS nth FROM ({inner}) ORDER BY row"
    )


def _times(staged: Staged) -> str:
    """start_ns, end_ns, duration_ns: whole numbers are subtracted as integers, so that none above 2^53 is rounded.

    Timestamps with a fraction are means over replays and stay floating point. A duration that is not positive is no
    duration, nor is one of times that were rounded. Without timestamps, a duration in the file counts.
    """
    start, end, given = staged.header("start"), staged.header("end"), staged.header("duration")
    if start is None or end is None:
        known = f"TRY_CAST({given} AS DOUBLE)" if given else "NULL::DOUBLE"
        return (
            f"NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns, CASE WHEN {known} > 0 THEN {known} END AS duration_ns"
        )
    whole = f"regexp_full_match({start}, {_WHOLE}) AND regexp_full_match({end}, {_WHOLE})"
    rounded = f"regexp_full_match({start}, {_ROUNDED}) OR regexp_full_match({end}, {_ROUNDED})"
    exact = f"CAST(TRY_CAST({end} AS BIGINT) - TRY_CAST({start} AS BIGINT) AS DOUBLE)"
    rough = f"TRY_CAST({end} AS DOUBLE) - TRY_CAST({start} AS DOUBLE)"
    span = f"CASE WHEN {whole} THEN {exact} WHEN {rounded} THEN NULL ELSE {rough} END"
    return (
        f"TRY_CAST({start} AS BIGINT) AS start_ns, TRY_CAST({end} AS BIGINT) AS end_ns, "
        f"CASE WHEN {span} > 0 AND isfinite({span}) THEN {span} END AS duration_ns"
    )


def _kernel(staged: Staged) -> str:
    return staged.named("kernel")[0]


def _several(staged: Staged, role: str) -> bool:
    header = next((c.header for c in staged.columns if c.role == role), "")
    low, high = staged.bounds.get(header, (0, 0))
    return low != high


def _number_dispatches(con: duckdb.DuckDBPyConnection, main: Pass, warnings: list[str], notes: list[str]) -> None:
    total, distinct = con.execute("SELECT count(*), count(DISTINCT dispatch_id) FROM keys_0").fetchone() or (0, 0)
    if total == distinct:
        return
    con.execute("UPDATE keys_0 SET dispatch_id = row")
    if _several(main.staged, "process"):
        notes.append("Every process numbers its dispatches from the start, so they were numbered anew, from 0.")
        return
    warnings.append(
        f"{main.staged.source.name}: dispatch ids repeat or are missing (several devices, processes or ranks), "
        "so dispatches were numbered from 0 in file order."
    )
