"""Read CSV files, strictly first and leniently if that fails: wide tables, and one row per launch and counter."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal, sql_name, sql_path
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base import progress, size_limits
from ...base.profile_files import check_text, head, is_gzip
from ...base.untrusted_text import bounded_name, plain_text
from ..merging.contract import CounterRows, PassTable, not_a_number
from ..merging.wording import note, refusal
from .sheet import TEXT_ROLES, UNUSED, LaunchSheet, SheetColumn, check_unique, classify, role_of

if TYPE_CHECKING:
    import duckdb


_HEADER_LIMIT = 4 << 20
_NULLS = ("", "nan", "NaN", "N/A", "NA", "None", "null")


def stage(
    con: duckdb.DuckDBPyConnection,
    source: Path,
    folder: Path,
    name: str,
    classify: Callable[[list[str]], list[SheetColumn]] = classify,
) -> LaunchSheet:
    """Read ``source`` into ``folder``, the draft's work folder; numbers become DOUBLE, names and times stay text.

    Cells that are not finite numbers become NULL, with a warning that states column, count and an example. Raises
    BadInput for an empty or binary file, a wrong encoding, duplicate headers, or rows of different lengths.
    """
    headers = read_headers(source)
    columns = classify(headers)
    check_unique(source.name, columns)
    if not any(c.role == "kernel" for c in columns):
        raise refusal("no_kernel_column", file=source)
    strange = check_text(source)
    sheet = LaunchSheet(name, source, folder / f"stage_{name}.parquet", columns)
    if unknown := [plain_text(c.header, 40) for c in columns if c.role == "unknown"]:
        sheet.warnings.append(note("unknown_columns", file=source, columns=unknown))
    if strange:
        sheet.nulls = sorted({cell.decode() for cell in strange})
        sheet.warnings.append(note("not_a_number.strange", file=source, cells=strange, cell=sheet.nulls[0]))
    sheet.rows, lenient = write_text(con, sheet.parquet, partial(_select, sheet), partial(_bad_csv, source))
    if lenient:
        sheet.warnings += _bad_cells(con, sheet)
    progress.report(f"read {count_text(sheet.rows, 'row')} of {source.name}")
    if sheet.rows == 0:
        raise refusal("no_rows", file=source)
    sheet.measure(con)
    return sheet


def write_text(
    con: duckdb.DuckDBPyConnection, path: Path, select: Callable[[bool], str], refuse: Callable[[Exception], BadInput]
) -> tuple[int, bool]:
    """Write the rows of a text table; return their number, and whether they were read leniently.

    ``select(lenient)`` returns the SQL. If even the lenient reading fails, raises what ``refuse`` makes of the error.
    """
    import duckdb

    try:
        return write_table(con, select(False), path), False
    except (duckdb.ConversionException, duckdb.InvalidInputException):
        try:
            return write_table(con, select(True), path), True
        except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.IOException) as error:
            raise refuse(error) from error
    except duckdb.IOException as error:
        raise refuse(error) from error


def stage_columns(
    con: duckdb.DuckDBPyConnection, source: Path, names: Sequence[str], target: Path, optional: Sequence[str] = ()
) -> None:
    """Write the columns ``names`` of a CSV file as text; BadInput if one is missing or the file is damaged.

    Missing columns of ``optional`` become NULL.
    """
    headers = read_headers(source)
    if lacking := [name for name in names if name not in headers]:
        raise refusal("lacks_column", file=source, column=lacking[0])
    known = {name: f"c{headers.index(name)}" for name in (*names, *optional) if name in headers}
    picks = ", ".join(f"{known.get(name, 'NULL::VARCHAR')} AS {name}" for name in (*names, *optional))
    select = f"SELECT {picks} FROM {text_table(source, dict.fromkeys(range(len(headers)), 'VARCHAR'), 'header = true')}"
    write_text(
        con,
        target,
        lambda _: select,
        lambda error: refusal("damaged_columns", file=source, why=str(error).splitlines()[0][:160]),
    )


def _bad_cells(con: duckdb.DuckDBPyConnection, sheet: LaunchSheet) -> list[Note]:
    """Return warnings about cells that contain text in numeric columns.

    UNPIVOT omits empty cells, and the others become rows.
    """
    headers = {f"c{i}": c.header for i, c in enumerate(sheet.columns) if c.role not in TEXT_ROLES}
    rows = _csv(sheet, dict.fromkeys(range(len(sheet.columns)), "VARCHAR"))
    bad = con.execute(
        f"SELECT name, count(*), any_value(cell) FROM (UNPIVOT {rows} ON {', '.join(headers)} "
        "INTO NAME name VALUE cell) WHERE TRY_CAST(cell AS DOUBLE) IS NULL GROUP BY name ORDER BY name[2:]::INT"
    ).fetchall()
    notes = [
        not_a_number(sheet.source, headers[name], (count, sheet.rows), repr(plain_text(example, 40)))
        for name, count, example in bad[: size_limits.NAMED_COLUMNS]
    ]
    if more := bad[size_limits.NAMED_COLUMNS :]:
        column = plain_text(headers[more[0][0]], 60)
        notes.append(note("not_a_number.texts", file=sheet.source, count=len(more), column=column))
    return notes


def read_headers(source: Path) -> list[str]:
    """Return the column names of a CSV file (plain or gzip); BadInput if it has no readable header."""
    start = head(source, _HEADER_LIMIT)
    if not start.strip():
        raise refusal("empty_file", file=source)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise refusal("not_utf8", file=source, why="it starts with a UTF-16 mark")
    line, newline, _ = start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").partition(b"\n")
    if b"\x00" in line:
        raise refusal("binary", file=source)
    if not newline and len(start) >= _HEADER_LIMIT:
        raise refusal("not_csv", file=source, why=f"its first line is longer than {_HEADER_LIMIT >> 20} MiB")
    try:
        text = line.decode("utf-8")
        headers = [h.strip() for h in next(csv.reader(io.StringIO(text)), [])]
    except UnicodeDecodeError as error:
        raise refusal("not_utf8", file=source, why=f"byte {error.start} of its header") from error
    except csv.Error as error:
        raise refusal("not_csv", file=source, why=f"its header could not be read: {error}") from error
    if len(headers) > size_limits.MOST_COLUMNS:
        raise refusal("too_many_columns", name=source, count=headers, most=size_limits.MOST_COLUMNS)
    return headers


def _select(sheet: LaunchSheet, lenient: bool) -> str:
    """Return SQL for the useful columns; DuckDB gets columns by position, so headers cannot cause errors."""
    typed = {i: "VARCHAR" if lenient or c.role in TEXT_ROLES else "DOUBLE" for i, c in enumerate(sheet.columns)}
    picks = []
    for i, column in enumerate(sheet.columns):
        if column.role in UNUSED:
            continue
        cell = f"TRY_CAST(c{i} AS DOUBLE)" if lenient and column.role not in TEXT_ROLES else f"c{i}"
        picks.append(f"{bounded_name(cell) if column.role == 'kernel' else cell} AS {sql_name(column.header)}")
    return f"SELECT {', '.join(picks) or 'c0'} FROM {_csv(sheet, typed)}"


def _csv(sheet: LaunchSheet, types: dict[int, str]) -> str:
    nulls = ", ".join(map(sql_literal, (*_NULLS, *sheet.nulls)))
    return text_table(sheet.source, types, f"header = true, nullstr = [{nulls}]")


def text_table(source: Path, types: Mapping[int, str], options: str) -> str:
    """Return a FROM item with the columns c0, c1 and so on of a CSV file, read with further ``options`` of DuckDB."""
    columns = ", ".join(f"c{i}: '{kind}'" for i, kind in types.items())
    return (
        f"read_csv({sql_path(source)}, auto_detect = false, delim = ',', quote = '\"', escape = '\"', "
        f"compression = '{'gzip' if is_gzip(source) else 'none'}', hive_partitioning = false, {options}, "
        f"columns = {{{columns}}})"
    )


def _bad_csv(source: Path, error: Exception) -> BadInput:
    """Rephrase a DuckDB error about a CSV file: line number and cause, without its hints for programmers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    where = next((line.partition("on ")[2] for line in lines if "Error on Line:" in line), "")
    causes = ("Expected Number", "Value with", "Maximum line", "Invalid unicode", "Unexpected end", "Input is not")
    why = next((line[line.index(c) :] for line in lines for c in causes if c in line), lines[0])
    if "state machine" in why:
        why = "its line endings are mixed, or a quote is not closed"
    if "unicode" in why:
        return refusal("row_not_utf8", file=source, where=where)
    why = plain_text(why.replace(str(source), source.name), 160)
    return refusal("damaged_row", file=source, why=f"{where}: {why}" if where else why)


