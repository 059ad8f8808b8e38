"""The one writer of profiles: it turns what a reader returns (reader.py) into the tables and manifest of a workload.

The launches of all passes are matched and merged first, then the further tables, the timeline and the samples follow,
because these refer to the launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...analysis.base.database import column_names, sql_name
from ...analysis.base.notes import Note
from ...analysis.base.problems import BadInput, LimitExceeded, join_sentences
from ...analysis.base.text import count_text, first_few
from ...analysis.store.store import Manifest, write_table
from ..base import size_limits
from ..base.profile_files import WORK
from ..base.untrusted_text import plain_text
from .merging.contract import LAUNCH, RESERVED, CounterRows, PassTable, one_row, parquet
from .merging.merge import StoredProfile, channels_per_xcd, name_counters, write_launches, write_passes
from .parsing.spool import Spool
from .reader import DETECT, Launch, Pass, Profile, ProfileFiles, Reader
from .samples.sample_tables import stored_launches, take_samples, write_hotspots
from .timelines.timeline_tables import write_timeline

if TYPE_CHECKING:
    import duckdb

_COUNTER_NAME, _COMMAND = 200, 4000
"""Maximum characters of a counter's name, and of a command."""
_VALUES = {"key": "BIGINT", "counter": "VARCHAR", "value": "DOUBLE"}
_NOTES_OF_SAMPLES = ("samples", "code", "samples_without_kernel")
"""Codes of the notes on a sampled run that also matter in the workload that its samples are added to."""


def read_into(
    reader: Reader, con: duckdb.DuckDBPyConnection, path: Path, out: Path, code: Sequence[Path] = ()
) -> tuple[Manifest, StoredProfile]:
    """Read the profile at ``path`` and write its tables into ``out``, whose work folder exists.

    ``code`` are files that may contain the code of sampled kernels. Raises BadInput that names the faulty file.
    """
    profile = reader.read(ProfileFiles(path, con, out / WORK, code))
    stored = write_profile(con, profile, out)
    manifest = Manifest(
        name=profile.name or path.name.split(".")[0],
        format=profile.format or reader.name,
        vendor=profile.vendor,
        arch=profile.arch,
        device=profile.device,
        command=plain_text(profile.command, _COMMAND) if profile.command else None,
        tool=profile.tool,
        tool_version=profile.tool_version,
        host=profile.host,
        rank=profile.rank,
        multiplexed=stored.multiplexed,
        replayed=list(profile.replayed),
        facts=dict(profile.facts),
    )
    return manifest, stored


def write_profile(con: duckdb.DuckDBPyConnection, profile: Profile, out: Path) -> StoredProfile:
    """Write the tables of a profile into ``out``; BadInput if there is nothing to write."""
    stored = _write_passes(con, profile, out)
    for table, select in profile.tables.items():
        write_table(con, select if isinstance(select, str) else select(stored_launches(out)), out / f"{table}.parquet")
    warnings, notes = [*profile.warnings, *stored.warnings], [*stored.notes, *profile.notes]
    events = samples = 0
    if profile.timeline:
        events, more_warnings, more_notes = write_timeline(con, out, profile.timeline)
        warnings, notes = warnings + more_warnings, notes + more_notes
    if profile.hotspots:
        samples, more_warnings, more_notes = write_hotspots(con, out, profile.hotspots(stored_launches(out)))
        warnings, notes = warnings + more_warnings, notes + more_notes
    if profile.sampled:
        samples, more_warnings, more_notes = _add_samples(con, profile.sampled, out)
        warnings, notes = warnings + more_warnings, notes + more_notes
    multiplexed = profile.multiplexed
    if multiplexed == DETECT and not ((out / "counters.parquet").exists() and is_multiplexed(con, out)):
        multiplexed = None
    if multiplexed:
        warnings += incomplete_kernel_notes(con, out)
        notes += fill_rate_notes(con, out)
    return replace(
        stored,
        warnings=warnings,
        notes=notes,
        events=events,
        samples=samples,
        places=profile.places,
        world_size=profile.world_size,
        multiplexed=multiplexed,
        stacks=profile.stacks,
        unix_shift=profile.unix_shift,
    )


def _write_passes(con: duckdb.DuckDBPyConnection, profile: Profile, out: Path) -> StoredProfile:
    """Write the tables passes and, if there are launches, dispatches, counters and counter_instances."""
    tables = [
        _stage_pass(con, one, out / WORK / f"pass_{number}") if isinstance(one, Pass) else one
        for number, one in enumerate(profile.passes)
    ]
    if any(table.rows for table in tables):
        instances = [number for table in tables for _, number in table.instances.values()]
        per_xcd = channels_per_xcd(profile.facts, profile.arch, instances)
        return write_launches(con, tables, out, instances_per_xcd=per_xcd)
    if not (profile.timeline or profile.hotspots or profile.tables or profile.stacks):
        source = tables[0].source.name if tables else "The profile"
        raise BadInput(f"{source} contains no launches", "a workload needs at least one", "Check the profiled run")
    passes = name_counters(tables)
    write_passes(con, passes, out)
    return StoredProfile(0, 0, [], passes, [warning for table in tables for warning in table.warnings])


def _add_samples(con: duckdb.DuckDBPyConnection, sampled: Profile, out: Path) -> tuple[int, list[Note], list[Note]]:
    """Add the samples of another run; return their number, warnings and notes. Damaged ones are skipped."""
    own = out / WORK / "sampled"
    (own / WORK).mkdir(parents=True, exist_ok=True)
    try:
        stored = write_profile(con, sampled, own)
    except (BadInput, LimitExceeded) as problem:
        return 0, [Note("left_out", join_sentences(problem.text, "Its samples were skipped"))], []
    take_samples(con, own, out)
    return stored.samples, [], [note for note in stored.notes if note.code in _NOTES_OF_SAMPLES]


