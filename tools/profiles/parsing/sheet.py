"""Files with one row per launch, or per launch and XCD: the roles of their columns, and their conversion to a pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_name
from ....analysis.base.notes import Note
from ....analysis.store.store import write_table
from ..merging.contract import RESERVED, CounterColumns, PassTable, one_row
from ..merging.merge import CHANNELS
from ..merging.wording import note, refusal
from .module_data import module_data

if TYPE_CHECKING:
    import duckdb


_ROLE: dict[str, str] = {
    spelling.casefold(): role
    for role, spellings in module_data(__file__)["spellings"].items()
    for spelling in spellings
}
_COUNTER = re.compile(r"[A-Z][A-Za-z0-9]*_[A-Za-z0-9_]+(\[\d+\])?")
_PLAIN_COUNTER = re.compile(  # rocprof's derived metrics, whose names have no underscore
    r"Wavefronts|ALUStalledByLDS|LDSBankConflict|PartialWaveRate|Mem(Writes|Reads)32B"
    r"|[A-Z][A-Za-z0-9]*(Busy|Insts|Size|Hit|Stalled|Util|Utilization|Percent|Latency|Flops[A-Z0-9]*|PerCU|PerActiveCU)"
)
_INSTANCE = re.compile(r"(?P<counter>.+)\[(?P<instance>\d{1,4})\]")
_CLASH = re.compile(r"(?P<name>.+?)_\d+")
_NAME_LIMIT = 120
UNUSED = ("ignored", "unknown")


@dataclass(frozen=True)
class SheetColumn:
    """One column of a file: its header text and its role (``counter``, ``instance``, metadata, ``unknown``)."""

    header: str
    role: str

    @property
    def instance(self) -> tuple[str, int]:
        """Counter and channel number of a per-instance column such as ``TCC_HIT[3]``."""
        match = _INSTANCE.fullmatch(self.header)
        assert match is not None
        return match["counter"], int(match["instance"])


def classify(headers: list[str]) -> list[SheetColumn]:
    """Return the role of every header of one file, in order.

    Only metadata loses the ``_<n>`` that a join of passes appends (``obj_2``, ``Kernel_ID_3``), because
    ``SQC_DCACHE_REQ_READ_8`` and ``SQ_WAVES_LT_32`` are real counters. A second spelling of a
    role (``wgr`` in addition to ``WGR``) is ignored.
    """
    seen: set[str] = set()
    result = []
    for header in headers:
        role = role_of(header)
        if role in seen:
            role = "ignored"
        if role not in ("counter", "instance", *UNUSED):
            seen.add(role)
        result.append(SheetColumn(header, role))
    return result


def check_unique(source: str, columns: list[SheetColumn]) -> None:
    """Raise BadInput if two columns are the same counter (ignoring case, as in SQL) or the same launch data."""
    names = [c.header.casefold() for c in columns if c.role in ("counter", "instance")]
    names += [c.header for c in columns if role_of(c.header) not in ("counter", "instance", *UNUSED)]
    if twice := sorted(name for name, n in Counter(names).items() if n > 1):
        raise refusal("duplicate_columns", name=source, columns=twice)


def role_of(header: str) -> str:
    """Return the role of one header on its own."""
    if role := _ROLE.get(header.casefold()):
        return role
    clash = _CLASH.fullmatch(header)
    if clash and clash["name"].casefold() in _ROLE:
        return "ignored"
    if len(header) > _NAME_LIMIT or header.casefold() in RESERVED:
        return "unknown"
    if not (_COUNTER.fullmatch(header) or _PLAIN_COUNTER.fullmatch(header)):
        return "unknown"
    return "instance" if _INSTANCE.fullmatch(header) else "counter"


TEXT_ROLES = {"kernel", "run", "start", "end", "duration", "counter_name", "device_id", *UNUSED}
# A time such as 8.1097E+14 lost its digits in a spreadsheet; with 14 digits or more it is precise enough.
_ROUNDED = "'\\d(\\.\\d{0,12})?[eE]\\+?\\d+'"
_WHOLE = "'\\d+'"


@dataclass
class LaunchSheet:
    """One file as Parquet: the useful columns under their original headers, one row per launch, in file order."""

    name: str
    source: Path
    parquet: Path
    columns: list[SheetColumn] = field(default_factory=list)
    rows: int = 0
    warnings: list[Note] = field(default_factory=list)
    wide: CounterColumns = field(default_factory=CounterColumns)
    xcds: int = 1
    """Number of chiplets, if the file has one row per chiplet."""
    nulls: list[str] = field(default_factory=list)
    """Texts of cells without a value, in addition to the usual ones."""

    def __post_init__(self) -> None:
        self.wide.files = [self.parquet]

    def header(self, role: str) -> str | None:
        """Return the header with ``role``, quoted for SQL, or None."""
        return next((sql_name(c.header) for c in self.columns if c.role == role), None)

    def relation(self, names: Iterable[str]) -> str:
        """Return a FROM item with ``row``, from 0 in file order, and the columns quoted in ``names``."""
        return self.wide.relation(names)

    def headers_of(self, *roles: str) -> list[str]:
        """Return the quoted headers of those ``roles`` that the file has."""
        return [header for role in roles if (header := self.header(role))]

    @property
    def all(self) -> str:
        """FROM item with all useful columns."""
        return self.relation(sql_name(c.header) for c in self.columns if c.role not in UNUSED)

    def bounds(self, role: str) -> tuple[float, float] | None:
        """Return the minimum and maximum of the column with ``role``; None if it has no number."""
        header = next((c.header for c in self.columns if c.role == role), "")
        return self.wide.bounds.get(header)

    def counters(self) -> list[str]:
        """Return the plain counter columns, in file order."""
        return [c.header for c in self.columns if c.role == "counter"]

    def measure(self, con: duckdb.DuckDBPyConnection) -> None:
        """Record the bounds of every numeric column; infinities and NaN become NULL, with a warning."""
        numeric = {c.header for c in self.columns if c.role not in TEXT_ROLES}
        self.warnings += self.wide.measure(con, numeric, self.source, self.rows)

    def as_pass(self) -> PassTable:
        """Return the launches and the counters of the file as a pass."""
        roles = [*_LAUNCH_ROLES, "run", "device_id", "start", "end", "duration"]
        device = self.header("device_id")
        picks = [
            "row",
            f"{self._process()} AS process",
            *(f"{self.header(role) or 'NULL::DOUBLE'} AS {role}" for role in _LAUNCH_ROLES),
            (f"TRY_CAST(regexp_extract({device}, '(\\d+)', 1) AS INT)" if device else "NULL::INT") + " AS device_id",
            self._times(),
        ]
        return PassTable(
            self.name,
            self.source,
            self.rows,
            f"(SELECT {', '.join(picks)} FROM {self.relation(self.headers_of(*roles))})",
            frozenset({"run": "process"}.get(role, role) for role in roles if self.header(role)),
            self.counters(),
            {c.header: c.instance for c in self.columns if c.role == "instance"},
            self.wide,
            warnings=self.warnings,
        )

    def _process(self) -> str:
        """Return SQL for the number of a launch's process, in the order of first appearance in the file."""
        if (run := self.header("run")) is None:
            return "NULL::INT"
        first = f"SELECT {run} AS run, min(row) AS row FROM {self.relation([run])} GROUP BY 1"
        return f"CAST(list_position((SELECT list(run ORDER BY row) FROM ({first})), {run}) AS INT)"

    def _times(self) -> str:
        """Return SQL for start_ns, end_ns and duration_ns.

        Whole numbers are subtracted as integers, so that values above 2^53 are not rounded. Timestamps with a fraction
        are means over replays and stay floating point. Durations that are not positive, or that come from rounded
        times, become NULL. A duration that the file states has priority.
        """
        start, end, given = self.header("start"), self.header("end"), self.header("duration")
        known = f"TRY_CAST({given} AS DOUBLE)" if given else "NULL::DOUBLE"
        stated = f"CASE WHEN {known} > 0 AND isfinite({known}) THEN {known} END"
        if start is None or end is None:
            return f"NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns, {stated} AS duration_ns"
        whole = f"regexp_full_match({start}, {_WHOLE}) AND regexp_full_match({end}, {_WHOLE})"
        rounded = f"regexp_full_match({start}, {_ROUNDED}) OR regexp_full_match({end}, {_ROUNDED})"
        exact = f"CAST(TRY_CAST({end} AS BIGINT) - TRY_CAST({start} AS BIGINT) AS DOUBLE)"
        rough = f"TRY_CAST({end} AS DOUBLE) - TRY_CAST({start} AS DOUBLE)"
        span = f"CASE WHEN {whole} THEN {exact} WHEN {rounded} THEN NULL ELSE {rough} END"
        return (
            f"TRY_CAST({start} AS BIGINT) AS start_ns, TRY_CAST({end} AS BIGINT) AS end_ns, "
            f"coalesce({stated}, CASE WHEN {span} > 0 AND isfinite({span}) THEN {span} END) AS duration_ns"
        )


