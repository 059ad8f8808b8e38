"""Launches of an ncu page: rows staged with geometry and remarks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal, sql_name, sql_path
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base.untrusted_text import bounded_name, plain_text
from ..merging.contract import RESERVED
from ..parsing.csv_file import write_text
from ..parsing.sheet import LaunchSheet, SheetColumn
from .pages import NOTHING, NcuPage, clean_numbers, damaged_page, number, scale

if TYPE_CHECKING:
    import duckdb


LAUNCH = {
    "ID": "dispatch_id",
    "Process ID": "pid",
    "Kernel Name": "kernel",
    "Stream": "queue_id",
    "Device": "device_id",
}
"""Column of a page -> role of the store."""
SIZES = ("Block Size", "Grid Size")
_SIZE = r"(\d+)\D+(\d+)\D+(\d+)"
_TIMES = ("sum", "avg", "max", "min")
_SHARED = "launch__shared_mem_per_block"


def own_column(role: str) -> str:
    """The column of launch data; no metric's name holds a space."""
    return f"ncu {role}"


def launch_data(headers: list[str], metrics: list[str]) -> dict[str, str]:
    """Role -> SQL over the columns of the page; what no column of its own states, a metric may."""
    have = {*metrics, *(size for size in SIZES if size in headers)}
    sql_by_role = {role: sql_name(header) for header, role in LAUNCH.items() if header in headers}
    sql_by_role["kernel"] = bounded_name(sql_by_role["kernel"])
    sql_by_role |= {
        role: f"TRY_CAST({sql_by_role[role]} AS BIGINT)" for role in ("pid", "queue_id") if role in sql_by_role
    }

    def add(role: str, *choices: tuple[str, ...]) -> None:
        """The first choice that has a value; a choice is its SQL and the columns that it needs."""
        terms = [sql for sql, *needs in choices if have.issuperset(needs)]
        if terms:
            sql_by_role[role] = f"coalesce({', '.join(terms)})"

    block, grid = (_product(size) for size in SIZES)
    add("workgroup_size", (block, "Block Size"), ('"launch__block_size"', "launch__block_size"))
    add(
        "grid",
        (f"{block} * {grid}", "Block Size", "Grid Size"),
        ('"launch__thread_count"', "launch__thread_count"),
        ('"launch__grid_size" * "launch__block_size"', "launch__grid_size", "launch__block_size"),
    )
    add("vgpr", ('"launch__registers_per_thread"', "launch__registers_per_thread"))
    static, dynamic, driver = (f"{_SHARED}_{part}" for part in ("static", "dynamic", "driver"))
    add(
        "lds_bytes",
        (f'"{static}" + "{dynamic}"', static, dynamic),
        (f'"{_SHARED}" - "{driver}"', _SHARED, driver),
    )
    add("cluster", ('nullif(nullif(TRY_CAST("launch__cluster_size" AS INT), 0), 1)', "launch__cluster_size"))
    times = [f"gpu__time_duration.{roll}" for roll in _TIMES]
    add("duration", *((sql_name(t), t) for t in times))
    return sql_by_role


def _product(column: str) -> str:
    """SQL of the product of a size such as ``(256, 1, 1)``; NULL where it is none."""
    parts = [f"TRY_CAST(regexp_extract({sql_name(column)}, '{_SIZE}', {n}) AS BIGINT)" for n in (1, 2, 3)]
    return " * ".join(parts)


def unknown_units(page: NcuPage, factors: dict[int, float | None]) -> list[Note]:
    """A sentence on values whose unit has no factor, or is not there."""
    if not page.units:
        text = f"{page.source.name} has no row of units below its header: values are kept as printed, in any scale."
        return [Note("no_units", text)]
    unknown = sorted({page.units[i] for i, factor in factors.items() if factor is None})
    if not unknown:
        return []
    example = next(page.headers[i] for i, factor in factors.items() if factor is None)
    listed = ", ".join(repr(plain_text(u, 20)) for u in unknown[:6])
    text = f"{page.source.name}: unknown units {listed} (for instance of {example}): "
    return [Note("unknown_units", text + "these values are kept as printed and may be scaled.")]


def left_out(page: NcuPage, kinds: dict[int, str], empty: set[str]) -> list[Note]:
    """Sentences on what the page holds beside launches, and on metrics that were measured in none."""
    notes = []
    if page.foreign:
        text = f"{page.source.name}: skipped {count_text(page.foreign, 'line')} of other output among the table."
        notes.append(Note("other_output", text))
    if blank := [page.headers[i] for i, kind in kinds.items() if kind == "number" and page.headers[i] in empty]:
        text = f"{page.source.name}: left out {count_text(len(blank), 'metric')} without a value in any launch "
        notes.append(Note("no_value", f"{text}(such as {blank[0]})."))
    return notes


def rounded_zeros(page: NcuPage, factors: dict[int, float | None], sheet: LaunchSheet) -> list[Note]:
    """ncu chooses one unit for a column and prints six decimals, so that small values of it become zero."""
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
        "page rounded away; the report, or a page written with --print-units base, has them."
    )
    return [Note("rounded_zeros", text)]


