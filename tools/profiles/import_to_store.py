"""Import of a profile into the store: read it, check its figures, publish the workload."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...analysis.base.database import column_names
from ...analysis.base.notes import Note
from ...analysis.base.problems import BadInput, LimitExceeded, join_sentences
from ...analysis.base.temporary_files import scratch
from ...analysis.hotspots.code import advice
from ...analysis.launches import device_clocks
from ...analysis.store.manifest import Manifest
from ...analysis.store.store import Store, write_table
from ..base.arguments import NAME_LIMIT
from ..base.profile_files import WORK, database, unreadable_as_bad_input
from ..base.untrusted_text import plain_text
from .checks.counter_checks import doubts_of_readers, faults
from .host.own_run import SampledRun
from .host.recording import HostClock
from .host.stored_stacks import write_host_stacks
from .merging.contract import parquet
from .merging.gather import gather
from .merging.merge import StoredProfile
from .merging.ranks import ProcessPlace, rank_notes, sql_place
from .reader import ProfileFiles
from .registry import Format, ranks_of, reader_for, recordings_beside
from .samples.sample_tables import kernels_in
from .writer import read_into

if TYPE_CHECKING:
    import duckdb


_KNOWN = ("rank", "host", "pid")


def write_ranks(con: duckdb.DuckDBPyConnection, out: Path, places: Sequence[ProcessPlace]) -> int:
    """Write the table ranks if the profile contains several processes; return the number of its rows."""
    if len(places) < 2:
        return 0
    rows = ", ".join(f"({sql_place(place)})" for place in dict.fromkeys(places))
    places_sql = f"SELECT DISTINCT rank::INT AS rank, host::VARCHAR AS host, pid::BIGINT AS pid FROM (VALUES {rows}) "
    places_sql += "p(rank, host, pid)"
    figures = (
        "NULL::INT AS devices, 0::BIGINT AS dispatches, 0::INT AS kernels, NULL::DOUBLE AS kernel_ns, "
        "NULL::DOUBLE AS work_items, NULL::BIGINT AS first_ns, NULL::BIGINT AS last_ns"
    )
    select = f"SELECT *, {figures} FROM ({places_sql})"
    stored = out / "dispatches.parquet"
    if stored.exists():
        select = _launch_sums(con, stored, places_sql)
    return write_table(con, f"{select} ORDER BY rank NULLS LAST, host, pid", out / "ranks.parquet")


def _launch_sums(con: duckdb.DuckDBPyConnection, stored: Path, places_sql: str) -> str:
    """Return SQL for the places of processes with the totals of what each launched."""
    launches = parquet([stored])
    stated = column_names(con, launches)
    keys = ", ".join(c if c in stated else f"NULL AS {c}" for c in _KNOWN)
    same = " AND ".join(f"p.{c} IS NOT DISTINCT FROM l.{c}" for c in _KNOWN[:2] if c in stated)
    within = ", ".join(f"p.{c}" for c in _KNOWN[:2] if c in stated)
    alone = f"count(*) OVER ({f'PARTITION BY {within}' if within else ''}) = 1 AS alone"
    sums = (
        f"SELECT {keys}, count(DISTINCT device_id)::INT AS devices, count(*) AS dispatches, "
        "count(DISTINCT kernel)::INT AS kernels, sum(duration_ns) AS kernel_ns, sum(grid::DOUBLE) AS work_items, "
        f"min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM {launches} GROUP BY ALL"
    )
    return (
        "SELECT p.* EXCLUDE (alone), l.devices, coalesce(l.dispatches, 0) AS dispatches, "
        "coalesce(l.kernels, 0)::INT AS kernels, l.kernel_ns, l.work_items, l.first_ns, l.last_ns "
        f"FROM (SELECT *, {alone} FROM ({places_sql}) p) p LEFT JOIN ({sums}) l "
        f"ON {same or 'true'} AND (l.pid IS NOT DISTINCT FROM p.pid OR p.alone AND coalesce(l.pid = p.pid, true))"
    )


_MOST_KERNELS = 1000


def missing_line_info(con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest) -> list[Note]:
    """Return notes on the compiler flags that kernels need to get source lines; none if all samples have lines."""
    stored = folder / "samples.parquet"
    if not stored.is_file():
        return []
    return advice(manifest, shares_without_lines(con, parquet([stored])), manifest.dispatches)


def shares_without_lines(con: duckdb.DuckDBPyConnection, samples: str) -> dict[str, float]:
    """Return kernel -> its samples without a source line as a percentage of all samples.

    ``samples`` is a FROM item with the columns of the table samples. Samples without a known instruction do not count,
    because the program may well have line information.
    """
    rows = con.execute(
        "SELECT kernel, 100.0 * sum(count) FILTER (source_line IS NULL AND instruction IS NOT NULL) "
        "/ sum(sum(count)) OVER () AS share "
        f"FROM {samples} GROUP BY kernel QUALIFY share > 0 ORDER BY share DESC, kernel LIMIT {_MOST_KERNELS}"
    ).fetchall()
    return {kernel: float(share) for kernel, share in rows}


Amend = Callable[[Manifest, StoredProfile], tuple[Manifest, list[Note]]]


@dataclass(frozen=True)
class Beside:
    """What was recorded beside the profile, and is stored with it."""

    sensors: Sequence[Mapping[str, Any]] = ()
    """Readings of the device's sensors."""
    code: Sequence[Path] = ()
    """Files that may contain the code of sampled kernels."""
    host: SampledRun | None = None
    """The stacks of the host during the run whose timeline the profile has."""


