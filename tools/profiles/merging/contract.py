"""A pass as relations, for readers of large files (../reader.py): its launches and the values counted in them.

A PassTable has two relations. ``launches`` has one row per launch and the columns LAUNCH. ``values`` has rows (key,
counter, value), see CounterRows. If the profiler's file already has one column per counter, ``wide`` refers to that
file instead, which avoids converting it twice. The merge (merge.py) depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ....analysis.base.database import sql_literal, sql_name, sql_path
from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base import progress, size_limits
from ..parsing.module_data import module_data
from .ranks import ProcessPlace
from .wording import note, refusal

if TYPE_CHECKING:
    import duckdb

Connection: TypeAlias = "duckdb.DuckDBPyConnection"
LAUNCH: dict[str, str] = module_data(__file__)["launch"]
"""Column of launches -> SQL type."""
SIZES: list[str] = module_data(__file__)["sizes"]
"""Numeric columns of launches whose minimum and maximum are measured."""
RESERVED = {"file_row_number", "kernel_id", "workload", "filename", "rank", "host", *LAUNCH}
"""Names that a counter must not have."""
_VALUES_AT_ONCE = 3_000_000
_CHUNK = 200


@dataclass(frozen=True)
class CounterRows:
    """Values counted in consecutive launches: rows (key, counter, value) in Parquet files; repeated counters add up."""

    files: tuple[Path, ...]
    keys: tuple[int, int]
    """First and last key of these launches; the first key is that of row ``row`` of the pass, and so on."""
    row: int
    counters: frozenset[str]
    """Names of counters with values here; the files may contain others."""
    once: bool = False
    """Whether the profiler states each counter of a launch only once, so that a second value deserves a warning."""

    def between(self, low: int, high: int) -> str:
        """Return SQL for the values of a range of keys: key, counter, value."""
        return f"SELECT * FROM {parquet(self.files)} WHERE key BETWEEN {low} AND {high}"


@dataclass
class CounterColumns:
    """Parquet files with one column per counter and one row per launch, in the order of the pass."""

    files: list[Path] = field(default_factory=list)
    numbered: bool = False
    """Whether the files have a column ``row``; in a single file the position of a row gives its number."""
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Minimum and maximum of every column that contains any number, once ``measure`` has run."""
    infinite: set[str] = field(default_factory=set)
    """Quoted names of columns that contain infinities, which are read as NULL."""

    def relation(self, names: Iterable[str]) -> str:
        """Return a FROM item with ``row``, from 0 in the order of the pass, and the columns quoted in ``names``."""
        picks = [f"{self.cell(n)} AS {n}" if n in self.infinite else n for n in dict.fromkeys(names)]
        row = "row" if self.numbered else "file_row_number AS row"
        return f"(SELECT {', '.join([row, *picks])} FROM {parquet(self.files, numbered=not self.numbered)})"

    def cell(self, name: str, prefix: str = "") -> str:
        """Return SQL for the value of the column quoted in ``name``; infinities become NULL."""
        value = prefix + name
        return f"CASE WHEN isfinite({value}) THEN {value} END" if name in self.infinite else value

    def measure(self, con: Connection, names: set[str], source: Path, rows: int) -> list[Note]:
        """Record the bounds of numeric columns and return warnings; infinities and NaN become NULL.

        Parquet states the bounds of a column unless it contains infinities or NaN, so only those columns are read.
        """
        statistics = all_rows(
            con,
            "SELECT path_in_schema, min(TRY_CAST(stats_min_value AS DOUBLE)), max(TRY_CAST(stats_max_value AS DOUBLE)),"
            " bool_or((stats_min_value IS NULL OR stats_max_value IS NULL) AND coalesce(stats_null_count, 0) < "
            f"num_values) FROM parquet_metadata([{', '.join(map(sql_path, self.files))}]) GROUP BY path_in_schema",
        )
        for header, low, high, _ in statistics:
            if header in names and low is not None:
                self.bounds[header] = (low, high)
        doubtful = sorted(header for header, *_, doubt in statistics if doubt and header in names)
        infinite = []
        for start in range(0, len(doubtful), _CHUNK):
            infinite += self._measure_values(con, doubtful[start : start + _CHUNK])
        notes = [not_a_number(source, header, (count, rows)) for header, count in infinite[: size_limits.NAMED_COLUMNS]]
        if more := infinite[size_limits.NAMED_COLUMNS :]:
            notes.append(note("not_a_number.columns", file=source, count=len(more), column=more[0][0]))
        return notes

    def _measure_values(self, con: Connection, headers: list[str]) -> list[tuple[str, int]]:
        """Record the bounds of some columns from their values; return those with infinities or NaN, with the count."""
        columns = [sql_name(header) for header in headers]
        finite = ", ".join(f"CASE WHEN isfinite({c}) THEN {c} END AS v{i}" for i, c in enumerate(columns))
        picks = ", ".join(f"count(v{i}), count(n{i}), min(v{i}), max(v{i})" for i in range(len(columns)))
        plain = ", ".join(f"{c} AS n{i}" for i, c in enumerate(columns))
        figures = one_row(con, f"SELECT {picks} FROM (SELECT {finite}, {plain} FROM {self.relation(columns)})")
        infinite = []
        for i, header in enumerate(headers):
            count, present, low, high = figures[4 * i : 4 * i + 4]
            self.bounds.pop(header, None)
            if low is not None:
                self.bounds[header] = (low, high)
            if present > count:
                self.infinite.add(columns[i])
                infinite.append((header, present - count))
        return infinite


