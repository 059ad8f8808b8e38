"""Convert an ncu page to a table of launches with their geometry, and collect notes about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal, sql_name
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base.untrusted_text import bounded_name, plain_text
from ..merging.contract import RESERVED
from ..parsing.csv_file import text_table, write_text
from ..parsing.module_data import module_data
from ..parsing.sheet import LaunchSheet, SheetColumn
from .pages import NOTHING, NcuPage, clean_numbers, damaged_page, number, scale

if TYPE_CHECKING:
    import duckdb


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


def unknown_units(page: NcuPage, factors: dict[int, float | None]) -> list[Note]:
    """Return a note on values whose unit is unknown or missing."""
    if not page.units:
        text = f"{page.source.name} has no row of units below its header: values are kept as printed, in unknown scale."
        return [Note("no_units", text)]
    unknown = sorted({page.units[i] for i, factor in factors.items() if factor is None})
    if not unknown:
        return []
    example = next(page.headers[i] for i, factor in factors.items() if factor is None)
    listed = ", ".join(repr(plain_text(u, 20)) for u in unknown[:6])
    text = f"{page.source.name}: unknown units {listed} (for instance of {example}): "
    return [Note("unknown_units", text + "these values are kept as printed and may be scaled.")]


def left_out(page: NcuPage, kinds: dict[int, str], empty: set[str]) -> list[Note]:
    """Return notes on other output in the page, and on metrics without a value in any launch."""
    notes = []
    if page.foreign:
        text = f"{page.source.name}: skipped {count_text(page.foreign, 'line')} of other output in the table."
        notes.append(Note("other_output", text))
    if blank := [page.headers[i] for i, kind in kinds.items() if kind == "number" and page.headers[i] in empty]:
        text = f"{page.source.name}: skipped {count_text(len(blank), 'metric')} without a value in any launch "
        notes.append(Note("no_value", f"{text}(such as {blank[0]})."))
    return notes


def rounded_zeros(page: NcuPage, factors: dict[int, float | None], sheet: LaunchSheet) -> list[Note]:
    """Return a note on zeros that may be rounded, since ncu uses one unit per column and prints six decimals."""
    scaled = [
        (page.headers[i], page.units[i])
        for i, factor in factors.items()
        if factor is not None and factor > 1 and sheet.wide.bounds.get(page.headers[i], (1, 1))[0] == 0
    ]
    if not scaled:
        return []
    metric, unit = scaled[0]
    text = (
        f"{page.source.name}: zeros of {count_text(len(scaled), 'metric')} (such as {metric} in {unit}) may be "
        "small values that the "
        "page rounded to zero; the report, or a page written with --print-units base, is exact."
    )
    return [Note("rounded_zeros", text)]


DEVICE = "device__attribute_"
"""Prefix of the metrics that are facts of the device."""
_RUN_TEXTS = ("CC", "Process Name", "Host Name", f"{DEVICE}display_name")
"""Text columns with information about the run."""
_METRIC = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[.:\-][A-Za-z0-9_]+)*")
_NAME_LIMIT = 200
_LOOKED_AT = 100


def stage(con: duckdb.DuckDBPyConnection, page: NcuPage, folder: Path, name: str) -> tuple[LaunchSheet, list[Note]]:
    """Read the launches of a raw page into ``folder``, with notes about them; non-numeric cells become NULL.

    Metrics that are text in every launch, or that have no value in any launch, are skipped.
    """
    factors, sheet = _factors(page), LaunchSheet(name, page.source, folder / f"stage_{name}.parquet")
    kinds = _kinds(page, factors)
    numbers = {i for i, kind in kinds.items() if kind == "number"}
    if page.doubtful:
        sheet.warnings += _clean_page(page, numbers)

    def select(again: bool) -> str:
        """Return SQL for the launches; ``again`` uses a copy of the page without cells that are not plain numbers."""
        if again:
            sheet.warnings.extend(_clean_page(page, numbers))
        return _select(page, kinds, factors)

    sheet.rows, _ = write_text(con, sheet.parquet, select, partial(_unreadable_page, page))
    if sheet.rows == 0:
        raise BadInput(
            f"{page.source.name} contains no launches", "it has only a header", "Check that a kernel matched"
        )
    # Metrics without any value are no columns.
    rows = con.execute(
        "SELECT path_in_schema FROM parquet_metadata(?) GROUP BY 1 HAVING sum(stats_null_count) = sum(num_values)",
        [str(sheet.parquet)],
    ).fetchall()
    empty = {column for (column,) in rows}
    metrics = [page.headers[i] for i, kind in kinds.items() if kind == "number"]
    sheet.columns = [SheetColumn(own_column(role), role) for role in launch_data(page.headers, metrics)]
    for metric in metrics:
        if metric.startswith(DEVICE):
            sheet.columns.append(SheetColumn(metric, "ignored"))
        elif metric not in empty:
            sheet.columns.append(SheetColumn(metric, "counter"))
    sheet.measure(con)
    sheet.warnings += unknown_units(page, factors)
    return sheet, [*left_out(page, kinds, empty), *rounded_zeros(page, factors, sheet)]


def _factors(page: NcuPage) -> dict[int, float | None]:
    """Return column number -> factor to base units for each possible metric; None for an unknown unit."""
    units = page.units or [""] * len(page.headers)
    if len(units) != len(page.headers):
        raise damaged_page(
            page.source, f"its row of units has {len(units)} of {count_text(len(page.headers), 'column')}"
        )
    return {
        i: scale(unit)
        for i, (header, unit) in enumerate(zip(page.headers, units, strict=True))
        if header not in LAUNCH
        and header not in _RUN_TEXTS
        and len(header) <= _NAME_LIMIT
        and _METRIC.fullmatch(header)
        and header.casefold() not in RESERVED
        and ("_" in header or "." in header)
    }


def _kinds(page: NcuPage, metrics: Iterable[int]) -> dict[int, str]:
    """Return column number -> ``number``, ``text`` or ``unused``, judged by the first rows."""
    seen = list(islice(page.cells(), _LOOKED_AT))
    kinds = dict.fromkeys(range(len(page.headers)), "unused")
    for i in metrics:
        cells = {row[i] for row in seen} - set(NOTHING)
        kinds[i] = "number" if not cells or any(number(c) is not None for c in cells) else "unused"
    for i, header in enumerate(page.headers):
        if header in LAUNCH or header in _RUN_TEXTS or header in SIZES:
            kinds[i] = "text"
    return kinds


def _select(page: NcuPage, kinds: dict[int, str], factors: dict[int, float | None]) -> str:
    """Return SQL for the launches; DuckDB gets columns by position, so headers cannot cause errors."""
    inner, metrics = [], []
    for i, kind in kinds.items():
        cell = f"c{i}"
        if kind == "number":
            metrics.append(page.headers[i])
            factor = factors[i]
            cell = cell if factor in (None, 1.0) else f"{cell} * {factor!r}::DOUBLE"
        if kind != "unused":
            inner.append(f"{cell} AS {sql_name(page.headers[i])}")
    launch = [f"{sql} AS {sql_name(own_column(role))}" for role, sql in launch_data(page.headers, metrics).items()]
    rows = f"SELECT {', '.join(inner)} FROM {_csv(page, kinds)}"
    return f"SELECT {', '.join(launch)}, * FROM ({rows})"


def _csv(page: NcuPage, kinds: dict[int, str]) -> str:
    typed = {i: "DOUBLE" if kind == "number" else "VARCHAR" for i, kind in kinds.items()}
    nothing = ", ".join(sql_literal(text) for text in NOTHING)
    return text_table(page.body, typed, f"header = false, thousands = ',', nullstr = [{nothing}]")


def _clean_page(page: NcuPage, numbers: set[int]) -> list[Note]:
    """Rewrite the rows of the page with plain numbers; return a note on cells that contain text instead."""
    bad = clean_numbers(page, numbers)
    if not bad:
        return []
    (column, (count, example)), *others = bad.items()
    more = f" and {len(others)} more metrics" if others else ""
    text = (
        f"{page.source.name}: {page.headers[column]}{more} contain text instead of a number ({count} of "
        f"{count_text(page.rows, 'launch')}, for instance {plain_text(example, 40)!r}); those cells are treated as "
        "not collected."
    )
    return [Note("not_a_number", text)]


def _unreadable_page(page: NcuPage, error: Exception) -> BadInput:
    """Return the error for a page that DuckDB cannot read, with the line of its message that states the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = ("Expected Number", "Error when", "Value with")
    return damaged_page(
        page.source, plain_text(next((line for line in lines if line.startswith(causes)), lines[0]), 160)
    )
