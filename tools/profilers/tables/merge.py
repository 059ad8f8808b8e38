"""The merge of passes: launches matched by process, device, kernel, grid and ordinal, one wide row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.database import sql_literal, sql_name, sql_path
from ....analysis.store import write_table
from .names import plain_kernel_name, plain_text, visible_name
from .staged import Staged

if TYPE_CHECKING:
    import duckdb


_LISTED = 4


def pair(
    con: duckdb.DuckDBPyConnection,
    main: Pass,
    item: Pass,
    index: int,
    warnings: list[str],
    filtered: dict[tuple[str, int], list[str]],
) -> None:
    """Table ``pairs_<index>`` (row of the main pass, row of this one, its duration) from the tables of keys.

    What has no partner is counted in the pass and told in ``warnings``; a pass that holds all launches of some kernels
    and none of others was filtered, and is noted in ``filtered``: (its kernels, launches without) -> passes.
    """
    both_grids = main.staged.header("grid") and item.staged.header("grid")
    kernel = "process, device_id, kernel_id, grid" if both_grids else "process, device_id, kernel_id"
    turn = f"{kernel}, {'nth' if both_grids else 'ordinal'}"
    item.matched = _match(con, index, turn)
    if item.matched < main.staged.rows and _is_partial(con, index, kernel):
        by_id = _match(con, index, f"{kernel}, given_id")
        item.matched = by_id if by_id == item.staged.rows else _match(con, index, turn)
    item.unmatched = item.staged.rows - item.matched
    missing = main.staged.rows - item.matched
    if not item.unmatched and missing and (kernels := _only_kernels(con, index, missing)):
        filtered.setdefault((kernels, missing), []).append(item.staged.name)
    elif item.unmatched or missing:
        warnings.append(
            f"Pass {item.staged.name}: {item.matched} dispatches matched by device, kernel, grid and ordinal, "
            f"{item.unmatched} only in this pass (left out), {missing} of the main pass without it (NULL)."
        )


def _match(con: duckdb.DuckDBPyConnection, index: int, key: str) -> int:
    con.execute(
        f"CREATE OR REPLACE TABLE pairs_{index} AS SELECT k.row AS main_row, o.row, o.duration_ns "
        f"FROM keys_0 k JOIN keys_{index} o USING ({key})"
    )
    (found,) = con.execute(f"SELECT count(*) FROM pairs_{index}").fetchone() or (0,)
    return int(found)


def _is_partial(con: duckdb.DuckDBPyConnection, index: int, kernel: str) -> bool:
    """Whether a pass has some launches of a kernel and size, but fewer than the main pass: ordinals then mislead."""
    (fewer,) = con.execute(
        f"SELECT count(*) FROM (SELECT {kernel}, count(*) AS n FROM keys_0 GROUP BY ALL) m "
        f"JOIN (SELECT {kernel}, count(*) AS n FROM keys_{index} GROUP BY ALL) o USING ({kernel}) WHERE o.n < m.n"
    ).fetchone() or (0,)
    return bool(fewer)


def _only_kernels(con: duckdb.DuckDBPyConnection, index: int, missing: int) -> str:
    """The kernels of a pass, where all it lacks are launches of other kernels; an empty text otherwise."""
    (others,) = con.execute(
        f"SELECT count(*) FROM keys_0 WHERE kernel_id NOT IN (SELECT kernel_id FROM keys_{index})"
    ).fetchone() or (0,)
    if others != missing:
        return ""
    found = con.execute(
        f"SELECT DISTINCT kernel FROM names WHERE kernel_id IN (SELECT kernel_id FROM keys_{index}) ORDER BY kernel"
    ).fetchall()
    shown = [plain_text(kernel, 60) for (kernel,) in found[:_LISTED]]
    return ", ".join(shown) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")


def told_filter(passes: list[str], kernels: str, missing: int) -> str:
    """The note on passes that hold launches of some kernels only."""
    return (
        f"Only launches of {kernels} were counted in {', '.join(passes[:_LISTED])}"
        f"{' ...' if len(passes) > _LISTED else ''}: the {missing} launches of other kernels have times, no counters."
    )


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


def write_counters(con: duckdb.DuckDBPyConnection, passes: list[Pass], folder: Path) -> list[str]:
    """Write counters.parquet, in the order of the main pass, and return its counter columns.

    A hash join would hold or spill the columns of every pass at once; files whose rows stand in the same order
    are joined by position instead, which streams. Passes in another order are sorted first, one at a time.
    """
    main = passes[0].staged.parquet
    sources = [_write_identity(con, passes, main.with_suffix(".keys")), main]
    aliases, columns, picks = ["k", "p0"], [], ["k.dispatch_id", "k.kernel", "k.duration_ns"]
    for index, item in enumerate(passes):
        for read, name in item.counters.items():
            picks.append(f"{item.staged.cell(sql_name(read), f'p{index}.')} AS {sql_name(name)}")
        columns += list(item.counters.values())
        if index:
            picks.append(f"k.t{index} AS {sql_name(f'duration_ns@{item.staged.name}')}")
        if index and item.counters:
            sources.append(_aligned(con, passes, index))
            aliases.append(f"p{index}")
    reads = [f"read_parquet({sql_path(f)}, hive_partitioning = false)" for f in sources]
    side_by_side = " POSITIONAL JOIN ".join(f"{read} {alias}" for read, alias in zip(reads, aliases, strict=True))
    write_table(con, f"SELECT {', '.join(picks)} FROM {side_by_side}", folder / "counters.parquet")
    for file in set(sources) - {p.staged.parquet for p in passes}:
        file.unlink()
    return columns


def _write_identity(con: duckdb.DuckDBPyConnection, passes: list[Pass], path: Path) -> Path:
    """What every row is called, and how long it took in each pass."""
    others = range(1, len(passes))
    times = "".join(f", p{i}.duration_ns AS t{i}" for i in others)
    joins = "".join(f" LEFT JOIN pairs_{i} p{i} ON p{i}.main_row = k.row" for i in others)
    write_table(
        con,
        f"SELECT k.dispatch_id, n.kernel, k.duration_ns{times} FROM keys_0 k JOIN names n USING (name_id){joins} "
        "ORDER BY k.row",
        path,
    )
    return path


def _aligned(con: duckdb.DuckDBPyConnection, passes: list[Pass], index: int) -> Path:
    """The counters of a pass with one row per dispatch of the main pass, in its order."""
    item, rows = passes[index], passes[0].staged.rows
    (moved,) = con.execute(f"SELECT count(*) FILTER (main_row != row) FROM pairs_{index}").fetchone() or (0,)
    if not moved and item.matched == item.staged.rows == rows:
        return item.staged.parquet
    path = item.staged.parquet.with_suffix(".aligned")
    names = [sql_name(c) for c in item.counters]
    write_table(
        con,
        f"SELECT {', '.join(names)} FROM keys_0 k LEFT JOIN pairs_{index} p ON p.main_row = k.row "
        f"LEFT JOIN {item.staged.relation(names)} s ON s.row = p.row ORDER BY k.row",
        path,
    )
    return path


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


ACCUMULATE = "SQ_ACCUM_PREV_HIRES"


def as_replays(replays: Sequence[Staged]) -> list[Pass]:
    """Passes in which every counter has its plain name once; measured again, it is called ``NAME@PASS``."""
    taken: set[str] = set()
    passes = []
    for staged in replays:
        counters = {}
        for header in staged.counters():
            name = accumulated(staged, header) or header
            counters[header] = f"{name}@{staged.name}" if name.casefold() in taken else name
            taken.add(name.casefold())
        passes.append(Pass(staged, counters, instances_of(staged)))
    return passes


def instances_of(staged: Staged) -> dict[str, tuple[str, int]]:
    """The per-instance columns of a file with their counter and number."""
    return {c.header: c.instance for c in staged.columns if c.role == "instance"}


def accumulated(staged: Staged, header: str) -> str | None:
    """The store's name of SQ_ACCUM_PREV_HIRES, the time integral of a level counter: ``<LEVEL>_ACCUM``, as in rocpd.

    The level is what the file is named after, else the counter in the column before, which is how the hardware pairs
    them. None where neither is a level, or ``header`` another counter.
    """
    if header != ACCUMULATE:
        return None
    counters = staged.counters()
    position = counters.index(header)
    before = staged.name if "LEVEL" in staged.name else counters[position - 1] if position else ""
    return f"{before}_ACCUM" if "LEVEL" in before else None