@dataclass(frozen=True)
class PassTable:
    """One profiled run of the program as relations: what a reader returns for a large pass."""

    name: str
    source: Path
    """File to name in warnings and in the table of passes."""
    rows: int = 0
    launches: str = ""
    """FROM item with the columns LAUNCH."""
    stated: frozenset[str] = frozenset()
    """The columns of LAUNCH that the source states."""
    counters: list[str] = field(default_factory=list)
    """Counters with one value per launch, in the order of the file."""
    instances: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Name of a value per instance (``TCC_HIT[3]``) -> counter, and number of the instance on the whole GPU."""
    wide: CounterColumns = field(default_factory=CounterColumns)
    values: list[CounterRows] = field(default_factory=list)
    warnings: list[Note] = field(default_factory=list)
    sizes: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Minimum and maximum of the columns SIZES that contain any value."""
    places: Mapping[int, ProcessPlace] = field(default_factory=dict)
    """Number of a process -> its rank, host and pid, if known; those of the main pass become columns."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Counter -> column in the store, if the reader knows better than ``name_counters`` in merge.py."""
    more_columns: str = ""
    """SELECT with ``row`` and further columns of the table dispatches, such as range_id; only of the main pass."""

    def differs_in(self, column: str) -> bool:
        """Return whether the launches differ in a numeric column."""
        low, high = self.sizes.get(column, (0, 0))
        return low != high

    def prepare(self, con: Connection, work: Path) -> PassTable:
        """Return the pass with measured launches, and with values that are rows as one column per counter.

        The columns are written to files below ``work``.
        """
        picks = ", ".join(f"min({c})::DOUBLE, max({c})::DOUBLE" for c in SIZES)
        extremes = one_row(con, f"SELECT {picks} FROM {self.launches}")
        bounds = dict(zip(SIZES, zip(extremes[::2], extremes[1::2], strict=True), strict=True))
        sizes = {column: pair for column, pair in bounds.items() if pair[0] is not None}
        columns = [*self.counters, *self.instances]
        if not (self.values and columns):
            return replace(self, sizes=sizes)
        self._check_filled(con, len(columns))
        wide, warnings = CounterColumns(numbered=True), list(self.warnings)
        repeated = 0
        for values in self.values:
            for low, high in _slices(con, values):
                wide.files.append(work / f"wide_{self.name}_{len(wide.files)}.parquet")
                repeats = _write_counter_columns(con, values, (low, high), columns, wide.files[-1])
                repeated += repeats if values.once else 0
                progress.report(
                    f"sorted the counters of {count_text(high - values.keys[0] + 1, 'launch')} of {self.source.name}"
                )
        if repeated:
            warnings.append(note("counters_repeated", file=self.source, repeated=repeated))
        warnings += wide.measure(con, set(columns), self.source, self.rows)
        return replace(self, sizes=sizes, wide=wide, warnings=warnings)

    def _check_filled(self, con: Connection, columns: int) -> None:
        """Raise BadInput if columns per counter would be almost empty, and so far larger than the file."""
        if self.rows * columns <= size_limits.EMPTY_CELLS:
            return
        files = dict.fromkeys(file for values in self.values for file in values.files)
        count = count_rows(con, parquet(files))
        if self.rows * columns > size_limits.EMPTY_CELLS + size_limits.SPARSE * count:
            raise refusal("almost_empty", file=self.source, columns=columns, count=count, rows=self.rows)