_IDENTITY = ("pid", "run", "device_id", "dispatch_id", "kernel", "grid", "workgroup_size", "lds_bytes")
_LAUNCH = ("queue_id", "scratch_bytes", "vgpr", "agpr", "sgpr")
_DURATION = SheetColumn("DurationNs", "duration")


def long_pass(con: duckdb.DuckDBPyConnection, sheet: LaunchSheet) -> PassTable:
    """Return the launches and values of a file with one row per launch and counter.

    Rows belong to one launch if they agree in process, device, dispatch, kernel and launch geometry; the last of
    several values of one counter counts. Replays give a dispatch several pairs of timestamps: its start is the
    earliest one, and its duration is the median.
    """
    name, value = sheet.header("counter_name"), sheet.header("counter_value")
    if name is None or value is None:
        raise refusal("lacks_column", file=sheet.source, column="Counter_Value or Counter_Name")
    counters = _counter_names(con, sheet, name)
    identity, launch = sheet.headers_of(*_IDENTITY), sheet.headers_of(*_LAUNCH)
    columns = [c for c in sheet.columns if c.role in (*_IDENTITY, *_LAUNCH)]
    picks = [*identity, *(f"first({h} ORDER BY row) AS {h}" for h in launch)]
    start, end = sheet.header("start"), sheet.header("end")
    if start and end:
        first = f"min(TRY_CAST({start} AS BIGINT))"
        span = f"median(TRY_CAST({end} AS BIGINT) - TRY_CAST({start} AS BIGINT))"
        picks += [
            f"CAST({first} AS VARCHAR) AS {start}",
            f"CAST({first} + CAST({span} AS BIGINT) AS VARCHAR) AS {end}",
            f"CAST({span} AS VARCHAR) AS {_DURATION.header}",
        ]
        columns += [*(c for c in sheet.columns if c.role in ("start", "end")), _DURATION]
    keys = ", ".join(identity)
    launches = LaunchSheet(sheet.name, sheet.source, sheet.parquet.with_suffix(".launches"), columns)
    launches.rows = write_table(
        con, f"SELECT {', '.join(picks)} FROM {sheet.all} GROUP BY {keys} ORDER BY min(row)", launches.parquet
    )
    launches.measure(con)
    same = " AND ".join(f"l.{h} IS NOT DISTINCT FROM s.{h}" for h in identity)
    values = sheet.parquet.with_suffix(".values")
    write_table(
        con,
        f"SELECT l.row AS key, s.{name} AS counter, last(s.{value} ORDER BY s.row) AS value "
        f"FROM {sheet.relation([*identity, name, value])} s JOIN {launches.relation(identity)} l ON {same} "
        "GROUP BY ALL HAVING value IS NOT NULL ORDER BY key",
        values,
    )
    sheet.parquet.unlink()
    kinds = [SheetColumn(c, role_of(c)) for c in counters]
    return replace(
        launches.as_pass(),
        warnings=sheet.warnings,
        counters=[c.header for c in kinds if c.role == "counter"],
        instances={c.header: c.instance for c in kinds if c.role == "instance"},
        values=[CounterRows((values,), (0, launches.rows - 1), 0, frozenset(counters))],
    )