_LAUNCH_ROLES: list[str] = module_data(__file__)["launch_roles"]
"""Roles that are columns of launches without conversion."""


_MOST_XCDS = 64
_SHARES = tuple(module_data(__file__)["shares"])
"""Ends of the names of counters that are shares or means, not sums."""
_OF_DISPATCH = ("pid", "device_id", "dispatch_id", "kernel")


def merge_xcds(con: duckdb.DuckDBPyConnection, sheet: LaunchSheet) -> LaunchSheet:
    """Sum counters over the XCDs of a dispatch and average percentages; ``TCC_X[i]`` of XCD x becomes ``[i + 16 x]``.

    A file with one row per dispatch is returned unchanged. Adds a warning if some dispatches have rows for fewer XCDs.
    """
    xcc = sheet.header("xcc")
    identity = [h for role in _OF_DISPATCH if (h := sheet.header(role))]
    if xcc is None or sheet.header("dispatch_id") is None:
        return sheet
    keys = ", ".join(identity)
    most, fewest, highest = one_row(
        con,
        f"SELECT max(n), min(n), max(x) FROM (SELECT count(DISTINCT {xcc}) AS n, max({xcc}) AS x "
        f"FROM {sheet.relation([xcc, *identity])} GROUP BY {keys})",
    )
    if most <= 1:
        return sheet
    if fewest != most:
        sheet.warnings.append(note("xcds_missing", file=sheet.source, fewest=fewest, most=most))
    if highest >= _MOST_XCDS:
        raise refusal("too_many_xcds", file=sheet.source, highest=highest, most=_MOST_XCDS)
    columns, picks = [], []
    for column in sheet.columns:
        if column.role == "instance":
            counter, channel = column.instance
            parts = [
                (
                    SheetColumn(f"{counter}[{channel + CHANNELS * x}]", "instance"),
                    f"max({sql_name(column.header)}) FILTER ({xcc} = {x})",
                )
                for x in range(int(highest) + 1)
            ]
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
