"""Convert an ncu page to a table of launches with their geometry, and collect notes about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from ....analysis.base.database import sql_literal, sql_name
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base.untrusted_text import bounded_name, plain_text
from ..merging.contract import RESERVED, Connection, all_rows
from ..merging.wording import note, refusal
from ..parsing.csv_file import text_table, write_text
from ..parsing.module_data import module_data
from ..parsing.sheet import LaunchSheet, SheetColumn
from .pages import NOTHING, NcuPage, clean_numbers, damaged_page, number, scale

LAUNCH: dict[str, str] = module_data(__file__)["launch"]
"""Column of a page -> column of the store."""
SIZES = ("Block Size", "Grid Size")
_SIZE = r"(\d+)\D+(\d+)\D+(\d+)"
_NAMES = re.compile(r'"([^"]+)"')


def own_column(role: str) -> str:
    """Return the column name for launch data; names of metrics contain no space, so it is unique."""
    return f"ncu {role}"


def launch_data(headers: list[str], metrics: list[str]) -> dict[str, str]:
    """Return role -> SQL over the columns of the page; a metric replaces a missing column."""
    have = {*metrics, *(size for size in SIZES if size in headers)}
    sql_by_role = {role: sql_name(header) for header, role in LAUNCH.items() if header in headers}
    sql_by_role["kernel"] = bounded_name(sql_by_role["kernel"])
    sql_by_role |= {
        role: f"TRY_CAST({sql_by_role[role]} AS BIGINT)" for role in ("pid", "queue_id") if role in sql_by_role
    }

    # Reports of ncu 2023.1 and older state sizes of 0 beside the metrics that hold them.
    block, grid = (f"nullif({_product(size)}, 0)" for size in SIZES)
    for role, choices in module_data(__file__)["choices"].items():
        terms = [choice.format(block=block, grid=grid) for choice in choices]
        if known := [sql for sql in terms if have.issuperset(_NAMES.findall(sql))]:
            sql_by_role[role] = f"coalesce({', '.join(known)})"
    return sql_by_role


def _product(column: str) -> str:
    """Return SQL for the product of a size such as ``(256, 1, 1)``; NULL if it is not a size."""
    parts = [f"TRY_CAST(regexp_extract({sql_name(column)}, '{_SIZE}', {n}) AS BIGINT)" for n in (1, 2, 3)]
    return " * ".join(parts)


DEVICE = "device__attribute_"
"""Prefix of the metrics that are facts of the device."""
_RUN_TEXTS = ("CC", "Process Name", "Host Name", f"{DEVICE}display_name")
"""Text columns with information about the run."""
_METRIC = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[.:\-][A-Za-z0-9_]+)*")
_NAME_LIMIT = 200
_LOOKED_AT = 100


@dataclass(frozen=True)
class _LaunchColumn:
    """One column of a page, with the cells of the first launches."""

    place: int
    header: str
    unit: str
    cells: frozenset[str]

    @property
    def is_metric(self) -> bool:
        return bool(
            len(self.header) <= _NAME_LIMIT
            and _METRIC.fullmatch(self.header)
            and self.header.casefold() not in RESERVED
            and self.header not in (*LAUNCH, *_RUN_TEXTS)
            and ("_" in self.header or "." in self.header)
        )

    @property
    def factor(self) -> float | None:
        """The factor to base units; None for an unknown unit."""
        return scale(self.unit)

    @property
    def type(self) -> str:
        """The type of its values; metrics that are text in the first launches have none and are skipped."""
        if self.header in (*LAUNCH, *_RUN_TEXTS, *SIZES):
            return "VARCHAR"
        return "DOUBLE" if self.is_metric and (not self.cells or any(map(_is_number, self.cells))) else ""

    @property
    def sql(self) -> str:
        """SQL for its values in base units; DuckDB gets columns by position, so headers cannot cause errors."""
        scaled = self.type == "DOUBLE" and self.factor not in (None, 1.0)
        return f"c{self.place} * {self.factor!r}::DOUBLE" if scaled else f"c{self.place}"


def _is_number(cell: str) -> bool:
    return number(cell) is not None


def stage(con: Connection, page: NcuPage, folder: Path, name: str) -> tuple[LaunchSheet, list[Note]]:
    """Read the launches of a raw page into ``folder``, with notes about them; non-numeric cells become NULL.

    Metrics that are text in every launch, or that have no value in any launch, are skipped.
    """
    columns, sheet = _columns(page), LaunchSheet(name, page.source, folder / f"stage_{name}.parquet")
    numbers = [column for column in columns if column.type == "DOUBLE"]
    metrics = [column.header for column in numbers]
    if page.doubtful:
        sheet.warnings += _clean_page(page, numbers)

    def select(again: bool) -> str:
        """Return SQL for the launches; ``again`` uses a copy of the page without cells that are not plain numbers."""
        if again:
            sheet.warnings.extend(_clean_page(page, numbers))
        picks = ", ".join(f"{column.sql} AS {sql_name(column.header)}" for column in columns if column.type)
        launch = (f"{sql} AS {sql_name(own_column(role))}" for role, sql in launch_data(page.headers, metrics).items())
        nothing = ", ".join(map(sql_literal, NOTHING))
        options = f"header = false, thousands = ',', nullstr = [{nothing}]"
        rows = text_table(page.body, {column.place: column.type or "VARCHAR" for column in columns}, options)
        return f"SELECT {', '.join(launch)}, * FROM (SELECT {picks} FROM {rows})"

    sheet.rows, _ = write_text(con, sheet.parquet, select, partial(_unreadable_page, page))
    if sheet.rows == 0:
        raise refusal("no_ncu_launches", file=page.source)
    # Metrics without any value are no columns.
    without_values = "GROUP BY 1 HAVING sum(stats_null_count) = sum(num_values)"
    rows = all_rows(con, f"SELECT path_in_schema FROM parquet_metadata(?) {without_values}", [str(sheet.parquet)])
    empty = {column for (column,) in rows}
    sheet.columns = [SheetColumn(own_column(role), role) for role in launch_data(page.headers, metrics)]
    for metric in metrics:
        if metric.startswith(DEVICE):
            sheet.columns.append(SheetColumn(metric, "ignored"))
        elif metric not in empty:
            sheet.columns.append(SheetColumn(metric, "counter"))
    sheet.measure(con)
    sheet.warnings += _unknown_units(page, columns)
    notes = []
    if page.foreign:
        notes.append(note("other_output", file=page.source, lines=page.foreign))
    if blank := [metric for metric in metrics if metric in empty]:
        notes.append(note("no_value", file=page.source, metrics=blank, metric=blank[0]))
    # ncu uses one unit per column and prints six decimals.
    lowest = {metric: low for metric, (low, _) in sheet.wide.bounds.items()}
    if rounded := [c for c in numbers if c.factor and c.factor > 1 and lowest.get(c.header) == 0]:
        notes.append(
            note("rounded_zeros", file=page.source, metrics=rounded, metric=rounded[0].header, unit=rounded[0].unit)
        )
    return sheet, notes


def _columns(page: NcuPage) -> list[_LaunchColumn]:
    units = page.units or [""] * len(page.headers)
    if len(units) != len(page.headers):
        raise damaged_page(
            page.source, f"its row of units has {len(units)} of {count_text(len(page.headers), 'column')}"
        )
    seen = list(islice(page.cells(), _LOOKED_AT))
    return [
        _LaunchColumn(i, header, unit, frozenset(row[i] for row in seen) - set(NOTHING))
        for i, (header, unit) in enumerate(zip(page.headers, units, strict=True))
    ]


def _unknown_units(page: NcuPage, columns: list[_LaunchColumn]) -> list[Note]:
    """Return a warning about values whose unit is unknown or missing."""
    if not page.units:
        return [note("no_units", file=page.source)]
    unknown = [column for column in columns if column.is_metric and column.factor is None]
    if not unknown:
        return []
    units = [repr(plain_text(unit, 20)) for unit in sorted({column.unit for column in unknown})[:6]]
    return [note("unknown_units.ncu", file=page.source, units=units, metric=unknown[0].header)]


def _clean_page(page: NcuPage, numbers: list[_LaunchColumn]) -> list[Note]:
    """Rewrite the rows of the page with plain numbers; return a note on cells that contain text instead."""
    bad = clean_numbers(page, {column.place for column in numbers})
    if not bad:
        return []
    (column, (count, example)), *others = bad.items()
    more = f" and {len(others)} more metrics" if others else ""
    metric, shown = page.headers[column] + more, plain_text(example, 40)
    return [note("not_a_number.metrics", file=page.source, metric=metric, count=count, rows=page.rows, example=shown)]


def _unreadable_page(page: NcuPage, error: Exception) -> BadInput:
    """Return the error for a page that DuckDB cannot read, with the line of its message that states the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = ("Expected Number", "Error when", "Value with")
    return damaged_page(
        page.source, plain_text(next((line for line in lines if line.startswith(causes)), lines[0]), 160)
    )
