"""Convert files with one row per dispatch and XCD (rocprof v2 on MI300) to one row per dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....analysis.base.database import sql_name
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.catalogue.targets import find_target
from ....analysis.store.store import write_table
from ..parsing.sheet import UNUSED, LaunchSheet, SheetColumn

if TYPE_CHECKING:
    import duckdb

_MOST_XCDS = 64
CHANNELS = 16  # L2 channels of one XCD, on every GPU that has several
_SHARES = (
    "Busy",
    "Hit",
    "Stalled",
    "Util",
    "Utilization",
    "Percent",
    "BankConflict",
    "PerCU",
    "PerActiveCU",
    "Latency",
)
_IDENTITY = ("pid", "device_id", "dispatch_id", "kernel")


def merge_xcds(con: duckdb.DuckDBPyConnection, sheet: LaunchSheet) -> LaunchSheet:
    """Sum counters over the XCDs of a dispatch and average percentages; ``TCC_X[i]`` of XCD x becomes ``[i + 16 x]``.

    A file with one row per dispatch is returned unchanged. Adds a warning if some dispatches have rows for fewer XCDs.
    """
    xcc = sheet.header("xcc")
    identity = [h for role in _IDENTITY if (h := sheet.header(role))]
    if xcc is None or sheet.header("dispatch_id") is None:
        return sheet
    keys = ", ".join(identity)
    most, fewest, highest = con.execute(
        f"SELECT max(n), min(n), max(x) FROM (SELECT count(DISTINCT {xcc}) AS n, max({xcc}) AS x "
        f"FROM {sheet.relation([xcc, *identity])} GROUP BY {keys})"
    ).fetchone() or (1, 1, 0)
    if most <= 1:
        return sheet
    if fewest != most:
        sheet.warnings.append(
            Note(
                "xcds_missing",
                f"{sheet.source.name}: dispatches have rows of {fewest} to {most} XCDs; "
                "sums over the XCDs of those with fewer are too low.",
            )
        )
    if highest >= _MOST_XCDS:
        raise BadInput(f"{sheet.source.name} names XCD {highest:g}", f"no GPU has more than {_MOST_XCDS}")
    columns, picks = [], []
    for column in sheet.columns:
        if column.role == "instance":
            parts = _channels(column, xcc, int(highest))
        elif column.role in ("xcc", *UNUSED):
            continue
        else:
            parts = [(column, _aggregate_sql(column, identity))]
        columns += [c for c, _ in parts]
        picks += [f"{sql} AS {sql_name(c.header)}" for c, sql in parts]
    merged = sheet.parquet.with_suffix(".merged")
    rows = write_table(con, f"SELECT {', '.join(picks)} FROM {sheet.all} GROUP BY {keys} ORDER BY min(row)", merged)
    sheet.parquet.unlink()
    whole = LaunchSheet(sheet.name, sheet.source, merged, columns, rows, sheet.warnings, xcds=int(highest) + 1)
    whole.measure(con)
    return whole


def _aggregate_sql(column: SheetColumn, identity: list[str]) -> str:
    name = sql_name(column.header)
    if name in identity:
        return name
    if column.role != "counter":
        return f"first({name} ORDER BY row)"
    return f"avg({name})" if column.header.endswith(_SHARES) else f"sum({name})"


def _channels(column: SheetColumn, xcc: str, highest: int) -> list[tuple[SheetColumn, str]]:
    counter, channel = column.instance
    return [
        (
            SheetColumn(f"{counter}[{channel + CHANNELS * x}]", "instance"),
            f"max({sql_name(column.header)}) FILTER ({xcc} = {x})",
        )
        for x in range(highest + 1)
    ]


def channels_per_xcd(facts: dict[str, float], arch: str | None, instances: list[int]) -> int:
    """Return the L2 channels of one XCD: as the profile states, else 16 on GPUs with several XCDs, else all of them."""
    channels, xcds = int(facts.get("total_l2_chan", 0)), int(facts.get("num_xcd", 0))
    if channels and xcds:
        return max(1, channels // xcds)
    if ((target := find_target(arch)) and target.chiplets) or max(instances, default=0) >= 2 * CHANNELS:
        return CHANNELS
    return max(CHANNELS, max(instances, default=0) + 1)
