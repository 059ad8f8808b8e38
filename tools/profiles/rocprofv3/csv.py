"""CSV files of all versions of rocprofv3: kernel_trace.csv and counter_collection.csv (a row per counter value)."""

from __future__ import annotations

import re
from functools import partial
from io import BufferedReader
from pathlib import Path

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ...base.profile_files import open_text
from ..merging.contract import Connection, all_rows, parquet, row_of
from ..merging.ranks import sql_value
from ..merging.wording import note, refusal
from ..parsing.csv_file import stage, stage_columns
from ..parsing.sheet import LaunchSheet, SheetColumn
from .agents import read_agents
from .layouts import CSV, layout_sql
from .outputs import ACTIVITY_KINDS, SAMPLE_KINDS, Output, place_of
from .pc_samples import csv_samples
from .recording import ACTIVITY, SPAN, ProcessRecording, describe_recordings, stage_launches

_IGNORED = "ignored"
_BLOCK = 1 << 20
_SIZES = ("grid", "workgroup")
_PLAIN = CSV["lists"]["plain"]


def read_csv(con: Connection, output: Output, work: Path) -> tuple[list[ProcessRecording], list[Note]]:
    """Return the recordings in the CSV files of one output, one for every process.

    Launches come from the trace and, joined by process and dispatch, from the counters.
    """
    sheets = {
        kind: _stage(con, file, kind, work.with_name(f"{work.name}_{kind}"))
        for kind in ("trace", "counters")
        if (file := output.files.get(kind))
    }
    pid = _pid_of_name(con, output.stem, list(sheets.values()))
    launches, values = (work.with_name(f"{work.name}_{name}.parquet") for name in ("launches", "values"))
    processes = [(pid, 0, -1, 0)]
    counted = {values: _values(sheets["counters"], pid)} if "counters" in sheets else {}
    if sheets:
        parts = (f"({_launches(sheet, kind, pid)})" for kind, sheet in sheets.items())
        rows = layout_sql("merged_launches", rows=" UNION ALL BY NAME ".join(parts))
        processes, _ = stage_launches(
            con, rows, order="pid, dispatch_id, row", owner="pid", launches=launches, more=counted
        )
    for sheet in sheets.values():
        sheet.parquet.unlink()
    agents = read_agents(output.files["agents"]) if "agents" in output.files else []
    kinds = [*reversed(sheets), *ACTIVITY_KINDS, *SAMPLE_KINDS]
    source = next(output.files[kind] for kind in kinds if kind in output.files)
    # Before ROCm 7.0, a trace has static plus dynamic LDS of the launch.
    lds = (sheets["trace"].header("lds_bytes") or "") if "trace" in sheets else ""
    of_launch, host = "group_segment_size" in lds.casefold(), output.folder.name
    # The host is known in the default layout DIR/HOST/PID_kernel_trace.csv.
    is_host = re.fullmatch(r"\d+", output.stem) and not host.isdigit() and output.steps[-1:] != (host,)
    recordings = []
    for number, low, high, rows_of_process in processes:
        item = ProcessRecording(
            source, "csv", output.label, output.above, launches, (low, high), rows_of_process, list(counted),
            pid=number, agents=agents, lds_is_static=not of_launch,
        )  # fmt: skip
        item.set_place(place_of(output, host if is_host else None, number))
        recordings.append(item)
    if sheets:
        describe_recordings(con, recordings)
    warnings = [warning for sheet in sheets.values() for warning in sheet.warnings]
    if len(recordings) == 1:
        recordings[0].sampled = csv_samples(con, output, work)
    return recordings, warnings + _add_activity(con, output, recordings, pid, work)


def _add_activity(
    con: Connection, output: Output, recordings: list[ProcessRecording], pid: int | None, work: Path
) -> list[Note]:
    """Set the SQL for ranges, calls, copies and allocations of each process; a damaged file is skipped."""
    notes = []
    selects: dict[str, list[str]] = {}
    gpus = [a.numbers[0] for a in recordings[0].agents]
    for kind, stated in CSV["activity"].items():
        if (file := output.files.get(kind)) is None:
            continue
        what, columns = stated["of"], {name: sql for name, sql in stated.items() if name not in ("of", "where")}
        staged = work.with_name(f"{work.name}_of_{kind}.parquet")
        wanted = [c for c in dict.fromkeys([*CSV["span"], *columns.values()]) if c != "'rccl'"]
        optional = [] if what == "ranges" else [c for c in CSV["lists"]["optional"] if c in wanted]
        try:
            stage_columns(con, file, [c for c in wanted if c not in optional], staged, optional)
        except BadInput as problem:
            notes.append(note("left_out.one", problem=problem))
            continue
        own = {name: header for header, name in CSV["span"].items()} | columns
        own["pid"] = f"coalesce(TRY_CAST(Process_Id AS BIGINT), {sql_value(pid)})"
        for side in ("source", "target", "device"):
            if side in own:
                own[side] = _gpu(own[side], gpus)
        picks = row_of((ACTIVITY | {"ranges": SPAN})[what], own, "TRY_CAST")
        where = stated.get("where", "true")
        selects.setdefault(what, []).append(f"SELECT {picks} FROM {parquet([staged])} WHERE {where}")
    for item in recordings:
        own_process = "" if len(recordings) == 1 or item.pid is None else f" WHERE pid = {item.pid}"
        item.activity = {what: f"SELECT * FROM ({' UNION ALL '.join(s)}){own_process}" for what, s in selects.items()}
        item.ranges = item.activity.pop("ranges", "")
    return notes


