"""The workload store: a directory of immutable folders of Parquet, published by one rename.

Layout, relative to the store's root::

    format.json                      {"layout": 1}
    tmp/<uuid>/                      a draft being written; swept when its owner is dead
    workload=<id>/manifest.json      what was profiled, with the size of every file
    workload=<id>/<table>.parquet    passes, dispatches, counters, counter_instances, ceilings, kernel_stats
    peak/<device>/<time>.parquet     ceilings that run_peak_benchmarks measured (measured_ceilings.py)
    derived/<digest>/<id>/<table>    what is computed from a workload once (tools/sql/sources.py); may go at any time
    runs/<run_id>/                   what profiling and benchmarks are doing (tools/runner); readable by the owner alone

Many processes may share a store: no lock, no server. A folder is either complete or absent.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pydantic

from .database import sql_literal
from .notes import Note
from .problems import NotAllowed, NotFound, StoreProblem, near

if TYPE_CHECKING:
    import duckdb

LAYOUT = 1
TABLES = ("passes", "dispatches", "counters", "counter_instances", "ceilings", "kernel_stats")
_PREFIX = "workload="
_KNOWN = {"tmp", "format.json", "peak", "note", "comparison", "runs", "plots", "derived"}
_DRAFT_LIFETIME_S = 86_400
_DERIVED_LIFETIME_S = 7 * 86_400
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID = re.compile(r"[0-9a-z]{1,64}")


def _noted(warning: object) -> object:
    """A warning of an old manifest, which held words alone."""
    return Note("recorded", warning) if isinstance(warning, str) else warning


class Manifest(pydantic.BaseModel):
    """What one workload is: where it came from, on what device, and the files that hold it."""

    model_config = pydantic.ConfigDict(extra="ignore")

    layout: int = LAYOUT
    id: str = ""
    name: str
    created_ns: int = 0
    vendor: str | None = None
    arch: str | None = None
    device: str | None = None
    device_uuid: str | None = None
    """Where one device is known beyond doubt to be the one."""
    command: str | None = None
    format: str
    tool: str | None = None
    tool_version: str | None = None
    host: str | None = None
    rank: int | None = None
    tags: list[str] = []
    facts: dict[str, float] = {}
    """Numeric facts of the profiled device, as the profile states them (names of analysis/catalogue/gpus)."""
    dispatches: int = 0
    kernels: int = 0
    counters: list[str] = []
    """Columns of the table counters that hold counters, with their pass suffix where they have one."""
    warnings: list[Annotated[Note, pydantic.BeforeValidator(_noted), pydantic.PlainSerializer(vars)]] = []
    files: dict[str, int] = {}
    """Bytes of every Parquet file, by file name: a truncated file is noticed without opening it."""


class Store:
    """A store at ``root``; every method opens what it needs and keeps nothing open."""

    def __init__(self, root: str | Path, *, read_only: bool = False) -> None:
        self.root = Path(root).expanduser().absolute()
        self.read_only = read_only
        """Whether everything that writes refuses to."""

    @staticmethod
    def locate(explicit: str | Path | None = None) -> Store:
        """The store named by the caller, else ``$ROOFLENS_STORE``, else the user's data folder."""
        if explicit:
            return Store(explicit)
        if env := os.environ.get("ROOFLENS_STORE"):
            return Store(env)
        data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        return Store(Path(data) / "rooflens")

    # -- reading -----------------------------------------------------------------------------

    def scan(self) -> tuple[list[Manifest], list[str]]:
        """All readable workloads, oldest first, and one sentence for every damaged or foreign entry."""
        found: list[Manifest] = []
        broken: list[str] = []
        try:
            entries = sorted(os.scandir(self.root), key=lambda e: e.name)
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise StoreProblem(
                f"The store {self.root} cannot be read",
                error.strerror or str(error),
                "Name another with --store or ROOFLENS_STORE",
            ) from error
        for entry in entries:
            if entry.name in _KNOWN:
                continue
            if not entry.name.startswith(_PREFIX):
                broken.append(f"{entry.name}: not a part of a store, ignored.")
                continue
            try:
                found.append(_read_manifest(entry.path))
            except StoreProblem as problem:
                broken.append(f"{entry.name}: {problem.text}")
        return sorted(found, key=lambda m: (m.created_ns, m.id)), broken

    def resolve(self, reference: str) -> Manifest:
        """The workload meant by an id, a unique id prefix, a name (its newest) or ``latest``.

        Raises NotFound with near names when nothing, or more than one id, fits.
        """
        direct = self.root / f"{_PREFIX}{reference}"
        if _ID.fullmatch(reference) and direct.is_dir():
            try:
                return _read_manifest(str(direct))
            except StoreProblem as problem:
                what = f"Workload {reference} is damaged: {problem.what}"
                raise StoreProblem(what, problem.why, problem.fix) from problem
        known, _ = self.scan()
        if not known:
            raise NotFound(
                f"There is no workload {reference!r}",
                f"the store {self.root} is empty",
                "Import one with import_profile, or run `rooflens demo`",
            )
        if reference in ("latest", ""):
            return known[-1]
        if named := [m for m in known if m.name == reference]:
            return named[-1]
        prefixed = [m for m in known if m.id.startswith(reference)]
        if len(prefixed) == 1:
            return prefixed[0]
        if prefixed:
            raise NotFound(
                f"The id prefix {reference!r} is not unique",
                f"it fits {', '.join(m.id for m in prefixed[:8])}",
                "Give more of the id",
            )
        hint = near(reference, [*(m.name for m in known), *(m.id for m in known)])
        raise NotFound(f"There is no workload {reference!r}", hint, "list_workloads shows all")

    def file(self, manifest: Manifest, table: str) -> Path | None:
        """The Parquet file of one table of a workload, or None where the workload has no such table."""
        name = f"{table}.parquet"
        return self.root / f"{_PREFIX}{manifest.id}" / name if name in manifest.files else None

    def derived(self, digest: str) -> Path:
        """Where files computed from workloads by the code and catalogue of ``digest`` are kept, if any are."""
        return self.root / "derived" / digest

    @property
    def runs(self) -> Path:
        """The folder of runs, which may not exist yet."""
        return self.root / "runs"

    def run_folder(self, run_id: str) -> Path:
        """The folder of one run."""
        return self.runs / run_id

    # -- writing -----------------------------------------------------------------------------

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A fresh folder to write tables into; it is removed unless ``publish`` moved it away."""
        with _disk(self.root):
            self._founded()
            (self.root / "tmp").mkdir(exist_ok=True)
            self._sweep()
            folder = self.root / "tmp" / uuid.uuid4().hex
            folder.mkdir()
            (folder / "owner").write_text(_owner(os.getpid()))
        try:
            with _disk(self.root):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def new_run(self, run_id: str) -> Path:
        """Make the folder of a run, closed to other users: what programs print may be private."""
        with _disk(self.root):
            self._founded()
            self.runs.mkdir(mode=0o700, exist_ok=True)
            folder = self.run_folder(run_id)
            folder.mkdir(mode=0o700)
        return folder

    def publish(self, folder: Path, manifest: Manifest) -> Manifest:
        """Make a draft visible as a workload: fsync every file, write the manifest, rename.

        Returns the manifest with its id, creation time and file sizes filled in.
        """
        with _disk(self.root):
            (folder / "owner").unlink(missing_ok=True)
            files = {p.name: p.stat().st_size for p in sorted(folder.glob("*.parquet"))}
            for name in files:
                _fsync(folder / name)
            while True:
                now = time.time_ns()
                done = manifest.model_copy(update={"id": new_id(now), "created_ns": now, "files": files})
                (folder / "manifest.json").write_text(done.model_dump_json(indent=1))
                _fsync(folder / "manifest.json")
                _fsync(folder)
                try:
                    folder.rename(self.root / f"{_PREFIX}{done.id}")
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        continue
                    raise
                _fsync(self.root)
                return done

    def keep(self, draft: Path, target: Path) -> None:
        """Move a complete file of a draft to its place in the store, in one step; it replaces one of that name."""
        with _disk(self.root):
            _fsync(draft)
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.rename(target)

    def sweep_derived(self, digest: str) -> None:
        """Remove derived files of workloads that are gone, and those of other digests that nobody used for a week."""
        for folder in self.root.glob("derived/*"):
            try:
                if folder.name == digest:
                    gone = [f for f in folder.iterdir() if not (self.root / f"{_PREFIX}{f.name}").is_dir()]
                else:
                    gone = [folder] if time.time() - folder.stat().st_mtime > _DERIVED_LIFETIME_S else []
            except OSError:  # another process sweeps as well
                continue
            for unused in gone:
                shutil.rmtree(unused, ignore_errors=True)

    def discard_drafts(self, pid: int) -> None:
        """Remove what a process of this machine was writing when it was killed."""
        for owner in self.root.glob("tmp/*/owner"):
            try:
                if owner.read_text() == _owner(pid):
                    shutil.rmtree(owner.parent, ignore_errors=True)
            except OSError:
                continue

    def _founded(self) -> None:
        """Make the store where there is none; NotAllowed where it may only be read."""
        if self.read_only:
            raise NotAllowed(
                f"The store {self.root} is open for reading only", fix="Start the server without --read-only"
            )
        self.root.mkdir(parents=True, exist_ok=True)
        marker = self.root / "format.json"
        if not marker.exists():
            write_atomically(marker, json.dumps({"layout": LAYOUT}))

    def _sweep(self) -> None:
        """Remove drafts that are older than a day and whose writer is gone."""
        for draft in (self.root / "tmp").iterdir():
            try:
                if time.time() - draft.stat().st_mtime < _DRAFT_LIFETIME_S:
                    continue
                host, pid = (draft / "owner").read_text().split()
                alive = host != socket.gethostname() or Path(f"/proc/{pid}").exists()
            except (OSError, ValueError):
                alive = False
            if not alive:
                shutil.rmtree(draft, ignore_errors=True)


def write_table(con: duckdb.DuckDBPyConnection, select: str, path: Path) -> int:
    """Stream the rows of ``select`` into one Parquet file and return how many there were.

    A disk that fills up or refuses the file is a StoreProblem; any other DuckDB error passes through.
    """
    import duckdb

    try:
        done = con.execute(
            f"COPY ({select}) TO {sql_literal(str(path))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 30720)"
        ).fetchone()
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        path.unlink(missing_ok=True)
        if problem := write_problem(path, error):
            raise problem from error
        raise
    return int(done[0]) if done else 0


def write_problem(path: Path, error: Exception) -> StoreProblem | None:
    """The StoreProblem behind a DuckDB error while writing ``path``; None where reading failed or memory ran out."""
    text, root = str(error), next((p.parent for p in path.parents if p.name == "tmp"), path.parent)
    if any(sign in text for sign in ("No space left", "Disk quota", "File too large", "max_temp_directory_size")):
        return _disk_problem(root, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    if str(path) in text:
        return _disk_problem(root, OSError(errno.EIO, text.splitlines()[0][:200]))
    return None


def write_atomically(path: Path, text: str) -> None:
    """Replace the content of a small file in one step: a reader sees the old or the new, never a part."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _read_manifest(folder: str) -> Manifest:
    """The manifest of a workload whose files all have their size; StoreProblem for any other folder."""
    again = "Import the profile again"
    try:
        with os.scandir(folder) as entries:
            files = {entry.name: entry.stat() for entry in entries}
        if "manifest.json" not in files:
            raise StoreProblem("no manifest.json", "the folder is not a complete workload", "Delete it")
        state = files["manifest.json"]
        manifest = _parsed(f"{folder}/manifest.json", (state.st_mtime_ns, state.st_ino, state.st_size))
    except (OSError, pydantic.ValidationError) as error:
        raise StoreProblem("manifest.json cannot be read", str(error).splitlines()[0], again) from error
    if manifest.layout > LAYOUT:
        raise StoreProblem(f"layout {manifest.layout} is newer than this rooflens knows", fix="Update rooflens")
    if not folder.endswith(f"/{_PREFIX}{manifest.id}"):
        raise StoreProblem("the manifest belongs to another workload", fix=again)
    for name, size in manifest.files.items():
        if name not in files:
            raise StoreProblem(f"{name} is missing", fix=again)
        if (actual := files[name].st_size) != size:
            raise StoreProblem(f"{name} is truncated or changed ({actual} of {size} bytes)", fix=again)
    return manifest


@lru_cache(maxsize=10_000)
def _parsed(path: str, _state: tuple[int, ...]) -> Manifest:
    """A manifest, parsed once as long as its file stays the same: a store of a thousand is listed at every call."""
    return Manifest.model_validate_json(Path(path).read_bytes())


def new_id(now_ns: int) -> str:
    """16 characters, sortable by time: 10 of milliseconds, 6 random (a ULID's alphabet)."""
    ms, digits = now_ns // 1_000_000, []
    for _ in range(10):
        ms, digit = divmod(ms, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits)) + "".join(secrets.choice(_ALPHABET) for _ in range(6))


def _owner(pid: int) -> str:
    return f"{socket.gethostname()} {pid}"


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _disk(root: Path) -> Iterator[None]:
    """Turn a full, read-only or forbidden disk into a StoreProblem."""
    try:
        yield
    except OSError as error:
        raise _disk_problem(root, error) from error


def _disk_problem(root: Path, error: OSError) -> StoreProblem:
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreProblem(
            f"The store {root} is full", why, "Free space or name another store with --store; nothing was imported"
        )
    return StoreProblem(
        f"The store {root} cannot be written", why, "Check its permissions, or name another with --store"
    )
