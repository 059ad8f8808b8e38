"""Profiler CSV files into staged Parquet: typed by their header, streamed, with every doubt named."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.problems import BadInput
from ...analysis.store import sql_name, sql_path, write_table
from .columns import UNUSED, Column, check_unique, classify
from .files import check_text, head, is_gzip
from .names import bounded_name, plain_text
from .staged import TEXT_ROLES, Staged, measure, not_a_number

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
