"""Read the output of Nsight Compute: pages and reports, as launches with metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ....analysis.base.database import column_names, sql_name
from ....analysis.base.notes import Note
from ....analysis.base.problems import MissingTool
from ....analysis.store.store import write_table
from ...base.profile_files import files_of_format, grouped, step_of
from ...base.untrusted_text import plain_text
from ..cupti import read as recordings
from ..cupti.records import TIMING
from ..merging.contract import Connection, PassTable, all_rows, count_rows, one_row, parquet
from ..merging.matching import read_counting_sample
from ..merging.wording import note, refusal
from ..parsing.module_data import module_data
from ..parsing.sheet import LaunchSheet, SheetColumn
from ..reader import Profile, ProfileFiles
from ..samples.sample_tables import HotspotQueries
from . import code
from .launches import DEVICE, stage
from .pages import has_page, is_details_page, read_pages
from .report import is_report, read_report, version_of

_SUFFIXES = (".ncu-rep", ".ncu-rep.gz", ".csv", ".csv.gz", ".txt", ".log", ".out")
_SAME = 0.9
_EXACT = 1e-5
"""Allowed relative difference of one duration between a report and its raw page, which has six decimals."""


@dataclass
class NcuTable:
    """The launches of one file, from one page."""

    file: Path
    is_report: bool
    """Whether they are from a report, which is more precise than its pages."""
    sheet: LaunchSheet
    notes: list[Note]
    code: Path | None = None
    """File with the per-instruction data of its launches, if the report has it."""
    text: Path | None = None
    """File with the source text that the report contains."""

    @property
    def folder(self) -> Path:
        return self.file.parent

    def counters(self) -> set[str]:
        return set(self.sheet.counters())


def files_of(path: Path) -> list[Path]:
    """Return the files of ncu at ``path``: itself, or those in the folder and one level below, timing run first."""
    return files_of_format(path, _SUFFIXES, lambda file: is_report(file) or has_page(file) or code.is_source_page(file))


def read_tables(con: Connection, files: list[Path], work: Path) -> tuple[list[NcuTable], list[Note]]:
    """Return the tables of ``files``, without those that repeat the launches of another one, and notes."""
    tables: list[NcuTable] = []
    notes = []
    missing = None
    for file in sorted(files, key=lambda f: not is_report(f)):
        try:
            tables += _tables(con, file, work, len(tables))
        except MissingTool as problem:  # the same launches may exist as CSV
            missing = problem
            notes.append(Note("missing_tool", problem.text))
    if missing and not tables:
        raise missing
    distinct_tables: list[NcuTable] = []
    for table in sorted(tables, key=lambda t: (not t.is_report, -len(t.counters()))):
        twin = next((k for k in distinct_tables if k.folder == table.folder and _shows(con, k, table)), None)
        if twin:
            notes.append(note("shown_again.page", file=table.file, other=twin.file))
        else:
            distinct_tables.append(table)
    return sorted(distinct_tables, key=lambda t: files.index(t.file)), notes


def as_passes(con: Connection, tables: list[NcuTable], work: Path) -> list[LaunchSheet]:
    """Return one sheet per pass: tables of one step's folder, or with the same metrics, are processes of one pass."""
    names = set()
    passes = []
    for number, group in enumerate(grouped(tables, _same_pass)):
        sheet = group[0].sheet if len(group) == 1 else _unite_sheets(con, group, work / f"pass_{number}.parquet")
        first = group[0].file
        name = step_of(first) or first.name.split(".")[0]
        sheet.name = name if name not in names else f"{name}_{number}"
        names.add(sheet.name)
        passes.append(sheet)
    return passes


def version(files: list[Path]) -> str | None:
    """Return the version of ncu, if a report states it."""
    return next((v for f in files if is_report(f) and (v := version_of(f))), None)


