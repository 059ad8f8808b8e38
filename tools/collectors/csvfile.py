"""Profiler CSV files into staged Parquet: typed by their header, streamed, with every doubt named."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.problems import BadInput
from ...analysis.store import sql_literal, sql_name, sql_path, write_table
from .columns import UNUSED, Column, check_unique, classify
from .files import check_expansion, head, is_gzip
from .names import bounded_name, plain_text

if TYPE_CHECKING:
    import duckdb

_HEADER_LIMIT = 4 << 20
_COLUMN_LIMIT = 20_000
_NULLS = "['', 'nan', 'NaN', 'N/A', 'NA', 'None', 'null']"
_TEXT_ROLES = {"kernel", "start", "end", "duration", "counter_name", "device_id", *UNUSED}
_CHUNK = 500


@dataclass
class Staged:
    """One CSV file as Parquet: the columns of use under their original headers, in file order."""

    name: str
    source: Path
    parquet: Path
    columns: list[Column]
    rows: int
    warnings: list[str] = field(default_factory=list)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Least and greatest value of every numeric column that holds any."""
    infinite: set[str] = field(default_factory=set)
    """Quoted names of columns that hold infinities, which are read as NULL."""
    xcds: int = 1
    """Chiplets seen, where the file has rows per chiplet."""

    def header(self, role: str) -> str | None:
        """The header that plays ``role``, quoted for SQL, or None."""
        return next((sql_name(c.header) for c in self.columns if c.role == role), None)

    def relation(self, names: Iterable[str]) -> str:
        """The staged rows as a FROM clause: ``row``, counted from 0 in file order, and the columns quoted in ``names``."""
        picks = [f"{self.cell(n)} AS {n}" if n in self.infinite else n for n in dict.fromkeys(names)]
        return (
            f"(SELECT {', '.join(['file_row_number AS row', *picks])} FROM read_parquet("
            f"{sql_path(self.parquet)}, file_row_number = true, hive_partitioning = false))"
        )

    def cell(self, name: str, prefix: str = "") -> str:
        """The value of the column quoted in ``name``; infinities are NULL."""
        value = prefix + name
        return f"CASE WHEN isfinite({value}) THEN {value} END" if name in self.infinite else value

    def named(self, *roles: str) -> list[str]:
        """The quoted headers of those of ``roles`` that the file has."""
        return [header for role in roles if (header := self.header(role))]

    @property
    def all(self) -> str:
        """The staged rows with every column."""
        return self.relation(sql_name(c.header) for c in self.columns if c.role not in UNUSED)

    def counters(self) -> list[str]:
        """The plain counter columns, in file order."""
        return [c.header for c in self.columns if c.role == "counter"]


def stage(
    con: duckdb.DuckDBPyConnection,
    source: Path,
    folder: Path,
    name: str,
    classify: Callable[[list[str]], list[Column]] = classify,
) -> Staged:
    """Read ``source`` into ``folder``; numbers become DOUBLE, names and times stay text.

    Cells that are no finite numbers become NULL with a warning that names column, count and an example.
    Raises BadInput for an empty or binary file, a wrong encoding, duplicate headers, ragged rows.
    """
    import duckdb

    headers = read_headers(source)
    columns = classify(headers)
    check_unique(source.name, columns)
    if not any(c.role == "kernel" for c in columns):
        raise BadInput(f"{source.name} has no column of kernel names", "neither Kernel_Name nor KernelName",
                       "Is this the profiler's own file?")  # fmt: skip
    check_expansion(source)
    staged = Staged(name, source, folder / f"stage_{name}.parquet", columns, 0)
    if unknown := [plain_text(c.header, 40) for c in columns if c.role == "unknown"]:
        staged.warnings.append(f"{source.name}: columns that are neither counters nor launch data were left out: "
                               f"{', '.join(unknown[:8])}{' ...' if len(unknown) > 8 else ''}.")  # fmt: skip
    try:
        staged.rows = write_table(con, _select(staged, lenient=False), staged.parquet)
    except (duckdb.ConversionException, duckdb.InvalidInputException):
        staged.rows = _stage_leniently(con, staged)
    except duckdb.IOException as error:
        raise _bad_csv(source, error) from error
    if staged.rows == 0:
        raise BadInput(f"{source.name} holds no rows", "it has a header only", "Was the profiled program's run complete?")
    measure(con, staged)
    return staged