def import_to_store(
    store: Store,
    source: Path,
    format: str,
    amend: Amend,
    beside: Beside = Beside(),
) -> tuple[Manifest, StoredProfile]:
    """Read the profile at ``source`` into a new workload and return its manifest and a summary of its tables.

    ``amend`` returns the manifest with what the caller knows better than the reader, and warnings of its own.
    """
    with unreadable_as_bad_input(source):
        ranks = ranks_of(source, format)
        reader = ranks[0] if ranks else reader_for(source, format)
    with store.draft() as folder:
        work = folder / WORK
        work.mkdir()
        with unreadable_as_bad_input(source), database(source, work) as con:
            if ranks:
                read = partial(read_into, reader, code=beside.code)
                manifest, stored = gather(con, source, folder, ranks[1], read)
            else:
                manifest, stored = read_into(reader, con, source, folder, code=beside.code)
            stored = _add_host_stacks(con, folder, stored, beside, recordings_beside(source, reader))
            manifest, stored = _complete(con, folder, manifest, stored, amend)
            device_clocks.save(con, folder, beside.sensors)
        shutil.rmtree(work)
        return store.publish(folder, manifest), stored


def _add_host_stacks(
    con: duckdb.DuckDBPyConnection,
    folder: Path,
    stored: StoredProfile,
    beside: Beside,
    files: Sequence[tuple[Format, Path]],
) -> StoredProfile:
    """Write the stacks of the host: of the profile, of the sampler beside it, and of the ``files`` beside it."""
    work = folder / WORK
    recordings = [stored.stacks] if stored.stacks else []
    warnings, notes = list[Note](), list[Note]()
    if beside.host and stored.events:
        sampled, warnings, notes = beside.host.recording(con, work)
        recordings += [sampled] if sampled else []
    for number, (reader, file) in enumerate(files):
        own = work / f"host_{number}"
        own.mkdir()
        try:
            profile = reader.read(ProfileFiles(file, con, own))
        except (BadInput, LimitExceeded) as problem:
            warnings.append(Note("left_out", join_sentences(problem.text, "Its stacks were skipped")))
            continue
        # Its clock is that of its own timeline, not of the one that is stored.
        stacks = profile.stacks and replace(profile.stacks, clock=profile.stacks.clock or HostClock())
        recordings += [stacks] if stacks else []
    more_warnings, more_notes = write_host_stacks(con, recordings, folder, stored.unix_shift)
    return replace(
        stored,
        warnings=[*stored.warnings, *warnings, *more_warnings],
        notes=[*stored.notes, *notes, *more_notes],
    )


