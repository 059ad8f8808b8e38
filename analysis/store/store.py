"""The workload store: a directory of immutable folders of Parquet, published by one rename.

Layout, relative to the store's root::

    format.json                      {"layout": 1}
    tmp/<mark>/                      a draft being written; deleted when its owner is gone (owners.py)
    workload=<id>/manifest.json      what was profiled, with the size of every file
    workload=<id>/<table>.parquet    the tables of TABLES: passes, dispatches, counters, ceilings, clocks, ...
    peak/<device>/<time>.parquet     ceilings that run_peak_benchmarks measured (measured_ceilings.py)
    derived/<digest>/<id>/<table>    results cached per workload (tools/sql/sources.py); may be deleted at any time
    runs/<run_id>/                   state of profiling and benchmark runs (tools/runner); readable only by the owner

Many processes can share a store without a lock or server. A folder is either complete or absent.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.database import sql_literal
from ..base.problems import NotFound, Problem, StoreProblem, near
from ..base.temporary_files import MARK, draft_of, is_made_by, mark, remove, sweep
from .manifest import (
    ID,
    LAYOUT,
    MANIFEST,
    PREFIX,
    check_room,
    check_table_names,
    read_manifest,
    read_small,
    refuse_unusual_table,
)
from .manifest import TABLES as TABLES
from .manifest import Manifest as Manifest
from .wording import problem

if TYPE_CHECKING:
    import duckdb

_KNOWN_ENTRIES = {"tmp", "format.json", "peak", "note", "comparison", "runs", "plots", "derived", "costs", "check"}
_DERIVED_LIFETIME_S = 7 * 86_400
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_DRAFT = re.compile(rf"\..+\.({MARK}|[0-9a-f]{{32}})")
"""The names of drafts made by ``draft_of``."""
_SHARED_PREFIXES = ("s3://", "ducklake:")
"""The prefixes of shared store addresses; their modules are imported only when one is used."""
_FORMAT = "format.json"
_FORMAT_BYTES = 4096


ProgressListener = Callable[[str], None]
"""Receives the progress of a long operation."""


def quiet(_: str) -> None:
    """A listener that ignores progress."""


@dataclass(frozen=True)
class DistantWorkloads:
    """Workloads whose tables are read remotely, by columns, without copying the workloads."""

    manifests: Sequence[Manifest]
    extract: Callable[[str, Sequence[str], Path], None]
    """Writes those of the named columns that exist in a table to a new Parquet file."""
    columns: Callable[[str], list[str]]
    """Lists the columns of a table."""


class Store:
    """A store at ``root``; every method opens what it needs and leaves nothing open."""

    def __init__(self, root: str | Path, *, read_only: bool = False) -> None:
        self.root = Path(root).expanduser().absolute()
        """The folder of its files on this machine; for a shared store, of the local copies."""
        self.address = str(self.root)
        """The address with which ``locate`` finds it again, also in other processes."""
        self.read_only = read_only
        """Whether all writing operations are rejected."""

    @staticmethod
    def locate(explicit: str | Path | None = None, *, read_only: bool = False) -> Store:
        """The store given by the caller, or else ``$ROOFLENS_STORE``, or else the user's data folder.

        A name is a path or the address of a shared store: ``s3://bucket/prefix``, ``ducklake:...`` (remote/). Does not
        access the network. Raises BadArgument for an invalid address or one that contains a password.
        """
        address = str(explicit) if explicit else os.environ.get("ROOFLENS_STORE") or ""
        if address.startswith(_SHARED_PREFIXES):
            remote: Store = import_module(".remote.lake_store", __package__).open_remote_store(
                address, read_only=read_only
            )
            return remote
        data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        return Store(address or Path(data) / "rooflens", read_only=read_only)

    # -- reading -----------------------------------------------------------------------------

    def verify(self) -> None:
        """Raise StoreProblem for a store of a newer rooflens, which may use the same names with another meaning."""
        marker, layout, why = self.root / _FORMAT, None, "it does not state the layout of the store"
        try:
            layout = json.loads(read_small(marker, _FORMAT_BYTES))["layout"]
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            why = getattr(error, "strerror", None) or why
        if isinstance(layout, bool) or not isinstance(layout, int) or layout < 1:
            raise problem("marker_unreadable", marker=marker, why=why, layout=LAYOUT)
        if layout > LAYOUT:
            raise problem("newer_store", root=self.root, layout=layout, supported=LAYOUT)

    def scan(self) -> tuple[list[Manifest], list[str]]:
        """All readable workloads, oldest first, and a message for every damaged or unknown entry."""
        self.verify()
        manifests: list[Manifest] = []
        broken: list[str] = []
        try:
            entries = sorted(os.scandir(self.root), key=lambda e: e.name)
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise problem("store_unreadable", root=self.root, strerror=error.strerror or str(error)) from error
        for entry in entries:
            if not entry.name.startswith(PREFIX):
                if entry.name not in _KNOWN_ENTRIES and not _DRAFT.fullmatch(entry.name):
                    broken.append(f"{entry.name}: not part of a store, ignored.")
                continue
            try:
                manifests.append(read_manifest(Path(entry.path)))
            except StoreProblem as error:
                if os.path.lexists(entry.path):  # otherwise it was deleted in the meantime
                    broken.append(f"{entry.name}: {error.text}")
        return sorted(manifests, key=lambda m: (m.created_ns, m.id)), broken

    def resolve(self, reference: str) -> Manifest:
        """The workload for an id, a unique id prefix, a name (the newest one) or ``latest``.

        Raises NotFound with similar names if nothing matches or several ids do; BadArgument for an empty reference,
        such as from an unset variable in a script.
        """
        if not reference.strip():
            raise problem("empty_reference")
        self.verify()
        if ID.fullmatch(reference):
            try:
                direct = self._direct(reference)
            except StoreProblem as error:
                what = f"Workload {reference} is damaged: {error.what}"
                raise StoreProblem(what, error.why, error.fix) from error
            if direct:
                return direct
        known, broken = self.scan()
        missing = f"There is no workload {reference!r}"
        if not known and broken:
            why = f"nothing in the store can be read; {broken[0]}"
            raise NotFound(missing, why, "list_workloads lists all entries")
        if not known:
            fix = "Import one with import_profile, or run `rooflens demo`"
            raise NotFound(missing, f"the store {self.address} is empty", fix)
        if reference == "latest":
            return known[-1]
        if by_name := [m for m in known if m.name == reference]:
            return by_name[-1]
        by_prefix = [m for m in known if m.id.startswith(reference)]
        if len(by_prefix) == 1:
            return by_prefix[0]
        if by_prefix:
            raise problem("ambiguous_workload", reference=reference, by_prefix=", ".join(m.id for m in by_prefix[:8]))
        hint = near(reference, [*(m.name for m in known), *(m.id for m in known)])
        raise NotFound(missing, hint, "list_workloads shows all")

    def file(self, manifest: Manifest, table: str) -> Path | None:
        """The Parquet file of one table of a workload, or None if the workload does not have the table."""
        name = f"{table}.parquet"
        return self.folder(manifest) / name if name in manifest.files else None

    def folder(self, manifest: Manifest) -> Path:
        """The folder of a workload with all its files."""
        return self._folder_of(manifest.id)

    def _folder_of(self, id: str) -> Path:
        """The place of the folder of a workload on this machine."""
        return self.root / f"{PREFIX}{id}"

    def prepare(self, manifests: Sequence[Manifest]) -> None:
        """Prepare to read several workloads; a local store needs no preparation."""

    def distant(self, manifests: Sequence[Manifest]) -> DistantWorkloads | None:
        """The workloads whose tables are better read remotely than copied, if any; a local store has none."""
        return None

    def _direct(self, reference: str) -> Manifest | None:
        """The workload with this id, found without reading others."""
        folder = self._folder_of(reference)
        return read_manifest(folder) if folder.is_dir() else None

    def derived_folder(self, digest: str) -> Path:
        """The folder of files computed from workloads with the code and catalogue of ``digest``; it may not exist."""
        return self.root / "derived" / digest

    @property
    def runs(self) -> Path:
        """The folder of runs, which may not exist yet."""
        self.verify()
        return self.root / "runs"

    def run_folder(self, run_id: str) -> Path:
        """The folder of one run."""
        return self.runs / run_id

    # -- writing -----------------------------------------------------------------------------

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A new folder to write tables into; it is deleted unless ``publish`` moved it."""
        with self.writing():
            self._create_if_missing()
            (self.root / "tmp").mkdir(exist_ok=True)
            self.sweep_drafts()
            folder = self.root / "tmp" / mark()
            folder.mkdir()
        try:
            with self.writing():
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def new_run(self, run_id: str) -> Path:
        """Create the folder of a run, not accessible to other users, because the output of programs may be private."""
        with self.writing():
            self._create_if_missing()
            self.runs.mkdir(mode=0o700, exist_ok=True)
            folder = self.run_folder(run_id)
            folder.mkdir(mode=0o700)
        return folder

    def publish(self, folder: Path, manifest: Manifest) -> Manifest:
        """Make a draft visible as a workload: fsync every file, write the manifest, rename.

        Returns the manifest with its id, creation time and file sizes filled in.
        """
        with self.writing():
            files = {p.name: p.stat().st_size for p in sorted(folder.glob("*.parquet"))}
            for name in files:
                _fsync(folder / name)
            while True:
                now = time.time_ns()
                done = manifest.model_copy(update={"id": new_id(now), "created_ns": now, "files": files})
                if self._complete(folder, done):
                    return done

    def _complete(self, folder: Path, manifest: Manifest) -> bool:
        """Write the manifest of a draft and rename it; returns False if there is a workload with this id."""
        (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
        _fsync(folder / MANIFEST)
        _fsync(folder)
        try:
            folder.rename(self._folder_of(manifest.id))
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        _fsync(self.root)
        return True

    def add(self, source: Store, manifests: Sequence[Manifest], step: ProgressListener = quiet) -> list[bool]:
        """Copy workloads of another store with their ids, each visible once complete; returns whether each was new.

        Existing workloads stay unchanged, so this can be repeated after any failure. Raises StoreProblem if a different
        workload with the same id exists, or if a file does not match its manifest.
        """
        new = []
        for number, manifest in enumerate(manifests, 1):
            step(f"{number} of {len(manifests)}: {manifest.name}")
            new.append(self._add(source.folder(manifest), manifest))
        return new

    def _add(self, folder: Path, manifest: Manifest) -> bool:
        target = self._folder_of(manifest.id)
        if target.is_dir():
            refuse_other_workload(read_manifest(target), manifest, self.address)
            return False
        check_table_names(manifest)
        for name in manifest.files:
            refuse_unusual_table(folder / name)
        with self.draft() as draft, self.writing():
            check_room(manifest, draft)
            for name, size in manifest.files.items():
                shutil.copyfile(folder / name, draft / name, follow_symlinks=False)
                stated = manifest.sha256.get(name)
                if (draft / name).stat().st_size != size or (stated and sha256_of(draft / name) != stated):
                    raise problem("copy_differs", name=name, manifest=manifest)
                _fsync(draft / name)
            return self._complete(draft, manifest)

    def retag(self, manifest: Manifest, tags: Sequence[str]) -> Manifest:
        """Replace the tags of a workload in one step. The last of several writers wins."""
        done = manifest.model_copy(update={"tags": list(tags)})
        with self.writing():
            write_atomically(self.folder(manifest) / MANIFEST, done.model_dump_json(indent=1))
        return done

    def remove(self, manifests: Sequence[Manifest]) -> None:
        """Delete workloads: each disappears in one step, then its files are deleted."""
        with self.writing():
            self._create_if_missing()
            (self.root / "tmp").mkdir(exist_ok=True)
            for manifest in manifests:
                away = self.root / "tmp" / mark()
                with suppress(FileNotFoundError):
                    self._folder_of(manifest.id).rename(away)
                remove(away)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A context in which disk errors (full, read-only or forbidden) are raised as StoreProblem about this store."""
        try:
            yield
        except OSError as error:
            raise _disk_problem(self.root, error) from error

    def keep(self, draft: Path, target: Path) -> None:
        """Move a complete file of a draft to its place in the store in one step, replacing a file of that name."""
        with self.writing():
            _fsync(draft)
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.rename(target)

    def sweep_derived(self, digest: str) -> None:
        """Delete derived files of deleted workloads, and those of other digests that were not used for a week."""
        for folder in self.root.glob("derived/*"):
            try:
                if folder.name == digest:
                    gone = [f for f in folder.iterdir() if not self._folder_of(f.name).is_dir()]
                else:
                    gone = [folder] if time.time() - folder.stat().st_mtime > _DERIVED_LIFETIME_S else []
            except OSError:  # another process is cleaning up as well
                continue
            for unused in gone:
                shutil.rmtree(unused, ignore_errors=True)

    def sweep_drafts(self) -> None:
        """Delete the drafts of processes that no longer exist."""
        sweep(list(self.root.glob("tmp/*")))

    def discard_drafts(self, pid: int) -> None:
        """Delete the drafts of a process of this machine that was killed."""
        for draft in self.root.glob("tmp/*"):
            if is_made_by(draft.name, pid):
                remove(draft)

    def check_writable(self, fix: str = "") -> None:
        """Raise NotAllowed if the store is open read-only."""
        if self.read_only:
            raise problem("read_only_store", address=self.address, fix=fix)

    def _create_if_missing(self) -> None:
        """Create the store if it does not exist. Raises NotAllowed if it is read-only."""
        self.check_writable("Start the server without --read-only")
        self.root.mkdir(parents=True, exist_ok=True)
        self.verify()
        sweep(path for path in self.root.glob(".*") if _DRAFT.fullmatch(path.name))
        marker = self.root / _FORMAT
        if not marker.exists():
            write_atomically(marker, json.dumps({"layout": LAYOUT}))


def insert_rows(
    con: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Make a temporary table of ``rows`` with the names and types of its ``columns``; missing values are NULL."""
    typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    con.execute(f"CREATE TEMP TABLE {table} ({typed})")
    places = ", ".join("?" for _ in columns)
    con.executemany(f"INSERT INTO {table} VALUES ({places})", [[row.get(name) for name in columns] for row in rows])


def write_table(con: duckdb.DuckDBPyConnection, select: str, path: Path, group: int = 30720) -> int:
    """Stream the rows of ``select`` into one Parquet file and return how many there were.

    ``group`` is the number of rows that are in memory at a time, per thread; rows with long texts need small groups.
    Raises StoreProblem if the disk is full or the file cannot be written; other DuckDB errors are passed on.
    """
    import duckdb

    try:
        done = con.execute(
            f"COPY ({select}) TO {sql_literal(str(path))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group})"
        ).fetchone()
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        path.unlink(missing_ok=True)
        if problem := write_problem(path, error):
            raise problem from error
        raise
    return int(done[0]) if done else 0


def write_problem(path: Path, error: Exception) -> Problem | None:
    """The StoreProblem behind a DuckDB error while writing ``path``; None if reading failed or memory ran out."""
    text, root = str(error), next((p.parent for p in path.parents if p.name == "tmp"), path.parent)
    if any(sign in text for sign in ("No space left", "Disk quota", "File too large", "max_temp_directory_size")):
        return _disk_problem(root, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    if str(path) in text:
        return _disk_problem(root, OSError(errno.EIO, text.splitlines()[0][:200]))
    return None


def write_atomically(path: Path, text: str) -> None:
    """Replace the content of a small file in one step: a reader sees the old or the new content, never a part."""
    with draft_of(path) as draft:
        draft.write_text(text, encoding="utf-8")


def sha256_of(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_store(names: Iterable[str]) -> bool:
    """Whether a folder with entries of these names is, or was, a store."""
    return any(name == _FORMAT or name.startswith(PREFIX) for name in names)


def refuse_other_workload(there: Manifest, ours: Manifest, place: str) -> None:
    """Raise StoreProblem if two workloads with the same id differ in their sizes or checksums."""
    if there.files != ours.files or (there.sha256 and ours.sha256 and there.sha256 != ours.sha256):
        raise problem("other_workload", place=place, ours=ours)


def new_id(now_ns: int) -> str:
    """16 characters, sortable by time: 10 of milliseconds, 6 random (a ULID's alphabet)."""
    ms, digits = now_ns // 1_000_000, []
    for _ in range(10):
        ms, digit = divmod(ms, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits)) + "".join(secrets.choice(_ALPHABET) for _ in range(6))


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _disk_problem(root: Path, error: OSError) -> Problem:
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return problem("store_full", root=root, why=why)
    return problem("store_not_writable", root=root, why=why)