def _counter_names(con: duckdb.DuckDBPyConnection, sheet: LaunchSheet, column: str) -> list[str]:
    """Return the counters named in the file, sorted; names that cannot be counters are skipped with a warning."""
    rows = con.execute(
        f"SELECT DISTINCT {column} FROM {sheet.all} WHERE {column} IS NOT NULL LIMIT {size_limits.MOST_COLUMNS + 1}"
    ).fetchall()
    if len(rows) > size_limits.MOST_COLUMNS:
        raise refusal("too_many_counters", file=sheet.source, most=size_limits.MOST_COLUMNS)
    names, warnings = usable_names(
        sheet.source, sorted(name for (name,) in rows), lambda name: role_of(name) in ("counter", "instance")
    )
    sheet.warnings += warnings
    if not names:
        raise refusal("no_counter_names", file=sheet.source)
    return names


def usable_names(source: Path, names: list[str], usable: Callable[[str], bool]) -> tuple[list[str], list[Note]]:
    """Return usable names, the first of names that differ only in case, and a warning about the skipped ones."""
    first: dict[str, str] = {}
    for name in names:
        if usable(name):
            first.setdefault(name.casefold(), name)
    counters = list(first.values())
    strange = [plain_text(name, 40) for name in names if name not in counters]
    return counters, [note("no_counters.names", file=source, count=len(strange), names=strange)] if strange else []
