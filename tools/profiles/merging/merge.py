"""Merge the passes of one program into the tables of a workload, with one wide row of counters per launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ....analysis.base.database import sql_literal, sql_name
from ....analysis.base.notes import Note
from ....analysis.catalogue.targets import find_target
from ....analysis.store.schema import number_configurations
from ....analysis.store.store import write_table
from ...base.profile_files import WORK
from ..host.recording import HostRecording
from ..parsing.module_data import module_data
from .contract import Connection, PassTable, count_rows, one_row, parquet
from .matching import LaunchMatching, match
from .ranks import ProcessPlace, sql_place
from .wording import note

ACCUMULATE = "SQ_ACCUM_PREV_HIRES"
_LAUNCH: dict[str, str] = module_data(__file__, "contract.toml")["dispatches"]
"""Column of the table dispatches -> SQL type."""
_LENDABLE = ("vgpr", "agpr", "sgpr", "cluster")
"""Columns that are taken from another pass if the main pass does not state them."""
_LARGEST = {"INT": 2**31 - 1, "BIGINT": 2**63 - 1}


@dataclass(frozen=True)
class MergedPass:
    """One pass in a workload: the names of its counters there, and how many of its launches were matched."""

    table: PassTable
    counters: dict[str, str]
    """Counter in the file -> column in the store (``NAME``, or ``NAME@PASS`` if another pass has it too)."""
    matched: int = 0

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def unmatched_launches(self) -> int:
        return self.table.rows - self.matched

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Minimum and maximum of its counters, as named in the file."""
        return self.table.wide.bounds


@dataclass(frozen=True)
class StoredProfile:
    """Summary of what was written: row counts, the counter columns of the wide table, warnings and notes."""

    dispatches: int
    kernels: int
    counters: list[str]
    passes: list[MergedPass]
    warnings: list[Note]
    notes: list[Note] = field(default_factory=list)
    sampled: bool = False
    """Whether only some launches of each launch configuration were counted, which represent the others."""
    events: int = 0
    """Rows of the table events."""
    samples: int = 0
    """Number of program counter samples, the sum over the table samples."""
    places: Sequence[ProcessPlace] = ()
    """The place of each process that launched or did anything; empty if the reader does not distinguish processes."""
    world_size: int | None = None
    """Number of ranks of the program, if the profile states it."""
    multiplexed: str | None = None
    """How groups of counters took turns between launches; None if they did not."""
    stacks: HostRecording | None = None
    """The stacks of the host, if they were recorded."""
    unix_shift: int | None = None
    """The clock of its times minus Unix time in ns, if it states both."""


def name_counters(tables: Sequence[PassTable]) -> list[MergedPass]:
    """Name the counters of all passes: the first pass with a counter keeps its name, later ones get ``NAME@PASS``."""
    used_names = set()
    passes = []
    for table in tables:
        counters = dict(table.names)
        for position, counter in enumerate(() if counters else table.counters):
            name = _integral_name(table, position) or counter
            counters[counter] = f"{name}@{table.name}" if name.casefold() in used_names else name
            used_names.add(name.casefold())
        passes.append(MergedPass(table, counters))
    return passes


def _integral_name(table: PassTable, position: int) -> str | None:
    """Return the store's name of SQ_ACCUM_PREV_HIRES, the time integral of a level counter: ``<LEVEL>_ACCUM``.

    rocpd uses the same name. The level is the name of the file, else the counter in the column before, which is how the
    hardware pairs them. None if neither is a level, or if the counter is another one.
    """
    if table.counters[position] != ACCUMULATE:
        return None
    before = table.name if "LEVEL" in table.name else table.counters[position - 1] if position else ""
    return f"{before}_ACCUM" if "LEVEL" in before else None


def write_launches(
    con: Connection, tables: Sequence[PassTable], folder: Path, *, instances_per_xcd: int
) -> StoredProfile:
    """Write the tables passes, dispatches, counters and counter_instances of one workload into ``folder``.

    The first pass is the main one, and its dispatches become those of the workload. Rows of the other passes are
    matched by (device, kernel, grid, ordinal); the number of matches is recorded in each pass and in the warnings.
    """
    prepared = [table.prepare(con, folder / WORK) for table in tables]
    matching = match(con, prepared)
    passes = [replace(p, matched=n) for p, n in zip(name_counters(prepared), matching.matched, strict=True)]
    warnings = [*(w for p in passes for w in p.table.warnings), *matching.warnings]
    for name, kind in _LAUNCH.items():
        low, high = prepared[0].sizes.get(name, (0, 0))
        if low < 0 or high > _LARGEST[kind]:
            warnings.append(note("impossible_size", file=prepared[0].source, name=name, low=low, high=high))
    write_table(con, _dispatches(passes, matching), folder / "dispatches.parquet")
    no_time, total, kernels = one_row(
        con,
        f"SELECT count(*) FILTER (duration_ns IS NULL), count(*), count(DISTINCT kernel_id) FROM {matching.keys[0]}",
    )
    if no_time:
        warnings.append(note("no_timing", no_time=no_time, total=total))
    columns = _write_counters(con, passes, matching, folder)
    _write_instances(con, passes, matching, folder, instances_per_xcd)
    write_passes(con, passes, folder)
    for file in {file for p in passes for file in p.table.wide.files}:
        file.unlink(missing_ok=True)
    return StoredProfile(total, kernels, columns, passes, warnings, matching.notes, matching.sampled)


