"""Profiler CSV files into staged Parquet: typed by their header, streamed, with every doubt named."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.problems import BadInput
from ...analysis.store import sql_literal, sql_name, write_table
from .columns import Column, classify

if TYPE_CHECKING:
    import duckdb

_HEADER_LIMIT = 4 << 20
_NULLS = "['', 'nan', 'NaN', 'N/A', 'NA', 'None', 'null']"
_TEXT_ROLES = {"kernel", "start", "end", "counter_name", "ignored", "unknown", "device_id"}


@dataclass
class Staged:
    """One CSV file as Parquet with its original headers, plus ``row`` (from 0) in file order."""

    name: str
    source: Path
    parquet: Path
    columns: list[Column]
    rows: int
    warnings: list[str] = field(default_factory=list)

    def header(self, role: str) -> str | None:
        """The header that plays ``role``, quoted for SQL, or None."""
        return next((sql_name(c.header) for c in self.columns if c.role == role), None)

    @property
    def relation(self) -> str:
        """The staged rows as a FROM clause."""
        return f"read_parquet({sql_literal(str(self.parquet))})"

    def counters(self) -> list[str]:
        """The plain counter columns, in file order."""
        return [c.header for c in self.columns if c.role == "counter"]


def stage(con: duckdb.DuckDBPyConnection, source: Path, folder: Path, name: str) -> Staged:
    """Read ``source`` once into ``folder``; numbers become DOUBLE, launch metadata stays text.

    Cells that are no numbers become NULL with a warning that names column, count and an example.
    Raises BadInput for an empty or binary file, a wrong encoding, duplicate headers, ragged rows.
    """
    import duckdb

    headers = read_headers(source)
    columns = classify(headers)
    staged = Staged(name, source, folder / f"stage_{name}.parquet", columns, 0)
    if unknown := [c.header for c in columns if c.role == "unknown"]:
        staged.warnings.append(f"{source.name}: columns that are neither counters nor launch data were left out: "
                               f"{', '.join(unknown[:8])}{' ...' if len(unknown) > 8 else ''}.")
    numeric = [c.header for c in columns if c.role not in _TEXT_ROLES]
    try:
        staged.rows = write_table(con, _select(source, headers, set(numeric)), staged.parquet)
    except (duckdb.ConversionException, duckdb.InvalidInputException):
        try:
            staged.rows = _stage_leniently(con, staged, headers, numeric)
        except duckdb.Error as error:
            raise _bad_csv(source, error) from error
    if staged.rows == 0:
        raise BadInput(f"{source.name} holds no rows", "it has a header only", "Was the profiled program's run complete?")
    return staged


def read_headers(source: Path) -> list[str]:
    """The header line of a CSV file (plain or gzip), as text; BadInput where it is none."""
    import gzip

    try:
        opener = gzip.open if source.suffix == ".gz" else open
        with opener(source, "rb") as file:  # type: ignore[operator]
            head: bytes = file.read(_HEADER_LIMIT)
    except (OSError, EOFError) as error:
        raise BadInput(f"{source.name} cannot be read", str(error)) from error
    if not head.strip():
        raise BadInput(f"{source.name} is empty", fix="Was the profiled program's run complete?")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadInput(f"{source.name} is not UTF-8 text", "it starts with a UTF-16 mark", "Save it as UTF-8")
    line, newline, _ = head.partition(b"\n")
    if not newline and len(head) >= _HEADER_LIMIT:
        raise BadInput(f"{source.name} is no CSV file", f"its first line is longer than {_HEADER_LIMIT >> 20} MiB")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{source.name} is not UTF-8 text", f"byte {error.start} of its header", "Save it as UTF-8") from error
    if "\x00" in text:
        raise BadInput(f"{source.name} is a binary file, no CSV")
    headers = [h.strip() for h in next(csv.reader(io.StringIO(text)), [])]
    if len(set(headers)) != len(headers):
        twice = sorted({h for h in headers if headers.count(h) > 1})
        raise BadInput(f"{source.name} names columns twice", ", ".join(twice[:8]), "Remove one of each")
    return headers


def _select(source: Path, headers: list[str], numeric: set[str]) -> str:
    types = ", ".join(f"{sql_literal(h)}: '{'DOUBLE' if h in numeric else 'VARCHAR'}'" for h in headers)
    return (
        f"SELECT row_number() OVER () - 1 AS row, * FROM read_csv({sql_literal(str(source))}, auto_detect=false, "
        f"header=true, delim=',', quote='\"', escape='\"', nullstr={_NULLS}, columns={{{types}}})"
    )


def _stage_leniently(con: duckdb.DuckDBPyConnection, staged: Staged, headers: list[str], numeric: list[str]) -> int:
    """Second attempt, all text first: cells that are no numbers become NULL and are counted."""
    text = staged.parquet.with_suffix(".text")
    rows = write_table(con, _select(staged.source, headers, set()), text)
    relation = f"read_parquet({sql_literal(str(text))})"
    casts = ", ".join(f"TRY_CAST({sql_name(h)} AS DOUBLE) AS {sql_name(h)}" for h in numeric)
    write_table(con, f"SELECT * REPLACE ({casts}) FROM {relation}", staged.parquet)
    for start in range(0, len(numeric), 100):
        chunk = numeric[start : start + 100]
        bad = con.execute(
            "SELECT " + ", ".join(
                f"count(*) FILTER ({sql_name(h)} IS NOT NULL AND TRY_CAST({sql_name(h)} AS DOUBLE) IS NULL), "
                f"any_value({sql_name(h)}) FILTER (TRY_CAST({sql_name(h)} AS DOUBLE) IS NULL)" for h in chunk
            ) + f" FROM {relation}"
        ).fetchone() or ()  # fmt: skip
        for header, count, example in zip(chunk, bad[::2], bad[1::2], strict=True):
            if count:
                staged.warnings.append(f"{staged.source.name}: column {header} holds text in {count} of {rows} rows "
                                       f"(for instance {str(example)[:40]!r}); those cells are taken as not collected.")
    text.unlink()
    return rows


def _bad_csv(source: Path, error: Exception) -> BadInput:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    where = next((line for line in lines if "Line:" in line), lines[0])
    why = next((line for line in lines if line.startswith(("Expected", "Value", "Invalid unicode", "Maximum"))), "")
    return BadInput(f"{source.name} is damaged", f"{where} {why}".strip()[:300],
                    "Repair or remove the row, or profile again; nothing was imported")