def _tables(con: Connection, file: Path, work: Path, start: int) -> list[NcuTable]:
    report = is_report(file)
    listing = text = None
    if report:
        # The timing run, which a sample has to match, uses mangled kernel names.
        mangled = read_counting_sample(file) is not None
        page, listing, text = read_report(file, work, f"ncu_{start}", mangled=mangled)
        pages = [page]
    else:
        pages = read_pages(file, work, f"ncu_{start}")
    tables = []
    for number, page in enumerate(pages, start):
        sheet, notes = stage(con, page, work, f"ncu_{number}")
        page.body.unlink()
        tables.append(NcuTable(file, report, sheet, notes, listing, text))
    return tables


def _same_pass(one: NcuTable, other: NcuTable) -> bool:
    if step_of(one.file) or step_of(other.file):
        return one.folder == other.folder
    mine, theirs = one.counters(), other.counters()
    return len(mine & theirs) >= _SAME * len(mine | theirs)


def _shows(con: Connection, one: NcuTable, other: NcuTable) -> bool:
    """Return whether ``one`` contains all of ``other``: the same launches with at least its metrics.

    In different views, launches are the same if kernels and durations agree one by one, and pids if they are known.
    In the same kind of view, all values must be equal, because ranks of one program may well take the same times.
    """
    if one.sheet.rows != other.sheet.rows or not other.counters() <= one.counters():
        return False
    if one.is_report == other.is_report:
        shared = [sql_name(c.header) for c in other.sheet.columns if c in one.sheet.columns]
        a, b = (f"FROM {t.sheet.relation(shared)}" for t in (one, other))
        return con.execute(f"({b} EXCEPT {a}) LIMIT 1").fetchone() is None
    if not _both_have(one, other, "duration"):
        return False
    keys = ['"ncu kernel"', '"ncu duration"', *(['"ncu pid"'] if _both_have(one, other, "pid") else [])]
    a, b = (f"SELECT {', '.join(keys)}, row FROM {t.sheet.relation(keys)}" for t in (one, other))
    same = (
        f'a."ncu kernel" = b."ncu kernel" AND abs(a."ncu duration" - b."ncu duration") <= {_EXACT} * a."ncu duration"'
    )
    if '"ncu pid"' in keys:
        same += ' AND coalesce(a."ncu pid" = b."ncu pid", true)'
    return count_rows(con, f"({a}) a JOIN ({b}) b USING (row) WHERE {same}") == one.sheet.rows


def _both_have(one: NcuTable, other: NcuTable, role: str) -> bool:
    return bool(one.sheet.header(role) and other.sheet.header(role))


def _unite_sheets(con: Connection, group: list[NcuTable], path: Path) -> LaunchSheet:
    """Concatenate the launches of several processes or ranks."""
    reads = [f"SELECT * FROM {parquet([t.sheet.parquet])}" for t in group]
    columns: dict[str, SheetColumn] = {}
    for table in group:
        columns |= {c.header: c for c in table.sheet.columns if c.header not in columns}
    first = group[0].sheet
    sheet = LaunchSheet(first.name, first.source, path, list(columns.values()))
    sheet.rows = write_table(con, " UNION ALL BY NAME ".join(reads), path)
    for table in group:
        table.sheet.parquet.unlink()
        sheet.warnings += table.sheet.warnings
    sheet.measure(con)
    return sheet