def _stage_pass(con: duckdb.DuckDBPyConnection, one: Pass, stem: Path) -> PassTable:
    """Write the launches and the counter values of a pass to Parquet files."""
    launches = Spool(con, stem.with_name(f"{stem.name}_launches"), LAUNCH)
    values = Spool(con, stem.with_name(f"{stem.name}_values"), _VALUES)
    counters: dict[str, bool] = {}
    stated: set[str] = set()
    for number, launch in enumerate(one.launches):
        row = _launch_row(number, launch)
        stated |= {name for name, value in row.items() if value is not None}
        launches.append(tuple(row.values()))
        for name, value in launch.counters.items():
            counters[name] = counters.get(name, False) or value is not None
            if value is not None and _is_usable(name):
                values.append((number, name, float(value)))
        if len(counters) > size_limits.MOST_COLUMNS:
            what = f"{one.source.name} names more than {count_text(size_limits.MOST_COLUMNS, 'counter')}"
            raise BadInput(what, "no profiler counts that many", "Check that it is the file that it wrote")
    names = [name for name in counters if _is_usable(name)]
    warnings = list(one.warnings)
    if skipped := sorted(counters.keys() - set(names)):
        listed = ", ".join(plain_text(name, 60) for name in skipped[:8])
        text = f"{one.source.name}: skipped counters that cannot be columns: {listed}."
        warnings.append(Note("no_counters", text))
    counted = frozenset(name for name in names if counters[name])
    return PassTable(
        name=one.name,
        source=one.source,
        rows=launches.rows,
        launches=parquet(launches.close()),
        stated=frozenset(stated - {"row"}),
        counters=names,
        values=[CounterRows(tuple(values.close()), (0, launches.rows - 1), 0, counted)] if launches.rows else [],
        warnings=warnings,
    )


def _launch_row(row: int, launch: Launch) -> dict[str, Any]:
    """The values of the columns LAUNCH."""
    own = {"row": row, "process": None, "kernel": launch.kernel, "duration_ns": launch.measured_ns()}
    return {name: own[name] if name in own else getattr(launch, name) for name in LAUNCH}


def _is_usable(name: str) -> bool:
    """Whether a counter can be a column."""
    return (
        0 < len(name) <= _COUNTER_NAME
        and name.casefold() not in RESERVED
        and name == plain_text(name, _COUNTER_NAME)
        and '"' not in name
    )


_LISTED = 5


def is_multiplexed(con: duckdb.DuckDBPyConnection, folder: Path) -> bool:
    """Return whether launches of one kernel have different counters and none of them has all counters."""
    counters = _counters(con, folder)
    if len(counters) < 2:
        return False
    marks = " || ".join(f"CASE WHEN {name} IS NULL THEN '0' ELSE '1' END" for name in counters)
    counted = f"FROM (SELECT kernel, {marks} AS marks FROM {_table(folder)}) WHERE contains(marks, '1')"
    (most,) = one_row(
        con,
        f"SELECT coalesce(max(n), 0) FROM (SELECT count(DISTINCT marks) AS n {counted} "
        "GROUP BY kernel HAVING bool_and(contains(marks, '0')))",
    )
    return bool(most > 1)


def fill_rate_notes(con: duckdb.DuckDBPyConnection, folder: Path) -> list[Note]:
    """Return a note with the share of the cells (launch, counter) that were collected."""
    counters = _counters(con, folder)
    if not counters:
        return []
    cells = " + ".join(f"count({name})" for name in counters)
    filled, launches = one_row(con, f"SELECT {cells}, count(*) FROM {_table(folder)}")
    share = 100 * filled / max(1, launches * len(counters))
    text = (
        f"Counters took turns: each launch collected some of the {count_text(len(counters), 'counter')} in turn, "
        f"{share:.0f} % of "
        "all. NULL is not collected; figures assume that launches of one kernel and configuration do the same."
    )
    return [Note("multiplexed", text)]


def incomplete_kernel_notes(con: duckdb.DuckDBPyConnection, folder: Path) -> list[Note]:
    """Return a note on kernels that had too few launches for every group of counters to be collected."""
    counters = _counters(con, folder)
    if not counters:
        return []
    lacking = " + ".join(f"CAST(count({name}) = 0 AS INT)" for name in counters)
    rows = con.execute(
        f"SELECT kernel, count(*) AS n, {lacking} AS lacks FROM {_table(folder)} GROUP BY kernel HAVING lacks > 0 "
        "ORDER BY n DESC, kernel"
    ).fetchall()
    if not rows:
        return []
    kernels = [
        f"{plain_text(kernel, 60)} ({count_text(n, 'launch')}, {lacks} of {count_text(len(counters), 'counter')} never)"
        for kernel, n, lacks in rows
    ]
    text = (
        f"{count_text(len(rows), 'kernel has', 'kernels have')} too few launches for all groups of counters and "
        f"stay incomplete: {first_few(kernels, _LISTED, '; ')}."
    )
    return [Note("incomplete", text)]


def _table(folder: Path) -> str:
    return parquet([folder / "counters.parquet"])


def _counters(con: duckdb.DuckDBPyConnection, folder: Path) -> list[str]:
    """Return the counter columns, quoted."""
    columns = column_names(con, f"(SELECT * EXCLUDE (dispatch_id, kernel) FROM {_table(folder)})")
    return [sql_name(name) for name in columns if not name.startswith("duration_ns")]
