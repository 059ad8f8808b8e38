"""One workload from one profile per rank: each rank is read by itself, then their tables are concatenated.

As a result, passes are matched only within a rank, a damaged rank does not affect the others, and memory does not grow
with the number of ranks: only a few ranks are open at a time, and their files are removed once they are joined.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from ....analysis.base.database import column_names, sql_name, sql_path
from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, LimitExceeded
from ....analysis.base.text import count_text
from ....analysis.store.schema import number_configurations
from ....analysis.store.store import Manifest, write_table
from ...base import progress
from ...base.profile_files import WORK
from ..samples.sample_tables import take_table
from .contract import Connection, CounterColumns, PassTable, count_rows, one_row, parquet
from .merge import MergedPass, StoredProfile, write_passes
from .ranks import ProcessPlace, in_sequence, only_value, place_of_name, ranks_in_words, sql_value
from .wording import note, refusal

ReadInto = Callable[[Connection, Path, Path], tuple[Manifest, StoredProfile]]
_AT_ONCE = 32
"""Number of ranks whose files are joined at once."""
_MOST = 8192
_FAILED = 8
_HOSTS = 1024
_NUMBERED_ENDS = (".ncu-rep", ".sqlite")
"""Files that a profiler writes once per run, so that numbers in their names count processes that run side by side."""
_ENDS = (*_NUMBERED_ENDS, ".csv", ".txt")
"""Suffixes of files that may each contain one rank; if a rank has several files, the first suffix counts."""
_FIRST_ONLY = ("samples", "instructions", "source_lines", "kernel_stats", "ceilings")
"""Tables that are taken from the first rank that has them, because they are the same on all ranks or do not add up."""


@dataclass(frozen=True)
class RankProfile:
    """The profile of one rank."""

    path: Path
    place: ProcessPlace


def units_of(folder: Path) -> list[RankProfile]:
    """Return the entries of ``folder`` that are named after several ranks.

    These are folders, also those inside folders named after hosts, or files. Empty if the names do not state ranks.
    """
    if not folder.is_dir():
        return []
    here = _list_folder(folder, _MOST)
    folders = [p for p in here if p.is_dir()]
    if units := _units_by_name(folders, folder):
        return units
    below = [p for host in folders[:_HOSTS] for p in _list_folder(host, _MOST // _HOSTS) if p.is_dir()]
    if units := _units_by_name(below, folder):
        if len({u.place.rank for u in units}) == len(units):
            return [replace(u, place=u.place.or_else(ProcessPlace(host=u.path.parent.name))) for u in units]
        return []
    for end in _ENDS:
        if units := _units_by_name(
            [p for p in here if p.is_file() and p.name.endswith(end)], folder, end in _NUMBERED_ENDS
        ):
            return units
    return []


def _list_folder(folder: Path, most: int) -> list[Path]:
    """Return at most ``most`` entries of a folder, without links and hidden names, sorted."""
    entries = islice(folder.iterdir(), most)
    return sorted(p for p in entries if not p.name.startswith(".") and not p.is_symlink())


def _units_by_name(paths: Sequence[Path], folder: Path, bare: bool = True) -> list[RankProfile]:
    """Return the paths whose names state a rank, sorted by rank; empty unless there are several ranks.

    With ``bare``, names that merely end in consecutive numbers count too.
    """
    units = [RankProfile(p, place_of_name(Path(p.name))) for p in paths]
    units = [unit for unit in units if unit.place.rank is not None]
    if not any("rank" in u.path.name.lower() or u.place.rank == 0 for u in units):
        units = []  # the numbers are something else, such as problem sizes
    if len(units) < 2 and bare:
        numbers = in_sequence(paths)
        units = [RankProfile(p, ProcessPlace(n)) for p, n in zip(paths, numbers, strict=True)] if numbers else []
    if len({unit.place.rank for unit in units}) < 2:
        return []
    return sorted(units, key=lambda u: (u.place.rank or 0, str(u.path.relative_to(folder))))


@dataclass
class _ReadRank:
    """One rank after reading, with its tables below ``folder``."""

    unit: RankProfile
    manifest: Manifest
    merged: StoredProfile
    folder: Path


@dataclass
class _RankTables:
    """The tables of the ranks read so far."""

    con: Connection
    work: Path
    parts: dict[str, list[Path]] = field(default_factory=dict)
    """Table -> files of ranks that were joined."""
    first: dict[str, int] = field(default_factory=dict)
    """Column -> first number of the next rank's dispatches, events or ranges."""
    kept: dict[str, tuple[Path, int]] = field(default_factory=dict)
    """Table of ``_FIRST_ONLY`` -> the folder of its rank, and by how much the ids of dispatches there are shifted."""

    def add(self, ranks: Sequence[_ReadRank]) -> None:
        """Join the tables of some ranks, and remove the folders they were read into."""
        number = sum(len(files) for files in self.parts.values())
        starts = [{name: self._start(rank, name) for name in _NUMBERED} for rank in ranks]
        for table in ("dispatches", "counters", "counter_instances", "events", "ranges"):
            selects = [
                self._select(rank, table, start)
                for rank, start in zip(ranks, starts, strict=True)
                if (rank.folder / f"{table}.parquet").exists()
            ]
            if selects:
                path = self.work / f"joined_{table}_{number}.parquet"
                write_table(self.con, " UNION ALL BY NAME ".join(selects), path)
                self.parts.setdefault(table, []).append(path)
        for rank, start in zip(ranks, starts, strict=True):
            new = [t for t in _FIRST_ONLY if t not in self.kept and (rank.folder / f"{t}.parquet").exists()]
            self.kept |= dict.fromkeys(new, (rank.folder, start["dispatch_id"]))
            if not new:
                shutil.rmtree(rank.folder)

    def _start(self, rank: _ReadRank, name: str) -> int:
        """Return the offset of this rank's numbers in a column, so that no number repeats."""
        table = rank.folder / f"{_NUMBERED[name]}.parquet"
        before = self.first.get(name, 0)
        if table.exists():
            bounds = f"SELECT min({name}), max({name}) FROM {parquet([table])}"
            low, high = one_row(self.con, bounds)
            if low is not None:
                self.first[name] = before + high - low + 1
                return int(before - low + (0 if name == "dispatch_id" else 1))
        return before

    def _select(self, rank: _ReadRank, table: str, start: dict[str, int]) -> str:
        """Return SQL for one table of one rank, with its rank and host and with shifted numbers."""
        own = rank.folder / f"{table}.parquet"
        stated = column_names(self.con, parquet([own]))
        place = rank.unit.place
        moved = {name: f"{name} + {by}" for name, by in start.items() if name in stated}
        if table != "counter_instances":
            moved["rank"] = f"{sql_value(place.rank)}::INTEGER"
            moved["host"] = f"{sql_value(place.host)}::VARCHAR"
            if table == "dispatches" and place.pid is not None:
                moved["pid"] = f"coalesce(pid, {place.pid})::BIGINT" if "pid" in stated else f"{place.pid}::BIGINT"
        dropped = ("launch", "configuration") if table == "dispatches" else ()
        picks = [f"{moved[c]} AS {c}" if c in moved else sql_name(c) for c in stated if c not in dropped]
        picks += [f"{sql} AS {name}" for name, sql in moved.items() if name not in stated]
        return f"SELECT {', '.join(picks)} FROM {parquet([own])}"

    def write(self, out: Path) -> None:
        """Write the tables of the workload."""
        for table, files in self.parts.items():
            paths = ", ".join(map(sql_path, files))
            rows = f"FROM read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"
            if table == "dispatches":
                rows = f"{number_configurations(f'SELECT * {rows}')} ORDER BY dispatch_id"
            write_table(self.con, rows, out / f"{table}.parquet")
            for file in files:
                file.unlink()
        for table, (folder, by) in self.kept.items():
            theirs, ours = folder / "dispatches.parquet", parquet([out / "dispatches.parquet"])
            pairs = (
                "SELECT t.dispatch_id AS their_id, t.launch AS their_launch, t.kernel, o.dispatch_id AS id, o.launch "
                f"FROM {parquet([theirs])} t JOIN {ours} o ON o.dispatch_id = t.dispatch_id + {by}"
            )
            take_table(self.con, folder / f"{table}.parquet", out, pairs if theirs.exists() else "")