def read_headers(source: Path) -> list[str]:
    """The header line of a CSV file (plain or gzip), as text; BadInput where it is none."""
    start = head(source, _HEADER_LIMIT)
    if not start.strip():
        raise BadInput(f"{source.name} is empty", fix="Was the profiled program's run complete?")
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
        raise BadInput(f"{source.name} is not UTF-8 text", f"byte {error.start} of its header", "Save it as UTF-8") from error
    except csv.Error as error:
        raise BadInput(f"{source.name} is no CSV file", f"its header cannot be read: {error}") from error
    if len(headers) > _COLUMN_LIMIT:
        raise BadInput(f"{source.name} has {len(headers)} columns", f"more than the {_COLUMN_LIMIT} a profile may have")
    return headers


def _select(staged: Staged, *, lenient: bool) -> str:
    """The columns of use; DuckDB knows columns by position, so that no header can confuse it."""
    typed = {i: "VARCHAR" if lenient or c.role in _TEXT_ROLES else "DOUBLE" for i, c in enumerate(staged.columns)}
    picks = []
    for i, column in enumerate(staged.columns):
        if column.role in UNUSED:
            continue
        cell = f"TRY_CAST(c{i} AS DOUBLE)" if lenient and column.role not in _TEXT_ROLES else f"c{i}"
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

    numeric = [i for i, c in enumerate(staged.columns) if c.role not in _TEXT_ROLES]
    everything = _csv(staged.source, {i: "VARCHAR" for i in range(len(staged.columns))})
    try:
        rows = write_table(con, _select(staged, lenient=True), staged.parquet)
        for start in range(0, len(numeric), _CHUNK):
            chunk = numeric[start : start + _CHUNK]
            bad = [f"c{i} IS NOT NULL AND TRY_CAST(c{i} AS DOUBLE) IS NULL" for i in chunk]
            picks = ", ".join(f"count(*) FILTER ({b}), any_value(c{i}) FILTER ({b})" for i, b in zip(chunk, bad, strict=True))
            found = con.execute(f"SELECT {picks} FROM {everything}").fetchone() or ()
            for i, count, example in zip(chunk, found[::2], found[1::2], strict=True):
                if count:
                    staged.warnings.append(_not_a_number(staged, staged.columns[i].header, count, rows, example))
    except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.IOException) as error:
        raise _bad_csv(staged.source, error) from error
    return rows


def measure(con: duckdb.DuckDBPyConnection, staged: Staged) -> None:
    """Note the bounds of every numeric column; infinities and NaN become NULL, with a warning.

    Parquet states the bounds of a column unless it holds such values, so only those columns are read.
    """
    numeric = {c.header for c in staged.columns if c.role not in _TEXT_ROLES}
    found = con.execute(
        "SELECT path_in_schema, min(TRY_CAST(stats_min_value AS DOUBLE)), max(TRY_CAST(stats_max_value AS DOUBLE)), "
        "bool_or((stats_min_value IS NULL OR stats_max_value IS NULL) AND coalesce(stats_null_count, 0) < num_values) "
        f"FROM parquet_metadata({sql_path(staged.parquet)}) GROUP BY path_in_schema"
    ).fetchall()
    for header, low, high, doubtful in found:
        if header not in numeric:
            continue
        if doubtful:
            low, high = _finite_bounds(con, staged, header)
        if low is not None:
            staged.bounds[header] = (low, high)


def _finite_bounds(con: duckdb.DuckDBPyConnection, staged: Staged, header: str) -> tuple[float | None, float | None]:
    name = sql_name(header)
    count, low, high = con.execute(
        f"SELECT count(*) FILTER (NOT isfinite({name})), min({name}) FILTER (isfinite({name})), "
        f"max({name}) FILTER (isfinite({name})) FROM {staged.relation([name])}"
    ).fetchone() or (0, None, None)
    if count:
        staged.infinite.add(name)
        staged.warnings.append(_not_a_number(staged, header, count, staged.rows, "infinity"))
    return low, high


def _not_a_number(staged: Staged, header: str, count: int, rows: int, example: str) -> str:
    return (
        f"{staged.source.name}: column {header} holds text in {count} of {rows} rows "
        f"(for instance {plain_text(str(example), 40)!r}); those cells are taken as not collected."
    )


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
    return BadInput(f"{source.name} is damaged", f"{where}: {why}" if where else why,
                    "Repair or remove the row, or profile again; nothing was imported")  # fmt: skip
