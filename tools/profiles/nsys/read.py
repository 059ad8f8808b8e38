"""Read the SQLite export of Nsight Systems: kernels, copies, fills, calls, NVTX ranges, and stacks of the host.

Tables and columns are those of NVIDIA's "SQLite Export Schema Reference". A table exists only if something was recorded
for it, and newer versions have more columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, command_advice
from ....analysis.base.text import count_text
from ....analysis.catalogue.targets import plausible_facts, target_of_device
from ....analysis.store.store import write_table
from ...base import progress, size_limits
from ...base.profile_files import files_of_format, head
from ...base.untrusted_text import bounded_name, plain_text
from ..event_layout import EventLayout
from ..merging.contract import PassTable, count_rows, launch_pass, parquet, row_of
from ..merging.ranks import ProcessPlace, only_value, place_of_name, rank_number
from ..parsing.spool import Spool
from ..parsing.sqlite_database import MAGIC, Database, open_database
from ..reader import Profile, ProfileFiles
from ..timelines.call_kinds import cuda_copy
from ..timelines.timeline_tables import EVENT, RANGE, TimelineQueries
from .stacks import CHAINS, OF_STACKS, HostStacks

_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_STRINGS = "StringIds"
_LAYOUT = EventLayout(__file__)
_TABLES: dict[str, dict[str, Any]] = _LAYOUT.stated["tables"]
"""Kind of data -> its table and columns."""
_SMALL = 1000


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file, or a folder with such files at most one level deep."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return files_of_format(path, _SUFFIXES, _is_export)


def _is_export(file: Path) -> bool:
    if head(file, len(MAGIC)) != MAGIC:
        return False
    with open_database(file) as db:
        return bool(db.parts(_STRINGS)) and any(db.parts(one["table"]) for one in _TABLES.values())


def read(files: ProfileFiles) -> Profile:
    """Return the export at ``files.path``; BadInput if it is not an export, or has no events."""
    path = files.path
    exports = files.or_itself(_files(path))
    if len(exports) != 1:
        what = "more than one export" if exports else "no SQLite export"
        advice = command_advice("Export the report", "nsys export --type sqlite REPORT.nsys-rep")
        raise BadInput(f"{path.name} contains {what} of Nsight Systems", fix=advice)
    (file,) = exports
    with open_database(file) as db:
        if not db.parts(_STRINGS):
            raise BadInput(f"{file.name} is not an export of Nsight Systems", f"it has no table {_STRINGS}")
        return _Export(files, db).profile()


class _Export:
    """One export file, staged as tables."""

    def __init__(self, files: ProfileFiles, db: Database) -> None:
        self.path, self.con, self.work, self.db = files.path, files.con, files.work, db
        self.staged = {
            what: self._spool(what, one["table"], self._columns(what), one.get("texts", {}))
            for what, one in _TABLES.items()
            if db.parts(one["table"])
        }
        names = self._spool("names", _STRINGS, {"id": "id"}, {"text": "value"})
        self.names = f"(SELECT DISTINCT ON (id) * FROM {names})"
        self.stacks = HostStacks(self.con, self.work, self.staged, self.names)

    def profile(self) -> Profile:
        """Return what the export contains."""
        notes = []
        skipped = _LAYOUT.stated["not_read"]
        if unread := [f"{what} ({table})" for table, what in skipped.items() if self.db.parts(table)]:
            notes.append(Note("not_read", f"Skipped: {', '.join(unread)}."))
        if graphs := self.graphs():
            text = (
                f"CUDA graphs were launched as a whole, {count_text(graphs, 'time')}, so their kernels are "
                "unknown. nsys profile --cuda-graph-trace=node records every kernel."
            )
            notes.append(Note("graphs", text))
        device, arch, facts = self.device()
        launches = self.launches()
        what = f"{self.db.path.name} contains no CUDA activity"
        refusal = BadInput(what, "the program was profiled without --trace=cuda,nvtx")
        timeline = TimelineQueries(self.events(), self.ranges(), refusal=lambda _: refusal, notes=notes)
        stacks = self.stacks.recording()
        epochs = self._small_table("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
        epoch = only_value(n for (n,) in epochs if isinstance(n, int))
        return Profile(
            name=self.path.name if self.path.is_dir() else self.path.stem,
            vendor="nvidia",
            arch=arch,
            device=device,
            host=self._host(),
            rank=self.place(self.path).rank,
            tool="nsys",
            facts=facts,
            passes=[launches],
            places=[self.place(self.db.path)],
            timeline=None if stacks and self.staged.keys() <= OF_STACKS else timeline,
            stacks=stacks,
            unix_shift=None if epoch is None else -epoch,
        )

    def launches(self) -> PassTable:
        """Return the kernels as launches, in the order of their start."""
        if "kernel" not in self.staged:
            return PassTable("main", self.db.path)
        path = self.work / "nsys_launches.parquet"
        count = write_table(
            self.con,
            "SELECT row_number() OVER (ORDER BY start_ns, end_ns, correlation) - 1 AS row, k.*, "
            f"{bounded_name('coalesce(n.text, s.text)')} AS kernel FROM {self.staged['kernel']} k "
            f"LEFT JOIN {self.names} n ON n.id = k.name LEFT JOIN {self.names} s ON s.id = k.short",
            path,
        )
        self.kernels = parquet([path])
        if not count:
            return PassTable("main", self.db.path)
        return launch_pass(self.db.path, self.kernels, count, _LAYOUT.columns(_LAYOUT.stated["launches"]))

    def events(self) -> str:
        """Return SQL for all events, with the columns EVENT."""
        rows = {
            what: f"(SELECT r.*, n.text FROM {staged} r LEFT JOIN {self.names} n ON n.id = r.name)"
            if _TABLES[what]["shared"] == "host"
            else staged
            for what, staged in self.staged.items()
        }
        if "kernel" in rows:
            rows["kernel"] = self.kernels
        if "call" in rows:
            rows["call"] = f"(SELECT * FROM {rows['call']} LEFT JOIN {self.stacks.calls} USING (chain))"
        if "wait" in rows and "call" in rows:  # the host side is among the calls
            same = "c.correlation = w.correlation AND c.pid = w.pid"
            rows["wait"] = f"{rows['wait']} w ANTI JOIN {self.staged['call']} c ON {same}"
        events = _LAYOUT.select("events", EVENT, rows, COPY=cuda_copy("way"), PINNED=self._pinned_sql())
        return events or f"SELECT {row_of(EVENT, {})} WHERE false"

    def graphs(self) -> int:
        """Return the number of launches of whole graphs."""
        return count_rows(self.con, self.staged["graph"]) if "graph" in self.staged else 0

    def ranges(self) -> str:
        """Return SQL for the NVTX ranges, with the columns RANGE; empty if there are none."""
        rows = f"(SELECT r.*, coalesce(r.text, n.text) AS shown FROM {self.staged.get('range')} r "
        rows += f"LEFT JOIN {self.names} n ON n.id = r.name)"
        return _LAYOUT.select("ranges", RANGE, {"range": rows} if "range" in self.staged else {})

    def _pinned_sql(self) -> str:
        """Return SQL for whether the host side of a copy is pinned, by the file's labels for kinds of memory."""
        if not self.db.parts("ENUM_CUDA_MEM_KIND"):
            return "NULL"
        rows = self._few_rows("ENUM_CUDA_MEM_KIND", ("CAST(id AS INTEGER)", "substr(CAST(label AS TEXT), 1, 80)"))
        known = [(n, str(label).casefold()) for n, label in rows if n is not None]
        of = {word: [n for n, label in known if word in label] for word in ("pageable", "pinned")}
        host = "CASE WHEN way IN (1, 3) THEN source WHEN way IN (2, 4) THEN target END"
        cases = [(of["pageable"], "false"), (of["pinned"], "true")]
        whens = " ".join(f"WHEN {host} IN ({', '.join(map(str, ids))}) THEN {value}" for ids, value in cases if ids)
        return f"CASE {whens} END" if whens else "NULL"

    def device(self) -> tuple[str | None, str | None, dict[str, float]]:
        """Return the name, target and facts of the GPU that was used, or of the first one that the export describes."""
        columns = ("name", "computeMajor", "computeMinor", "smCount", "totalMemory", "cuDevice")
        if not (gpus := self._small_table("TARGET_INFO_GPU", columns)):
            return None, None, {}
        used: set[Any] = set()
        if "kernel" in self.staged:
            used = {n for (n,) in self.con.execute(f"SELECT DISTINCT device FROM {self.staged['kernel']}").fetchall()}
        name, major, minor, units, memory, _ = next((gpu for gpu in gpus if gpu[5] in used), gpus[0])
        known = {"cu_per_gpu": units, "memory_bytes": memory}
        facts = plausible_facts(known)
        device = plain_text(str(name or ""), 80) or None
        return device, target_of_device("nvidia", device, (major, minor), facts), facts

    def place(self, file: Path) -> ProcessPlace:
        """Return the place of its process: as MPI reported it to nsys, else from the file name."""
        ranks = set()
        if self.db.parts("MPI_RANKS") and "rank" in self.db.columns("MPI_RANKS"):
            ranks = {rank for (rank,) in self._few_rows("MPI_RANKS", ("CAST(rank AS INTEGER)",))}
        stated = ProcessPlace(rank_number(only_value(ranks)), self._host())
        return stated.or_else(place_of_name(Path(file.name)))

    def _host(self) -> str | None:
        if not self.db.parts("TARGET_INFO_SYSTEM_ENV"):
            return None
        rows = self._few_rows(
            "TARGET_INFO_SYSTEM_ENV", ("substr(CAST(value AS TEXT), 1, 200)",), "WHERE name = 'Hostname'"
        )
        return plain_text(str(rows[0][0] or ""), 80) or None if rows else None

    def _small_table(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the rows of a small table, with None for columns that it lacks."""
        if not self.db.parts(table):
            return []
        has = self.db.columns(table)
        return self._few_rows(table, [c if c in has else "NULL" for c in columns])

    def _few_rows(self, table: str, picks: Sequence[str], where: str = "") -> list[tuple[Any, ...]]:
        return [row for batch in self.db.read(table, picks, f"{where} LIMIT {_SMALL}") for row in batch]

    def _columns(self, what: str) -> dict[str, str]:
        """Return SQL of SQLite by column of a table of layout.toml.

        NVIDIA does not document the columns with the file and line of a frame, which are taken by their names.
        """
        columns = _LAYOUT.columns(_TABLES[what])
        if what in CHAINS.values():
            has = sorted(self.db.columns(_TABLES[what]["table"]))
            for part in ("file", "line"):
                of_source = re.compile(rf"(source)?{part}(name|no|number|id)?", re.IGNORECASE)
                columns[part] = next((one for one in has if of_source.fullmatch(one)), "NULL")
        return columns

    def _spool(self, name: str, table: str, picks: Mapping[str, str], texts: Mapping[str, str]) -> str:
        """Write the rows of a table to Parquet. SQLite allows any type in any column; non-integers become NULL."""
        has, known = self.db.columns(table), {}
        for column, sql in picks.items():
            lacking = [word for word in sql.replace('"', "").split() if word.isidentifier() and word not in has]
            value = f"CASE WHEN typeof({sql}) = 'integer' THEN {sql} END"
            known[column] = "NULL" if lacking else value
        for column, source in texts.items():
            known[column] = f"substr(CAST({source} AS TEXT), 1, {size_limits.TEXT})" if source in has else "NULL"
        columns = {c: "VARCHAR" if c in texts else "BIGINT" for c in known}
        spool, rows = Spool(self.con, self.work / f"nsys_{name}", columns), 0
        for batch in self.db.read(table, list(known.values())):
            spool.add(batch)
            rows += len(batch)
            progress.report(f"read {count_text(rows, 'row')} of {table} of {self.db.path.name}")
        return parquet(spool.close())
