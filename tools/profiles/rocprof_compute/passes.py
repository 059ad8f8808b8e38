"""Find the passes in a rocprof-compute folder, the names of their counters in the store, and the trace of operators."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.store.store import write_table
from ...base.profile_files import head, is_inside, plain_or_packed
from ...base.untrusted_text import bounded_name, visible_name
from ..merging.contract import Connection, PassTable, all_rows, count_rows, parquet
from ..merging.merge import ACCUMULATE
from ..merging.wording import note, refusal
from ..parsing.csv_file import long_pass, stage, stage_columns
from ..parsing.module_data import module_data
from ..parsing.sheet import LaunchSheet, merge_xcds
from ..reader import ProfileFiles

_LEVEL_FILE = re.compile(r"SQC?_\w*LEVEL\w*|SQC_\w+INFLIGHT_LEVEL")
_REPLAY_FILE = re.compile(r"pmc_perf_(\d+)")
_RESULT_FILE = re.compile(r"results_(?P<name>pmc_perf_(?P<number>\d+)|pmc_perf_(?P<level>\w*LEVEL\w*?)(_ACCUM)?)")
_SAMPLES = re.compile(r"(\d{1,10}_)?ps_file_results\.json")
"""Record of PC sampling; since 3.9 one for each process, with its pid."""
_OWN_FILE = re.compile(f"(results_)?pmc_perf(_\\w+)?|sysinfo|roofline|{_LEVEL_FILE.pattern}")
_MAIN = ("pmc_perf.csv", "pmc_perf.csv.gz")
_UNTIMED = "timestamps"
_CLOCK = "GRBM_GUI_ACTIVE"
_START = 1 << 20


def workload_folder(path: Path) -> Path | None:
    """Return the folder with the passes: ``path``, its parent, or its only suitable sub-folder; else None."""
    if path.is_file():
        stem = path.name.split(".")[0]
        return path.parent if _OWN_FILE.fullmatch(stem) and _holds_profile(path.parent) else None
    if not path.is_dir() or _holds_profile(path):
        return path if path.is_dir() else None
    below = [p for p in sorted(path.iterdir()) if p.is_dir() and is_inside(p, path) and _holds_profile(p)]
    if len(below) > 1:
        raise refusal("several_workloads", path=path, count=len(below), folders=below[:8])
    return below[0] if below else None


def _holds_profile(folder: Path) -> bool:
    return bool(replays(folder) or recordings(folder))


def replays(folder: Path) -> list[Path]:
    """Return the files of the replays: one per pass if not yet analysed, else the joined file, else older formats.

    In a folder that was analysed, a joined file with one row per value repeats the files of the passes, so these are
    read; an older joined file, with one row per launch, is read itself.
    """
    joined = _joined_file(folder)
    if joined and "Counter_Name" not in next(iter(_first_rows(joined)), []):
        return [joined]
    # Ordered by number, then those of level counters by name.
    parts = [(m, f) for f in folder.glob("results_pmc_perf_*.csv*") if (m := _RESULT_FILE.fullmatch(_stem(f)))]
    parts.sort(key=lambda pair: (pair[0]["level"] or "", int(pair[0]["number"] or 0)))
    if parts:
        return [file for _, file in parts]
    if joined:
        return [joined]
    matches = [(m, f) for f in folder.glob("pmc_perf_*.csv*") if (m := _REPLAY_FILE.fullmatch(_stem(f)))]
    return [f for _, f in sorted(matches, key=lambda pair: int(pair[0][1]))]


def recordings(folder: Path) -> list[Path]:
    """Return the rocprofv3 output in a rocprof-compute folder: databases that were kept, and records of PC sampling."""
    if not plain_or_packed(folder / "sysinfo.csv").is_file():
        return []
    databases = [*sorted(folder.glob("*.db")), *sorted(folder.glob("out/**/*.db"))]
    return [f for f in databases if f.is_file() and is_inside(f, folder)] + sample_records(folder)


def sample_records(folder: Path) -> list[Path]:
    """Return the records of PC sampling in the folder, one for each process."""
    files = [file for file in sorted(folder.glob("*ps_file_results.json")) if _SAMPLES.fullmatch(file.name)]
    return [file for file in files if file.is_file() and is_inside(file, folder)]


def files_of(folder: Path) -> tuple[list[Path], list[Note]]:
    """Return the replays, then level files and the run without counters; links out of the folder are skipped."""
    files = {}
    warnings: list[Note] = []
    for file in replays(folder):
        if not is_inside(file, folder):
            raise refusal("outer_link", file=file)
        files[_stem(file)] = file
    if all(_RESULT_FILE.fullmatch(stem) for stem in files):
        return list(files.values()), warnings
    for file in sorted(folder.rglob("*.csv*"), key=lambda f: (len(f.parts), f)):
        stem = _stem(file)
        if not (_LEVEL_FILE.fullmatch(stem) or stem == _UNTIMED):
            continue
        if not is_inside(file, folder):
            warnings.append(note("left_out.link_of_workload", file=file))
        elif stem in files:
            warnings.append(note("left_out.pass", place=str(file.relative_to(folder)), name=stem))
        else:
            files[stem] = file
    return list(files.values()), warnings


def read_passes(con: Connection, files: list[Path], work: Path) -> list[PassTable]:
    """Return the passes of all files; the first one provides the times."""
    tables = [table for file in files for table in _tables(con, file, work)]
    if all(_RESULT_FILE.fullmatch(_stem(f)) for f in files):
        return _main_first(files[0].parent, tables)
    if _REPLAY_FILE.fullmatch(_stem(files[0])) or len(tables) > len(files):
        return tables
    main, *others = tables
    # SQ_ACCUM_PREV_HIRES is the time integral of the file's level counter, and named after it as in rocpd.
    levels = (
        replace(
            t,
            instances={},
            names={c: f"{t.name}_ACCUM" if c == ACCUMULATE else f"{c}@{t.name}" for c in t.counters},
        )
        for t in others
    )
    return [replace(main, names={c: c for c in main.counters}), *levels]


def _joined_file(folder: Path) -> Path | None:
    """Return the file in which rocprof-compute joined the passes, if there is one."""
    return next((folder / name for name in _MAIN if (folder / name).exists()), None)


def _main_first(folder: Path, tables: list[PassTable]) -> list[PassTable]:
    """Put the pass whose times count first: the first one of the joined file, else the pass with the busy cycles.

    rocprof-compute uses the times of the pass that the file system lists first, which the joined file reveals.
    """
    joined = _joined_file(folder)
    first = session(joined) if joined else None
    main = next((t for t in tables if first and session(t.source) == first), None)
    main = main or next((t for t in tables if _CLOCK in t.counters), tables[0])
    return [main, *(t for t in tables if t is not main)]


def _tables(con: Connection, file: Path, work: Path) -> list[PassTable]:
    """Return the pass of a file; for a joined file with one row per value, one pass for each run in it."""
    match = _RESULT_FILE.fullmatch(_stem(file))
    sheet = stage(con, file, work, (match["level"] or match["name"]) if match else _stem(file))
    if not sheet.header("counter_name"):
        return [merge_xcds(con, sheet).as_pass()]
    parts = _by_counters(con, sheet) if _stem(file) == "pmc_perf" else [sheet]
    return [long_pass(con, part) for part in parts]


def _by_counters(con: Connection, sheet: LaunchSheet) -> list[LaunchSheet]:
    """Split the runs of the program in one file; runs with the same counters are processes of one run."""
    run, counter = sheet.header("run"), sheet.header("counter_name")
    if run is None or counter is None:
        return [sheet]
    rows = all_rows(
        con,
        f"SELECT list({run} ORDER BY row) FROM (SELECT {run}, min(row) AS row, "
        f"md5(string_agg(DISTINCT {counter}, ',' ORDER BY {counter})) AS counted FROM {sheet.all} GROUP BY {run}) "
        "GROUP BY counted ORDER BY min(row)",
    )
    if len(rows) == 1:
        return [sheet]
    parts = []
    for number, (runs,) in enumerate(rows):
        own = sheet.parquet.with_suffix(f".run_{number}.parquet")
        run_names = ", ".join(sql_literal(name) for name in runs)
        part = LaunchSheet(f"{sheet.name}_{number}", sheet.source, own, sheet.columns, nulls=sheet.nulls)
        part.rows = write_table(
            con, f"SELECT * EXCLUDE (row) FROM {sheet.all} WHERE {run} IN ({run_names}) ORDER BY row", own
        )
        part.measure(con)
        parts.append(part)
    parts[0].warnings[:0] = sheet.warnings
    sheet.parquet.unlink()
    return parts


def session(file: Path) -> str | None:
    """Return the GUID of the process in the first row of a file, or None."""
    header, *rows = _first_rows(file) or [[]]
    return rows[0][header.index("GUID")] if rows and "GUID" in header and len(rows[0]) == len(header) else None


def _first_rows(file: Path) -> list[list[str]]:
    """Return the header and the first row of a CSV file; fewer if the file is shorter."""
    lines = io.StringIO(head(file, _START).decode("utf-8-sig", errors="replace"))
    try:
        reader = csv.reader(lines)
        return [row for row, _ in zip(reader, range(2), strict=False)]
    except csv.Error:
        return []


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".csv")


_FILES = "ml_api_trace_*_marker_api_trace.csv"
_NEEDED = ("Function", "Correlation_Id", "GUID", "Start_Timestamp", "End_Timestamp", "Thread_Id", "Backend")
_LAUNCHES = ("Dispatch_ID", "Correlation_Id", "GUID")
_SQL = module_data(__file__)


@dataclass(frozen=True)
class OperatorRanges:
    """The ranges of operators, or only a note why they cannot be read; all are empty if the folder has no trace."""

    table: str = ""
    """SELECT with the columns of the table ranges."""
    of_launches: str = ""
    """SELECT with row and range_id of the launches of the main pass."""
    notes: Sequence[Note] = ()


def operator_ranges(files: ProfileFiles, folder: Path, main: PassTable) -> OperatorRanges:
    """Return the ranges in the folder's trace of operators, and the range of every launch.

    If there are several passes, the trace of the main pass counts, because its launches are those of the workload. An
    unreadable trace is skipped with a note.
    """
    traces = sorted(f for f in folder.glob(f"{_FILES}*") if is_inside(f, folder))
    if not traces:
        return OperatorRanges()
    run = session(main.source)
    file = next((f for f in traces if run and session(f) == run), traces[0])
    trace, launches, table = (files.work / f"operators_{what}.parquet" for what in ("trace", "launches", "ranges"))
    try:
        stage_columns(files.con, file, _NEEDED, trace)
        stage_columns(files.con, main.source, _LAUNCHES, launches)
    except BadInput as problem:
        return OperatorRanges(notes=[note("left_out.operators", problem=problem)])
    count = write_table(
        files.con, _SQL["ranges"].format(text=bounded_name(visible_name("Function")), trace=parquet([trace])), table
    )
    of_launches = _SQL["of_launches"].format(launches=main.launches, rows=parquet([launches]), table=parquet([table]))
    inside = count_rows(files.con, f"({of_launches}) WHERE range_id IS NOT NULL")
    return OperatorRanges(
        f"FROM {parquet([table])}",
        of_launches,
        [note("ranges.operators", count=count, inside=inside, launches=main.rows)],
    )