def _gpu(header: str, gpus: list[int | None]) -> str:
    """Return SQL for the number of an agent such as "Agent 1" if it is a GPU; NULL for the host."""
    number = f"TRY_CAST(regexp_extract({header}, '(\\d+)', 1) AS BIGINT)"
    gpu_numbers = ", ".join(str(g) for g in gpus if g is not None)
    return f"CASE WHEN {number} IN ({gpu_numbers}) THEN {number} END" if gpu_numbers else f"nullif({number}, 0)"


def classify(headers: list[str], *, traced: bool = True) -> list[SheetColumn]:
    """Return the role of every header of a rocprofv3 file; none of its columns is a counter."""
    seen = set()
    columns = []
    roles = CSV["roles"] | (CSV["trace_roles"] if traced else {})
    for header in headers:
        role = roles.get(header.casefold(), _IGNORED)
        columns.append(SheetColumn(header, _IGNORED if role in seen else role))
        seen.add(role)
    return columns


def _stage(con: Connection, file: Path, kind: str, work: Path) -> LaunchSheet:
    sheet = stage(con, file, work.parent, work.name, partial(classify, traced=kind == "trace"))
    if not sheet.header("dispatch_id") and (kind == "counters" or not sheet.header("start")):
        raise refusal("no_dispatch_id", file=file)
    return sheet


def warn_of_cut_files(output: Output) -> list[Note]:
    """Warn about files without a final line break, which may be truncated in the middle of a number."""
    warnings = []
    for file in (output.files[kind] for kind in ("trace", "counters") if kind in output.files):
        last = b"\n"
        with open_text(file) as handle:
            if isinstance(handle, BufferedReader) and handle.seek(0, 2):
                handle.seek(-1, 2)
            while block := handle.read(_BLOCK):
                last = block[-1:]
        if last not in b"\r\n":
            warnings.append(note("cut", file=file))
    return warnings


def _pid_of_name(con: Connection, stem: str, sheets: list[LaunchSheet]) -> int | None:
    """Return the process that wrote files without a process id (the trace).

    It is the process of the counters, else a number in the file name, preferably one that is also a thread id.
    """
    for sheet in sheets:
        low, high = sheet.bounds("pid") or (0, 1)
        if low == high:
            return int(low)
    numbers = [int(n) for n in re.findall(r"(?<![A-Za-z\d])\d{1,10}(?![A-Za-z\d])", stem)]
    for sheet in sheets:
        if (thread := sheet.header("thread")) and len(numbers) > 1:
            ids = all_rows(con, f"SELECT DISTINCT {thread} FROM {sheet.relation([thread])} LIMIT 10000")
            known = {int(i) for (i,) in ids if i is not None}
            numbers = [n for n in numbers if n in known] or numbers
    return numbers[-1] if numbers else None


def _launches(sheet: LaunchSheet, kind: str, pid: int | None) -> str:
    """Return SQL for one row per launch in the columns of LAUNCH; counter files repeat a launch in every row."""
    picks = [f"{_identity(sheet, pid)}", f"{'0' if kind == 'trace' else '1'} AS origin"]
    for size, column in zip(_SIZES, ("grid", "workgroup_size"), strict=True):
        parts = [h for axis in "xyz" if (h := sheet.header(f"{size}_{axis}"))]
        picks.append(f"{' * '.join(parts) if len(parts) == 3 else sheet.header(column) or 'NULL'} AS {column}")
    picks += [f"{sheet.header(c) or 'NULL'} AS {c}" for c in _PLAIN]
    picks += [f"TRY_CAST({sheet.header(role) or 'NULL'} AS BIGINT) AS {role}_ns" for role in ("start", "end")]
    select = f"SELECT row, {', '.join(picks)} FROM {sheet.all}"
    if kind == "trace":
        return select
    other_columns = ", ".join(f"any_value({c}) AS {c}" for c in (*_PLAIN, "start_ns", "end_ns"))
    keys = "pid, dispatch_id, device, kernel, origin, grid, workgroup_size"
    return f"SELECT min(row) AS row, {keys}, {other_columns} FROM ({select}) GROUP BY {keys}"


def _values(sheet: LaunchSheet, pid: int | None) -> str:
    """Return SQL for counter values by key of the launch; the first of several identical launches gets them."""
    name, value = sheet.header("counter_name"), sheet.header("counter_value")
    if name is None or value is None:
        raise refusal("no_counter_columns", file=sheet.source)
    rows = f"SELECT row, {_identity(sheet, pid)}, {name} AS counter, {value} AS value FROM {sheet.all}"
    return layout_sql("counter_values", rows=rows)


def _identity(sheet: LaunchSheet, pid: int | None) -> str:
    """Return SQL for the columns that identify a launch; the trace states the process only in its file name."""
    process = sheet.header("pid") or (str(pid) if pid is not None else "NULL")
    # The trace of ROCm 6.2 does not number launches, so the start determines the order.
    by_start = f"row_number() OVER (ORDER BY TRY_CAST({sheet.header('start')} AS BIGINT), row)"
    number = sheet.header("dispatch_id") or by_start
    device = f"TRY_CAST(regexp_extract({sheet.header('device_id')}, '(\\d+)', 1) AS INT)"
    return (
        f"TRY_CAST({process} AS BIGINT) AS pid, TRY_CAST({number} AS BIGINT) AS dispatch_id, "
        f"{device if sheet.header('device_id') else 'NULL::INT'} AS device, {sheet.header('kernel')} AS kernel"
    )