DEVICE = "device__attribute_"
"""Start of the metrics that are facts of the device."""
_RUN_TEXTS = ("CC", "Process Name", "Host Name", f"{DEVICE}display_name")
"""Texts that tell about the run."""
_METRIC = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[.:\-][A-Za-z0-9_]+)*")
_NAME_LIMIT = 200
_LOOKED_AT = 100


def stage(con: duckdb.DuckDBPyConnection, page: NcuPage, folder: Path, name: str) -> tuple[LaunchSheet, list[Note]]:
    """The launches of a raw page in ``folder`` with what is to be said about them; cells without a number are NULL.

    Metrics that are text in every launch are left out, as are those without a value in any.
    """
    if twice := [h for h, n in Counter(h.casefold() for h in page.headers).items() if n > 1]:
        raise BadInput(f"{page.source.name} names columns twice", ", ".join(sorted(twice)[:8]), "Remove one of each")
    factors, sheet = _factors(page), LaunchSheet(name, page.source, folder / f"stage_{name}.parquet")
    kinds = _kinds(page, factors)
    numbers = {i for i, kind in kinds.items() if kind == "number"}
    if page.doubtful:
        sheet.warnings += _clean_page(page, numbers)

    def select(again: bool) -> str:
        """The launches; where a cell is no plain number, of a copy of the page without such cells."""
        if again:
            sheet.warnings.extend(_clean_page(page, numbers))
        return _select(page, kinds, factors)

    sheet.rows, _ = write_text(con, sheet.parquet, select, partial(_unreadable_page, page))
    if sheet.rows == 0:
        raise BadInput(f"{page.source.name} holds no launches", "it has a header only", "Did any kernel match?")
    empty = _empty_columns(con, sheet)
    sheet.columns = [
        SheetColumn(alias, role) for alias, role in _roles(page, kinds) if role != "counter" or alias not in empty
    ]
    sheet.measure(con)
    sheet.warnings += unknown_units(page, factors)
    return sheet, [*left_out(page, kinds, empty), *rounded_zeros(page, factors, sheet)]


def _factors(page: NcuPage) -> dict[int, float | None]:
    """Column number -> factor to base units, for every column that may be a metric; None for an unknown unit."""
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
    """Column number -> ``number``, ``text`` or ``unused``, judged by the first rows."""
    seen = list(islice(page.cells(), _LOOKED_AT))
    kinds = dict.fromkeys(range(len(page.headers)), "unused")
    for i in metrics:
        cells = {row[i] for row in seen} - set(NOTHING)
        kinds[i] = "number" if not cells or any(number(c) is not None for c in cells) else "unused"
    for i, header in enumerate(page.headers):
        if header in LAUNCH or header in _RUN_TEXTS or header in SIZES:
            kinds[i] = "text"
    return kinds


def _roles(page: NcuPage, kinds: dict[int, str]) -> list[tuple[str, str]]:
    """(Column of the Parquet file, role) of everything of use in it."""
    metrics = [page.headers[i] for i, kind in kinds.items() if kind == "number"]
    return [
        *((own_column(role), role) for role in launch_data(page.headers, metrics)),
        *((name, "ignored" if name.startswith(DEVICE) else "counter") for name in metrics),
    ]


def _select(page: NcuPage, kinds: dict[int, str], factors: dict[int, float | None]) -> str:
    """The launches in SQL; DuckDB knows columns by position, so that no header can confuse it."""
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
    columns = ", ".join(f"c{i}: '{kind}'" for i, kind in typed.items())
    nothing = ", ".join(sql_literal(text) for text in NOTHING)
    return (
        f"read_csv({sql_path(page.body)}, auto_detect = false, header = false, delim = ',', quote = '\"', "
        f"escape = '\"', thousands = ',', compression = 'none', hive_partitioning = false, nullstr = [{nothing}], "
        f"columns = {{{columns}}})"
    )


def _clean_page(page: NcuPage, numbers: set[int]) -> list[Note]:
    """Replace the rows of the page by rows of plain numbers; a sentence on cells that hold text instead of one."""
    bad = clean_numbers(page, numbers)
    if not bad:
        return []
    (column, (count, example)), *others = bad.items()
    more = f" and {len(others)} more metrics" if others else ""
    text = (
        f"{page.source.name}: {page.headers[column]}{more} hold text instead of a number ({count} of "
        f"{count_text(page.rows, 'launch')}, for instance {plain_text(example, 40)!r}); those cells are taken as "
        "not collected."
    )
    return [Note("not_a_number", text)]


def _empty_columns(con: duckdb.DuckDBPyConnection, sheet: LaunchSheet) -> set[str]:
    """Columns without any value."""
    rows = con.execute(
        "SELECT path_in_schema FROM parquet_metadata(?) GROUP BY 1 HAVING sum(stats_null_count) = sum(num_values)",
        [str(sheet.parquet)],
    ).fetchall()
    return {name for (name,) in rows}


def _unreadable_page(page: NcuPage, error: Exception) -> BadInput:
    """The refusal of a page that DuckDB cannot read, with the line of its error that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = ("Expected Number", "Error when", "Value with")
    return damaged_page(
        page.source, plain_text(next((line for line in lines if line.startswith(causes)), lines[0]), 160)
    )