def _complete(
    con: duckdb.DuckDBPyConnection, folder: Path, manifest: Manifest, stored: StoredProfile, amend: Amend
) -> tuple[Manifest, StoredProfile]:
    """Write the table ranks and check the figures; return the final manifest and summary."""
    ranks = write_ranks(con, folder, stored.places)
    notes_on_ranks, warnings = rank_notes(stored.places, stored.world_size)
    manifest = manifest.model_copy(update={"ranks": ranks, "sampled": stored.sampled})
    manifest, own_warnings = amend(manifest, stored)
    read_warnings = [*own_warnings, *stored.warnings, *warnings]
    checked = faults(con, folder, manifest, stored)
    kernels = stored.kernels or kernels_in(con, folder)
    manifest = manifest.model_copy(
        update={
            "name": plain_text(manifest.name, NAME_LIMIT) or "profile",
            "dispatches": stored.dispatches,
            "kernels": kernels,
            "events": stored.events,
            "samples": stored.samples,
            "counters": stored.counters,
            "doubts": [*doubts_of_readers(read_warnings), *(doubt for one in checked for doubt in one.doubts)],
        }
    )
    manifest.warnings = [*read_warnings, *(one.note for one in checked), *missing_line_info(con, folder, manifest)]
    notes = [*notes_on_ranks, *stored.notes]
    return manifest, replace(stored, kernels=kernels, warnings=manifest.warnings, notes=notes)


_MOST = 100_000
_UNLINKED = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of a hard link to another file system, to one without links, or to a file that may be read but not linked."""
_SIGNS = frozenset("*?[")


def matches(path: Path) -> list[Path]:
    """Return the entries of a folder that match the last part of ``path`` (``*``, ``?``, ``[...]``), sorted.

    Returns nothing if ``path`` is not a pattern. Hidden names and links are skipped, because a pattern is not meant
    to reach files in other places.
    """
    if _SIGNS.isdisjoint(path.name) or not path.parent.is_dir():
        return []
    with os.scandir(path.parent) as entries:
        fitting = [
            entry.name
            for entry in islice(entries, _MOST)
            if not entry.name.startswith(".") and not entry.is_symlink() and fnmatchcase(entry.name, path.name)
        ]
    return [path.parent / name for name in sorted(fitting)]


@contextmanager
def as_one_folder(paths: list[Path]) -> Iterator[Path]:
    """Yield a temporary folder with only these files and folders, named after their common folder.

    The files are hard links if possible, else copies. Raises LimitExceeded if there are too many files or no room for
    copies, and BadInput if a file cannot be read.
    """
    if len(paths) == 1:
        yield paths[0]
        return
    parent = paths[0].parent.resolve()
    files = list(islice((file for one in paths for file in _files(one)), _MOST + 1))
    if len(files) > _MOST:
        what = f"The pattern matches more than {_MOST} files"
        raise LimitExceeded(what, fix="Use a pattern that matches only the profiles")
    with scratch() as room:
        folder = room / (parent.name or "profile")
        folder.mkdir()
        for file in files:
            target = folder / file.relative_to(paths[0].parent)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                _link_or_copy(file, target)
            except OSError as error:
                raise BadInput(f"{file.name} cannot be read", error.strerror or str(error)) from error
        yield folder


def _files(one: Path) -> Iterator[Path]:
    """Yield the regular files of a match: itself, or those below it. Links, pipes and devices are skipped."""
    if not one.is_dir():
        if one.is_file():
            yield one
        return
    for folder, _, names in os.walk(one):
        for name in sorted(names):
            file = Path(folder) / name
            if _is_regular(file):
                yield file


def _is_regular(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:  # the file was removed in the meantime
        return False


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _UNLINKED:
            raise
        if shutil.disk_usage(target.parent).free < 2 * source.stat().st_size:
            raise LimitExceeded(
                f"There is no room for a copy of {source.name}",
                "profiles that a pattern matches are copied into one folder for reading",
                "Move them into one folder and import that, or set TMPDIR to a larger disk",
            ) from None
        shutil.copyfile(source, target)
