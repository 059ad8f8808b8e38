"""Tables of text read strictly first, then leniently: wide CSV and the long form."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.database import sql_literal, sql_name, sql_path
from ....analysis.problems import BadInput
from ....analysis.store import write_table
from .files import check_text, head, is_gzip
from .names import bounded_name, plain_text
from .staged import TEXT_ROLES, UNUSED, Column, Staged, check_unique, classify, measure, not_a_number, role_of

if TYPE_CHECKING:
    import duckdb


_HEADER_LIMIT = 4 << 20
_COLUMN_LIMIT = 20_000
_NULLS = "['', 'nan', 'NaN', 'N/A', 'NA', 'None', 'null']"
_CHUNK = 500
_COMPLETE = "Was the run of the profiled program complete?"


def stage(
    con: duckdb.DuckDBPyConnection,
    source: Path,
    folder: Path,
    name: str,
    classify: Callable[[list[str]], list[Column]] = classify,
) -> Staged:
    """Read ``source`` into ``folder``, the draft's work folder; numbers become DOUBLE, names and times stay text.

    Cells that are no finite numbers become NULL with a warning that names column, count and an example.
    Raises BadInput for an empty or binary file, a wrong encoding, duplicate headers, ragged rows.
    """
    import duckdb

    headers = read_headers(source)
    columns = classify(headers)
    check_unique(source.name, columns)
    if not any(c.role == "kernel" for c in columns):
        raise BadInput(
            f"{source.name} has no column of kernel names",
            "neither Kernel_Name nor KernelName",
            "Is this the profiler's own file?",
        )
    check_text(source)
    staged = Staged(name, source, folder / f"stage_{name}.parquet", columns, 0)
    if unknown := [plain_text(c.header, 40) for c in columns if c.role == "unknown"]:
        staged.warnings.append(
            f"{source.name}: columns that are neither counters nor launch data were left out: "
            f"{', '.join(unknown[:8])}{' ...' if len(unknown) > 8 else ''}."
        )
    try:
        staged.rows = write_table(con, _select(staged, lenient=False), staged.parquet)
    except (duckdb.ConversionException, duckdb.InvalidInputException):
        staged.rows = _stage_leniently(con, staged)
    except duckdb.IOException as error:
        raise _bad_csv(source, error) from error
    if staged.rows == 0:
        raise BadInput(f"{source.name} holds no rows", "it has a header only", _COMPLETE)
    measure(con, staged)
    return staged


def read_headers(source: Path) -> list[str]:
    """The header line of a CSV file (plain or gzip), as text; BadInput where it is none."""
    start = head(source, _HEADER_LIMIT)
    if not start.strip():
        raise BadInput(f"{source.name} is empty", fix=_COMPLETE)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadInput(f"{source.name} is not UTF-8 text", "it starts with a UTF-16 mark", "Save it as UTF-8")
    line, newline, _ = start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").partition(b"\n")
    if b"\x00" in line:
        raise BadInput(f"{source.name} is a binary file, no CSV", fix="Name the file or folder that the profiler wrote")
    if not newline and len(start) >= _HEADER_LIMIT:
        raise BadInput(f"{source.name} is no CSV file", f"its first line is longer than {_HEADER_LIMIT >> 20} MiB")
    try:
        text = line.decode("utf-8")
        headers = [h.strip() for h in next(csv.reader(io.StringIO(text)), [])]
    except UnicodeDecodeError as error:
        where = f"byte {error.start} of its header"
        raise BadInput(f"{source.name} is not UTF-8 text", where, "Save it as UTF-8") from error
    except csv.Error as error:
        raise BadInput(f"{source.name} is no CSV file", f"its header cannot be read: {error}") from error
    if len(headers) > _COLUMN_LIMIT:
        raise BadInput(f"{source.name} has {len(headers)} columns", f"more than the {_COLUMN_LIMIT} a profile may have")
    return headers


def _select(staged: Staged, *, lenient: bool) -> str:
    """The columns of use; DuckDB knows columns by position, so that no header can confuse it."""
    typed = {i: "VARCHAR" if lenient or c.role in TEXT_ROLES else "DOUBLE" for i, c in enumerate(staged.columns)}
    picks = []
    for i, column in enumerate(staged.columns):
        if column.role in UNUSED:
            continue
        cell = f"TRY_CAST(c{i} AS DOUBLE)" if lenient and column.role not in TEXT_ROLES else f"c{i}"
        picks.append(f"{bounded_name(cell) if column.role == 'kernel' else cell} AS {sql_name(column.header)}")
    return f"SELECT {', '.join(picks) or 'c0'} FROM {_csv(staged.source, typed)}"


def _csv(source: Path, types: dict[int, str]) -> str:
    columns = ", ".join(f"c{i}: '{kind}'" for i, kind in types.items())
    compression = "gzip" if is_gzip(source) else "none"
    return (
        f"read_csv({sql_path(source)}, auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', "
        f"compression = '{compression}', hive_partitioning = false, nullstr = {_NULLS}, columns = {{{columns}}})"
    )


def _stage_leniently(con: duckdb.DuckDBPyConnection, staged: Staged) -> int:
    """Second attempt, all text first: cells that are no numbers become NULL and are counted."""
    import duckdb

    numeric = [i for i, c in enumerate(staged.columns) if c.role not in TEXT_ROLES]
    everything = _csv(staged.source, dict.fromkeys(range(len(staged.columns)), "VARCHAR"))
    try:
        rows = write_table(con, _select(staged, lenient=True), staged.parquet)
        for start in range(0, len(numeric), _CHUNK):
            chunk = numeric[start : start + _CHUNK]
            bad = [f"c{i} IS NOT NULL AND TRY_CAST(c{i} AS DOUBLE) IS NULL" for i in chunk]
            picks = ", ".join(
                f"count(*) FILTER ({b}), any_value(c{i}) FILTER ({b})" for i, b in zip(chunk, bad, strict=True)
            )
            found = con.execute(f"SELECT {picks} FROM {everything}").fetchone() or ()
            for i, count, example in zip(chunk, found[::2], found[1::2], strict=True):
                if count:
                    staged.warnings.append(not_a_number(staged, staged.columns[i].header, count, rows, example))
    except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.IOException) as error:
        raise _bad_csv(staged.source, error) from error
    return rows


def _bad_csv(source: Path, error: Exception) -> BadInput:
    """A DuckDB error about a CSV file in our words: line number and cause, without its hints to programmers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    where = next((line.partition("on ")[2] for line in lines if "Error on Line:" in line), "")
    causes = ("Expected Number", "Value with", "Maximum line", "Invalid unicode", "Unexpected end", "Input is not")
    why = next((line[line.index(c) :] for line in lines for c in causes if c in line), lines[0])
    if "state machine" in why:
        why = "its line endings are mixed, or a quote is not closed"
    if "unicode" in why:
        return BadInput(f"{source.name} is not UTF-8 text", where, "Save it as UTF-8, or profile again")
    why = plain_text(why.replace(str(source), source.name), 160)
    return BadInput(
        f"{source.name} is damaged",
        f"{where}: {why}" if where else why,
        "Repair or remove the row, or profile again; nothing was imported",
    )