CHANNELS = 16
"""L2 channels of one XCD, on every GPU that has several."""


def channels_per_xcd(facts: Mapping[str, float], arch: str | None, instances: list[int]) -> int:
    """Return the L2 channels of one XCD: as the profile states, else 16 on GPUs with several XCDs, else all of them."""
    channels, xcds = int(facts.get("total_l2_chan", 0)), int(facts.get("num_xcd", 0))
    if channels and xcds:
        return max(1, channels // xcds)
    if ((target := find_target(arch)) and target.chiplets) or max(instances, default=0) >= 2 * CHANNELS:
        return CHANNELS
    return max(CHANNELS, max(instances, default=0) + 1)


def write_passes(con: Connection, passes: Sequence[MergedPass], folder: Path) -> None:
    """Write the table passes."""
    con.execute(
        "CREATE OR REPLACE TABLE pass_rows (pass_id INT, name VARCHAR, tool VARCHAR, source VARCHAR, dispatches INT, "
        "matched INT, unmatched INT, counters VARCHAR)"
    )
    con.executemany(
        "INSERT INTO pass_rows VALUES (?, ?, NULL, ?, ?, ?, ?, ?)",
        [
            [
                i,
                p.name,
                p.table.source.name,
                p.table.rows,
                p.matched,
                p.unmatched_launches,
                ",".join(p.counters.values()),
            ]
            for i, p in enumerate(passes)
        ],
    )
    write_table(con, "FROM pass_rows", folder / "passes.parquet")


def _write_counters(con: Connection, passes: Sequence[MergedPass], matching: LaunchMatching, folder: Path) -> list[str]:
    """Write counters.parquet in the order of the main pass, and return its counter columns.

    A hash join would keep the columns of every pass in memory or spill them. Files whose rows are in the same order are
    joined by position instead, which streams. Passes in another order are sorted first, one at a time.
    """
    identity = folder / WORK / "identity.parquet"
    where, placed = _place_columns(matching.places)
    others = list(enumerate(matching.pairs))[1:]
    times = "".join(f", p{i}.duration_ns AS t{i}" for i, _ in others)
    joins = "".join(f" LEFT JOIN {pairs} p{i} ON p{i}.main_row = k.row" for i, pairs in others)
    write_table(
        con,
        f"SELECT k.dispatch_id, n.kernel, k.duration_ns{times}{where} FROM {matching.keys[0]} k "
        f"JOIN {matching.names} n USING (name_id){joins}{placed} ORDER BY k.row",
        identity,
    )
    sources = {"k": [identity]}
    columns, picks = [], ["k.dispatch_id", "k.kernel", "k.duration_ns"]
    picks += [f"k.{c}" for c in ("rank", "host") if f" AS {c}" in where]
    for index, item in enumerate(passes):
        for read, name in item.counters.items():
            picks.append(f"{item.table.wide.cell(sql_name(read), f'p{index}.')} AS {sql_name(name)}")
        columns += list(item.counters.values())
        if index:
            picks.append(f"k.t{index} AS {sql_name(f'duration_ns@{item.name}')}")
        if item.counters:
            aligned = folder / WORK / f"aligned_{index}.parquet"
            sources[f"p{index}"] = (
                _align_counters(con, passes, matching, index, aligned) if index else item.table.wide.files
            )
    side_by_side = " POSITIONAL JOIN ".join(f"{parquet(files)} {alias}" for alias, files in sources.items())
    write_table(con, f"SELECT {', '.join(picks)} FROM {side_by_side}", folder / "counters.parquet")
    return columns


def _place_columns(places: Mapping[int, ProcessPlace]) -> tuple[str, str]:
    """Return SQL for the columns rank and host, if any is known, and the join that provides them."""
    if not (any(p.rank is not None for p in places.values()) or len(places) > 1):
        return "", ""
    known = {"rank": "INT", "host": "VARCHAR"}
    columns = [c for c in known if any(getattr(p, c) is not None for p in places.values())]
    if not columns:
        return "", ""
    rows = ", ".join(f"({number}, {sql_place(place)})" for number, place in places.items())
    picks = "".join(f", stood.{c}::{known[c]} AS {c}" for c in columns)
    return picks, f" LEFT JOIN (VALUES {rows}) stood(process, rank, host, pid) ON stood.process = k.process"


def _align_counters(
    con: Connection, passes: Sequence[MergedPass], matching: LaunchMatching, index: int, path: Path
) -> list[Path]:
    """Return the counters of a pass with one row per dispatch of the main pass, in its order."""
    item, pairs = passes[index], matching.pairs[index]
    moved = count_rows(con, f"{pairs} WHERE main_row != row")
    if not moved and item.matched == item.table.rows == passes[0].table.rows:
        return item.table.wide.files
    names = [sql_name(c) for c in item.counters]
    write_table(
        con,
        f"SELECT {', '.join(names)} FROM {matching.keys[0]} k LEFT JOIN {pairs} p ON p.main_row = k.row "
        f"LEFT JOIN {item.table.wide.relation(names)} s ON s.row = p.row ORDER BY k.row",
        path,
    )
    return [path]


def _dispatches(passes: Sequence[MergedPass], matching: LaunchMatching) -> str:
    """Return SQL for the launches of the main pass, with missing registers (a trace before ROCm 7.0) from another pass.

    If that pass has only some launches, their values apply to all launches of the same kernel and size.
    """
    picks, joins = [], ""
    for name, kind in _LAUNCH.items():
        # The first pass that has values, if it is not the main one.
        has_values = [name in p.table.sizes for p in passes]
        lender = has_values.index(True) if name in _LENDABLE and True in has_values else 0
        value = f"launch.{name}"
        if lender:
            rows = f"{passes[lender].table.launches} JOIN {matching.pairs[lender]} USING (row)"
            lent = f"(SELECT main_row, {name} FROM {rows}) {name}_lent"
            joins += f" LEFT JOIN {lent} ON {name}_lent.main_row = launch.row"
            value = f"{name}_lent.{name}"
            value = (
                f"coalesce({value}, max({value}) OVER (PARTITION BY launch.kernel, launch.grid, launch.workgroup_size))"
            )
        picks.append(f"TRY_CAST({value} AS {kind}) AS {name}")
    rows = f"SELECT row, {', '.join(picks)} FROM {passes[0].table.launches} launch{joins}"
    where, placed = _place_columns(matching.places)
    launches = (
        "SELECT row, k.dispatch_id, n.kernel, n.raw AS kernel_raw, k.device_id, "
        f"launch.* EXCLUDE (row), k.ordinal, k.start_ns, k.end_ns, k.duration_ns{where} "
        f"FROM ({rows}) launch JOIN {matching.keys[0]} k USING (row) JOIN {matching.names} n USING (name_id){placed}"
    )
    numbered = f"({number_configurations(launches)})"
    if more := passes[0].table.more_columns:
        numbered += f" LEFT JOIN ({more}) USING (row)"
    return f"SELECT * EXCLUDE (row) FROM {numbered} ORDER BY row"


def _write_instances(
    con: Connection, passes: Sequence[MergedPass], matching: LaunchMatching, folder: Path, per_xcd: int
) -> None:
    """Write per-instance values as rows; ``instance`` counts within its XCD. The first pass with a value counts."""
    selects, seen = [], set()
    for item, pairs in zip(passes, matching.pairs, strict=True):
        new = {h: n for h, n in item.table.instances.items() if n not in seen}
        seen |= set(new.values())
        if not new:
            continue
        names = ", ".join(f"({sql_literal(h)}, {sql_literal(c)}, {n})" for h, (c, n) in new.items())
        wanted = [sql_name(h) for h in new]
        rows = item.table.wide.relation(wanted)
        if pairs:
            matched = f"{rows} JOIN {pairs} USING (row)"
            rows = f"(SELECT * EXCLUDE (row, main_row, duration_ns), main_row AS row FROM {matched})"
        selects.append(
            f"SELECT dispatch_id, n.counter, n.n, value "
            f"FROM (UNPIVOT {rows} ON {', '.join(wanted)} INTO NAME header VALUE value) "
            f"JOIN (VALUES {names}) n(header, counter, n) USING (header) JOIN {matching.keys[0]} USING (row)"
        )
    if selects:
        place = f"CAST(n // {per_xcd} AS SMALLINT) AS xcd, CAST(n % {per_xcd} AS SMALLINT) AS instance"
        select = f"SELECT dispatch_id, counter, {place}, value FROM ({' UNION ALL '.join(selects)})"
        write_table(con, f"{select} ORDER BY counter, dispatch_id, n", folder / "counter_instances.parquet")