def _slices(con: Connection, values: CounterRows) -> list[tuple[int, int]]:
    """Return ranges of keys with about as many values as fit comfortably in memory."""
    low, high = values.keys
    if not values.counters:
        return [(low, high)]
    count = count_rows(con, f"({values.between(low, high)})")
    step = max(1, int(_VALUES_AT_ONCE / max(1.0, count / (high - low + 1))))
    return [(start, min(high, start + step - 1)) for start in range(low, high + 1, step)]


def _write_counter_columns(
    con: Connection, values: CounterRows, keys: tuple[int, int], columns: list[str], path: Path
) -> int:
    """Write the values of a range of launches with one column per counter; return the number of repeated values."""
    low, high = keys
    launches = f"SELECT unnest(range({low}, {high + 1})) AS key"
    row = f"key - {values.keys[0] - values.row} AS row"
    coded = {i: c for i, c in enumerate(columns) if c in values.counters}
    if not coded:
        empty = "".join(f", NULL::DOUBLE AS {sql_name(c)}" for c in columns)
        write_table(con, f"SELECT {row}{empty} FROM ({launches}) ORDER BY key", path)
        return 0
    names = ", ".join(f"({sql_literal(c)}, {i})" for i, c in coded.items())
    con.execute(
        "CREATE OR REPLACE TEMP TABLE summed AS SELECT key, code, sum(value) AS value, count(*) AS n "
        f"FROM ({values.between(low, high)}) JOIN (VALUES {names}) c(counter, code) USING (counter) GROUP BY key, code"
    )
    picks = "".join(
        f", {f'w.{sql_name(str(i))}' if i in coded else 'NULL::DOUBLE'} AS {sql_name(c)}" for i, c in enumerate(columns)
    )
    con.execute(
        "CREATE OR REPLACE TEMP TABLE spread AS PIVOT (SELECT key, code, value FROM summed) "
        f"ON code IN ({', '.join(map(str, coded))}) USING first(value) GROUP BY key"
    )
    write_table(con, f"SELECT {row}{picks} FROM ({launches}) LEFT JOIN spread w USING (key) ORDER BY key", path)
    repeats = count_rows(con, "summed WHERE n > 1")
    con.execute("DROP TABLE summed; DROP TABLE spread")
    return repeats


def row_of(columns: Mapping[str, str], known: Mapping[str, str], cast: str = "CAST") -> str:
    """Return the picks of a SELECT with the given columns: ``known`` is SQL by column, the others are NULL.

    With the cast TRY_CAST, values that are no values of their column become NULL.
    """
    return ", ".join(f'{cast}({known.get(c, "NULL")} AS {kind}) AS "{c}"' for c, kind in columns.items())


def launch_pass(source: Path, rows: str, count: int, columns: Mapping[str, str]) -> PassTable:
    """Return the main pass of a trace with ``count`` launches, the rows of the FROM item ``rows``.

    ``columns`` has the SQL for each column of LAUNCH that the trace states; the others are NULL.
    """
    picks = row_of(LAUNCH, columns, "TRY_CAST")
    return PassTable("main", source, count, f"(SELECT {picks} FROM {rows})", frozenset(columns))


def one_row(con: Connection, sql: str) -> tuple[Any, ...]:
    """Return the only row of an aggregate over all rows."""
    (row,) = all_rows(con, sql)
    return row


def all_rows(con: Connection, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Return all rows of a query with few rows."""
    return con.execute(sql, *parameters).fetchall()


def count_rows(con: Connection, rows: str) -> int:
    """Return the number of rows of a FROM item, which a WHERE clause may follow."""
    (count,) = one_row(con, f"SELECT count(*) FROM {rows}")
    return int(count)


def write_relation(con: Connection, select: str, path: Path) -> str:
    """Write the rows of a SELECT to a Parquet file; return a FROM item with them."""
    write_table(con, select, path)
    return parquet([path])


def parquet(files: Iterable[Path], *, numbered: bool = False) -> str:
    """Return a FROM item over Parquet files, with rows in the order of the files."""
    number = ", file_row_number = true" if numbered else ""
    return f"read_parquet([{', '.join(sql_path(f) for f in files)}], hive_partitioning = false{number})"


def not_a_number(source: Path, header: str, cells: tuple[int, int], instance: str = "") -> Note:
    """Return the warning about cells with text, such as ``instance``, or else with infinite values or NaN.

    ``cells`` are how many, and of how many.
    """
    what, more = ("text", f" (for instance {instance})") if instance else ("infinite values or NaN", "")
    return note("not_a_number.cells", file=source, header=header, what=what, cells=cells[0], rows=cells[1], more=more)