_TEXTS = ("CC", f"{DEVICE}display_name", "Process Name", "Host Name")
_SHOWN = 4


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file, or a folder with such files at most one level deep."""
    return bool(files_of(path))


def read(files: ProfileFiles) -> Profile:
    """Return the launches at ``files.path``; counters have ncu's names and base units.

    Files with different metrics are passes, files with the same metrics are processes of one pass. A source page adds
    samples and execution counts per instruction; by itself it becomes a profile without times. Raises BadInput naming
    the faulty file, and MissingTool for a report if the package that reads it is missing.
    """
    path, con, work = files.path, files.con, files.work
    sources = files.or_itself(files_of(path))
    if not sources:
        raise refusal("no_ncu", path=path)
    source_pages = [file for file in sources if not is_report(file) and code.is_source_page(file)]
    launch_files = [file for file in sources if file not in source_pages]
    exact_files = [file for file in launch_files if is_report(file) or not is_details_page(file)]
    launch_files = exact_files or launch_files
    name = path.name.split(".")[0] if path.is_file() else path.name
    if not launch_files:
        unknown = [PassTable("main", source_pages[0])]
        hotspots = partial(_hotspots, files, source_pages, [])
        return Profile(name=name, vendor="nvidia", tool="ncu", passes=unknown, hotspots=hotspots)
    tables, notes = read_tables(con, launch_files, work)
    notes += [note for table in tables for note in table.notes]
    sheets = as_passes(con, tables, work)
    main, warnings = sheets[0], []
    have = set(column_names(con, _rows(main)))
    texts = {name: _values(con, main, name) if name in have else [] for name in _TEXTS}
    for what, values in (("GPUs", texts[_TEXTS[1]]), ("compute capabilities", texts["CC"])):
        if len(values) > 1:
            warnings.append(note("several_devices", what=what, values=values[:_SHOWN]))
    recording_files = recordings.files_of(path) if path.is_dir() else []
    nothing = Profile(vendor="nvidia", passes=())
    times = recordings.stage(con, recording_files, work).profile() if recording_files else nothing
    passes = [s.as_pass() for s in sheets]
    listings = [table.code for table in tables if table.code]
    if listings and source_pages:
        notes.append(note("shown_again.view", files=[plain_text(file.name, 60) for file in source_pages[:_SHOWN]]))
    listings = listings or source_pages
    source_texts = [table.text for table in tables if table.text]
    return replace(
        times,
        name=name,
        arch=f"sm_{texts['CC'][0].replace('.', '')}" if texts["CC"] else None,
        device=next(iter(texts[_TEXTS[1]]), None),
        command=", ".join(texts["Process Name"][:_SHOWN]) or None,
        host=texts["Host Name"][0] if len(texts["Host Name"]) == 1 else None,
        tool="ncu",
        tool_version=version(launch_files),
        facts=_facts(con, main, have),
        replayed=[p.name for p in passes if p.name != TIMING] if times.passes or passes[0].name == TIMING else [],
        passes=[*times.passes, *passes],
        hotspots=partial(_hotspots, files, listings, source_texts) if listings else None,
        warnings=warnings,
        notes=[*notes, *times.notes],
    )


def _hotspots(files: ProfileFiles, listings: list[Path], texts: list[Path], launches: str) -> HotspotQueries:
    """Return samples and instructions of ``listings``, and source lines of ``texts``; ``launches`` are as stored."""
    places = code.LaunchPlaces(files.con, launches)
    hotspots = code.spool(files.con, files.work, (one for file in listings for one in code.listings(file)), places)
    lines = [code.source_lines(files.con, files.work, text) for text in texts]
    return replace(hotspots, source_lines=" UNION ALL ".join(lines))


def _rows(sheet: LaunchSheet) -> str:
    return parquet([sheet.parquet], numbered=True)


def _values(con: Connection, sheet: LaunchSheet, column: str) -> list[str]:
    """Return the distinct texts of a column, in file order."""
    name = sql_name(column)
    rows = all_rows(
        con,
        f"SELECT {name} FROM {_rows(sheet)} WHERE {name} IS NOT NULL GROUP BY 1 ORDER BY min(file_row_number) LIMIT 50",
    )
    return [plain_text(text) for (text,) in rows]


def _facts(con: Connection, sheet: LaunchSheet, have: set[str]) -> dict[str, float]:
    """Return the device facts of the first launch."""
    stated = {fact: rule for fact, rule in module_data(__file__, "facts.toml").items() if rule["metric"] in have}
    if not stated:
        return {}
    picks = ", ".join(f"first({sql_name(rule['metric'])} ORDER BY file_row_number)" for rule in stated.values())
    row = one_row(con, f"SELECT {picks} FROM {_rows(sheet)}")
    return {
        fact: value * rule.get("factor", 1)
        for (fact, rule), value in zip(stated.items(), row, strict=True)
        if value is not None and math.isfinite(value)
    }