_IDENTITY = ("pid", "device_id", "dispatch_id", "kernel", "grid", "workgroup_size", "lds_bytes")
_LAUNCH = ("queue_id", "scratch_bytes", "vgpr", "agpr", "sgpr")
_COUNTER_LIMIT = 20_000


def widen(con: duckdb.DuckDBPyConnection, staged: Staged) -> Staged:
    """The same dispatches with one column per counter.

    Rows belong together by process, device, dispatch, kernel and launch geometry; of several values of one
    counter the last one counts. Replays give a dispatch several pairs of timestamps: the duration is the median.
    """
    name, value = staged.header("counter_name"), staged.header("counter_value")
    if name is None or value is None:
        raise BadInput(f"{staged.source.name} has no column Counter_Value beside Counter_Name")
    counters = _counter_names(con, staged, name)
    identity = [h for role in _IDENTITY if (h := staged.header(role))]
    launch = [h for role in _LAUNCH if (h := staged.header(role))]
    start, end = staged.header("start"), staged.header("end")
    keys = ", ".join(identity)
    firsts = "".join(f", first({h} ORDER BY row) AS {h}" for h in launch)
    if start and end:
        span = f"median(TRY_CAST({end} AS BIGINT) - TRY_CAST({start} AS BIGINT))"
        firsts += f", '0' AS Start_Timestamp, CAST({span} AS VARCHAR) AS End_Timestamp"
    wide = staged.parquet.with_suffix(".wide")
    con.execute(
        f"CREATE OR REPLACE TABLE long_launch AS SELECT min(row) AS row, {keys}{firsts} "
        f"FROM {staged.all} GROUP BY {keys}"
    )
    con.execute(
        f"CREATE OR REPLACE TABLE long_wide AS PIVOT (SELECT {keys}, {name} AS counter, {value} AS value, "
        f"row AS source_row FROM {staged.all}) ON counter IN ({', '.join(map(sql_literal, counters))}) "
        f"USING last(value ORDER BY source_row) GROUP BY {keys}"
    )
    picks = ", ".join(f"w.{sql_name(c)}" for c in counters)
    same = " AND ".join(f"l.{h} IS NOT DISTINCT FROM w.{h}" for h in identity)
    rows = write_table(
        con, f"SELECT l.* EXCLUDE (row), {picks} FROM long_launch l JOIN long_wide w ON {same} ORDER BY l.row", wide
    )
    launched = [c[0] for c in con.execute("DESCRIBE long_launch").fetchall() if c[0] != "row"]
    con.execute("DROP TABLE long_launch; DROP TABLE long_wide")
    staged.parquet.unlink()
    columns = [*classify(launched), *(Column(c, role_of(c)) for c in counters)]
    found = Staged(staged.name, staged.source, wide, columns, rows, staged.warnings)
    measure(con, found)
    return found


def _counter_names(con: duckdb.DuckDBPyConnection, staged: Staged, column: str) -> list[str]:
    """The counters named in the file, sorted; what cannot be a counter is left out with a warning."""
    found = con.execute(
        f"SELECT DISTINCT {column} FROM {staged.all} WHERE {column} IS NOT NULL LIMIT {_COUNTER_LIMIT + 1}"
    ).fetchall()
    if len(found) > _COUNTER_LIMIT:
        raise BadInput(f"{staged.source.name} names more than {_COUNTER_LIMIT} counters", "no GPU has so many")
    names: dict[str, str] = {}
    strange = []
    for (name,) in sorted(found):
        if role_of(name) in ("counter", "instance") and name.casefold() not in names:
            names[name.casefold()] = name
        else:
            strange.append(plain_text(name, 40))
    if strange:
        staged.warnings.append(
            f"{staged.source.name}: {len(strange)} names that are no counters were left out: "
            f"{', '.join(strange[:8])}{' ...' if len(strange) > 8 else ''}."
        )
    if not names:
        raise BadInput(
            f"{staged.source.name} names no counter", "its column Counter_Name holds none that rooflens knows"
        )
    return list(names.values())
