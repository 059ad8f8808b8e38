"""Read kernel statistics (rocprof --stats, rocprofv3 --stats), which have one row per kernel and no dispatches."""

from __future__ import annotations

import re
from pathlib import Path

from ....analysis.base.database import sql_name
from ....analysis.base.notes import Note
from ....analysis.base.problems import Problem
from ....analysis.base.text import count_text
from ...base.profile_files import head, is_inside
from ...base.untrusted_text import plain_kernel_name, visible_name
from ..merging.contract import PassTable, one_row
from ..merging.wording import refusal
from ..parsing.csv_file import read_headers, stage
from ..parsing.module_data import module_data
from ..parsing.sheet import LaunchSheet, SheetColumn
from ..reader import Profile, ProfileFiles

_NEEDED = {"kernel", "calls", "total_ns"}
_FILES = (
    "results.stats.csv",
    "*.stats.csv",
    "*.stats.csv.gz",
)  # in a folder; rocprofv3 writes its statistics next to more detailed files
_NUMBER = re.compile(rb"[-+.\deE]+")
_LARGEST = 64 << 20
"""The most bytes of a file whose names are quoted; a file of statistics has a row per kernel."""
_API = (
    r"^(hip|hsa|roctx|rccl|nccl)[A-Z_]\w*$|^__hip\w+$|^Copy(Host|Device|Peer)\w*To\w+$|^FillBuffer\w*$|"
    r"^(HIP|HSA|MARKER|KERNEL|MEMORY|SCRATCH|RCCL)_[A-Z_]+$"
)


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file, or a folder with one."""
    return _file(path) is not None


def read(files: ProfileFiles) -> Profile:
    """Return the statistics at ``files.path`` as the table kernel_stats; the profile has no dispatches.

    Raises BadInput if the file contains API calls instead of kernels.
    """
    file = _file(files.path)
    if file is None:
        raise refusal("no_statistics", path=files.path)
    return read_files(files, [file])


def read_files(files: ProfileFiles, sources: list[Path]) -> Profile:
    """Return the statistics of one run, one file per process, as kernel_stats; calls and times are summed."""
    con = files.con
    parts = [
        stage(
            con,
            _quote_names(file, files.work / str(i)),
            files.work,
            f"kernel_stats_{i}" if i else "kernel_stats",
            _classify,
        )
        for i, file in enumerate(sources)
    ]
    # Rows of one kernel from several processes or spellings are summed.
    rows = " UNION ALL ".join(f"({_kernel_totals(sheet)})" for sheet in parts)
    con.execute(
        "CREATE OR REPLACE TABLE stats AS "
        "SELECT kernel, TRY_CAST(sum(calls) AS BIGINT) AS calls, TRY_CAST(sum(total_ns) AS BIGINT) AS total_ns, "
        "sum(total_ns) / nullif(sum(calls), 0) AS mean_ns, TRY_CAST(min(min_ns) AS BIGINT) AS min_ns, "
        "TRY_CAST(max(max_ns) AS BIGINT) AS max_ns, CASE WHEN count(*) = 1 THEN any_value(std_ns) END AS std_ns "
        f"FROM ({rows}) GROUP BY kernel"
    )
    kernels, calls, api = one_row(
        con, f"SELECT count(*), sum(calls), count(*) FILTER (regexp_matches(kernel, '{_API}')) FROM stats"
    )
    if api == kernels:
        raise refusal("not_kernels", file=sources[0])
    over = "" if calls is None else f" over {count_text(calls, 'call')}"
    note = (
        f"This profile contains totals of {count_text(kernels, 'kernel')}{over}, but no single "
        "dispatches and no counters: "
        "kernels can be ranked by time (table kernel_stats), but metrics, rooflines and diagnoses have no data."
    )
    stem = sources[0].name.removesuffix(".gz").removesuffix(".csv").removesuffix(".stats").removesuffix("_kernel_stats")
    return Profile(
        name=stem if stem not in ("results", "kernel_stats") else sources[0].parent.name,
        vendor="amd",
        tool="rocprofv3" if any(c.role == "std_ns" for c in parts[0].columns) else "rocprof",
        passes=[PassTable(s.name, file, warnings=s.warnings) for s, file in zip(parts, sources, strict=True)],
        tables={"kernel_stats": "FROM stats ORDER BY total_ns DESC NULLS LAST, kernel"},
        notes=[Note("totals", note)],
    )


def _quote_names(file: Path, folder: Path) -> Path:
    """Return a copy of a file in ``folder`` with its names quoted, or the file if no name needs it.

    rocprof of ROCm 3 and 4 writes names with commas as they are, and numbers after them.
    """
    content = head(file, _LARGEST)
    rows = content.splitlines()
    numbers = rows[0].count(b",") if rows else 0
    quoted = [_quote_name(row, numbers) if row.count(b",") > numbers else row for row in rows]
    if quoted == rows or len(content) == _LARGEST:
        return file
    folder.mkdir()
    copy = folder / file.name.removesuffix(".gz")
    copy.write_bytes(b"\n".join([*quoted, b""]))
    return copy


def _quote_name(row: bytes, count: int) -> bytes:
    name, *numbers = row.rsplit(b",", count)
    if name.startswith(b'"') or not all(_NUMBER.fullmatch(number) for number in numbers):
        return row
    return b",".join([b'"%b"' % name.replace(b'"', b'""'), *numbers])


def _kernel_totals(sheet: LaunchSheet) -> str:
    have = {c.role: sql_name(c.header) for c in sheet.columns}
    picks = ", ".join(
        f"{have.get(role, 'NULL::DOUBLE')} AS {role}" for role in ("calls", "total_ns", "min_ns", "max_ns", "std_ns")
    )
    return f"SELECT {plain_kernel_name(visible_name(have['kernel']))} AS kernel, {picks} FROM {sheet.all}"


def _classify(headers: list[str]) -> list[SheetColumn]:
    roles = module_data(__file__)["roles"]
    return [SheetColumn(h, roles.get(h.casefold(), "unknown")) for h in headers]


def _file(path: Path) -> Path | None:
    if path.is_file():
        return path if _holds_statistics(path) else None
    if not path.is_dir():
        return None
    files = [f for pattern in _FILES for f in sorted(path.glob(pattern)) if f.is_file() and is_inside(f, path)]
    return next((f for f in files if _holds_statistics(f)), None)


def _holds_statistics(file: Path) -> bool:
    try:
        return {c.role for c in _classify(read_headers(file))} >= _NEEDED
    except Problem:
        return False