_NUMBERED = {"dispatch_id": "dispatches", "event_id": "events", "range_id": "ranges"}
"""Column that numbers the rows of a table -> table; other tables refer to these numbers."""


def gather(
    con: Connection, folder: Path, out: Path, units: Sequence[RankProfile], read: ReadInto
) -> tuple[Manifest, StoredProfile]:
    """Read the profile of each rank and write them as one workload below ``out``.

    A rank that cannot be read, or that ran on another target than most, is named in a warning and skipped. Raises
    BadInput if no rank can be read.
    """
    work = out / WORK
    tables, waiting = _RankTables(con, work), list[_ReadRank]()
    merged_ranks, warnings = list[tuple[ProcessPlace, StoredProfile]](), list[Note]()
    first = None
    # The most frequent target among a sample of the readable ranks becomes that of the workload.
    seen, failed = Counter[str | None](), list[str]()
    for unit in units[:: -(-len(units) // _SAMPLE)]:
        own = work / "rank_sample"
        with suppress(BadInput, LimitExceeded):  # the error is reported when the rank is read below
            seen[_read_rank(con, unit, own, read).manifest.arch] += 1
        shutil.rmtree(own, ignore_errors=True)
    arch = max(seen, key=lambda target: seen[target], default=None)
    others: dict[str | None, list[ProcessPlace]] = {}
    for number, unit in enumerate(units):
        own = work / f"rank_{number}"
        try:
            one = _read_rank(con, unit, own, read)
        except (BadInput, LimitExceeded) as problem:
            shutil.rmtree(own, ignore_errors=True)
            failed.append(f"{unit.place.words} ({unit.path.name}): {problem.text}")
            continue
        if one.manifest.arch != arch:
            shutil.rmtree(own)
            others.setdefault(one.manifest.arch, []).append(one.unit.place)
            continue
        waiting.append(one)
        merged_ranks.append((one.unit.place, one.merged))
        first = first or one.manifest
        if len(waiting) == _AT_ONCE:
            tables.add(waiting)
            waiting.clear()
        progress.report(f"read {number + 1:,} of {count_text(len(units), 'rank')}")
    if first is None:
        raise refusal("no_rank", folder=folder, failed=failed[:4])
    tables.add(waiting)
    tables.write(out)
    if others:
        each = [
            f"{of[0].words if len(of) == 1 else ranks_in_words(sorted(p.rank for p in of if p.rank is not None))} "
            f"ran on {own or _NO_ARCH}"
            for own, of in others.items()
        ][:_FAILED]
        left = "it was skipped. Import it" if sum(map(len, others.values())) == 1 else "they were skipped. Import them"
        warnings.append(note("ranks_other_device.gathered", each=each, arch=arch or _NO_ARCH, left=left))
    for text in failed[:_FAILED]:
        warnings.append(note("damaged.one", problem=text))
    if failed[_FAILED:]:
        warnings.append(note("damaged.ranks", count=len(failed) - _FAILED))
    merged = _merge_results(con, out, merged_ranks, warnings)
    host = only_value(place.host for place, _ in merged_ranks)
    return first.model_copy(update={"name": folder.name, "rank": None, "host": host}), merged


_SAMPLE, _NO_ARCH = 33, "an unknown GPU"


def _read_rank(con: Connection, unit: RankProfile, own: Path, read: ReadInto) -> _ReadRank:
    (own / WORK).mkdir(parents=True)
    manifest, merged = read(con, unit.path, own)
    stated = merged.places[0] if len(merged.places) == 1 else ProcessPlace(manifest.rank, manifest.host)
    return _ReadRank(replace(unit, place=stated.or_else(unit.place)), manifest, merged, own)


def _merge_results(
    con: Connection,
    out: Path,
    merged_ranks: Sequence[tuple[ProcessPlace, StoredProfile]],
    warnings: list[Note],
) -> StoredProfile:
    """Combine the summaries of all ranks, with each warning and note once, after ``warnings``."""
    parts = [merged for _, merged in merged_ranks]
    passes = _passes(parts)
    write_passes(con, passes, out)
    dispatches, kernels, events = 0, 0, 0
    if (stored := out / "dispatches.parquet").exists():
        dispatches, kernels = one_row(con, f"SELECT count(*), count(DISTINCT kernel) FROM {parquet([stored])}")
    if (stored := out / "events.parquet").exists():
        events = count_rows(con, parquet([stored]))
    samples = next((part.samples for part in parts if part.samples), 0)
    of_one = [note("samples_of_one")] if samples else []
    return StoredProfile(
        dispatches,
        kernels,
        list(dict.fromkeys(c for part in parts for c in part.counters)),
        passes,
        [*warnings, *_notes_once(merged_ranks, "warnings")],
        [*_notes_once(merged_ranks, "notes"), *of_one],
        any(part.sampled for part in parts),
        events,
        samples,
        [place for place, _ in merged_ranks],
        next((part.world_size for part in parts if part.world_size), None),
    )


def _notes_once(merged_ranks: Sequence[tuple[ProcessPlace, StoredProfile]], what: str) -> list[Note]:
    """Merge the notes of all ranks: a note that several ranks share appears once, with the number of other ranks."""
    by_code: dict[str, list[tuple[ProcessPlace, Note]]] = {}
    for place, merged in merged_ranks:
        for one in getattr(merged, what):
            by_code.setdefault(one.code, []).append((place, one))
    notes = []
    for code, of in by_code.items():
        texts = dict.fromkeys(note.text for _, note in of)
        ranks = len({place for place, _ in of})
        if ranks == len(merged_ranks) and len(texts) * len(merged_ranks) == len(of):
            notes += [Note(code, text) for text in texts]
        else:
            place, first = of[0]
            more = f" ({ranks - 1} more ranks likewise)" if ranks > 1 else ""
            notes.append(Note(code, f"{place.words}: {first.text}{more}"))
    return notes


def _passes(parts: Sequence[StoredProfile]) -> list[MergedPass]:
    """Combine passes of the same name, with the bounds of their counters over all ranks.

    Main passes are combined whatever their names are, since some readers name them after files, which differ by rank.
    """
    by_name: dict[str | None, list[MergedPass]] = {}
    for part in parts:
        for number, each in enumerate(part.passes):
            by_name.setdefault(each.name if number else None, []).append(each)
    passes = []
    for of in by_name.values():
        name = of[0].name if len({each.name for each in of}) == 1 else "main"
        bounds: dict[str, tuple[float, float]] = {}
        for each in of:
            for counter, (low, high) in each.bounds.items():
                known = bounds.get(counter, (low, high))
                bounds[counter] = (min(low, known[0]), max(high, known[1]))
        counters = {read: column for each in of for read, column in each.counters.items()}
        rows, wide = sum(each.table.rows for each in of), CounterColumns(bounds=bounds)
        table = PassTable(name, of[0].table.source, rows, counters=list(counters), wide=wide)
        passes.append(MergedPass(table, counters, sum(each.matched for each in of)))
    return passes
