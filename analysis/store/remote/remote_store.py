"""A shared store as used by this machine: workloads are listed remotely and read from local copies.

Layout of the shared location, the same in a bucket and in a folder::

    workload=<id>/<table>.parquet, manifest.json     as in a local store
    manifests/<id>.json                              the manifest again, written last: this makes the workload visible

The copies are in ``$XDG_CACHE_HOME/rooflens/<digest of the address>``: a local store, with
``manifests/<id>.<version>.json`` for the listed workloads. Derived files, runs, measured ceilings and the experiment
log stay on this machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import pydantic

from ...base.problems import BadInput, StoreProblem
from ...base.temporary_files import mark, remove
from ..manifest import (
    ID,
    LAYOUT,
    MANIFEST,
    MANIFEST_BYTES,
    PREFIX,
    Manifest,
    check_room,
    check_table_names,
    read_manifest,
    refuse_unusual_table,
)
from ..store import ProgressListener, Store, quiet, refuse_other_workload, sha256_of, write_atomically
from ..wording import problem
from .s3 import Objects

MARKERS = "manifests"
A = TypeVar("A")
B = TypeVar("B")
_CACHED_MANIFEST = re.compile(rf"{ID.pattern}\.[0-9a-f]{{1,64}}\.json")
_AT_ONCE = 8
_MOST_WORKLOADS = 1_000_000
_CACHE_BYTES = 10_000_000_000
CACHE_BYTES = "ROOFLENS_CACHE_BYTES"
"""The environment variable for the maximum size of the local copies, which applies to each shared store separately."""
_IN_USE_S = 3600
"""A copy that was used within this time is not deleted, because it may still be read."""
_TOUCH_S = 60
_A_BATCH = 64
"""The number of workloads that are registered together."""


class StoredWorkload(NamedTuple):
    """A workload whose files are stored: its manifest, the checksum of the stored manifest, and whether it was new."""

    manifest: Manifest
    version: str
    new: bool


class RemoteStore(Store):
    """A store whose workloads are in ``objects``; opening it does not access the network."""

    def __init__(self, address: str, place: Callable[[], Objects], *, read_only: bool = False) -> None:
        super().__init__(cache_folder(address), read_only=read_only)
        self.address = address
        self._place = place
        self._copies = Store(self.root)
        """The local copies, which are written even if the shared store is read-only."""

    @cached_property
    def objects(self) -> Objects:
        """The location of its files."""
        return self._place()

    # -- reading -----------------------------------------------------------------------------

    def scan(self) -> tuple[list[Manifest], list[str]]:
        known = list(self._manifests(self._manifest_versions()))
        manifests = [one for one in known if isinstance(one, Manifest)]
        return sorted(manifests, key=lambda m: (m.created_ns, m.id)), [one for one in known if isinstance(one, str)]

    def _direct(self, reference: str) -> Manifest | None:
        if len(reference) < _ID_LENGTH:
            return None
        content = self.objects.read(marker(reference), MANIFEST_BYTES)
        return None if content is None else parse_manifest(content, reference)

    def folder(self, manifest: Manifest) -> Path:
        folder = self._folder_of(manifest.id)
        try:
            copy = read_manifest(folder)
        except StoreProblem:
            copy = None
        if copy is None or copy.files != manifest.files or copy.sha256 != manifest.sha256:
            self._fetch(manifest)
        _touch(folder)
        return folder

    def prepare(self, manifests: Sequence[Manifest]) -> None:
        """Copy several workloads to this machine at once."""
        if len(missing := self.missing(manifests)) > 1:
            for _ in _at_once(self.folder, missing):
                pass

    def missing(self, manifests: Iterable[Manifest]) -> list[Manifest]:
        """The workloads without a local copy."""
        return [m for m in manifests if not self._folder_of(m.id).is_dir()]

    # -- writing -----------------------------------------------------------------------------

    def publish(self, folder: Path, manifest: Manifest) -> Manifest:
        published = super().publish(folder, manifest)
        local = self._folder_of(published.id)
        try:
            self.add(self._copies, [published])
        except BaseException as error:
            remove(local)  # no local copy without the shared workload
            if not isinstance(error, StoreProblem):
                raise
            fix = f"{error.fix}. Or store it in a folder now (--store DIR), and upload it later with rooflens push"
            raise problem("nothing_stored", error=error, fix=fix) from error
        return read_manifest(local)

    def add(self, source: Store, manifests: Sequence[Manifest], step: ProgressListener = quiet) -> list[bool]:
        self.check_writable()
        new: list[bool] = []
        for first in range(0, len(manifests), _A_BATCH):
            batch = manifests[first : first + _A_BATCH]
            stored = []
            for one in _at_once(lambda m: self._upload(source.folder(m), m), batch):
                stored.append(one)
                step(f"{first + len(stored)} of {len(manifests)}: {one.manifest.name}")
            new += self._announce(stored)
        return new

    def _upload(self, folder: Path, manifest: Manifest) -> StoredWorkload:
        """Store the files of a workload, and finally the file that makes it visible; existing files are not sent
        again."""
        complete = manifest.model_copy(update={"sha256": {name: sha256_of(folder / name) for name in manifest.files}})
        check_manifest(complete)
        if manifest.sha256:
            refuse_other_workload(complete, manifest, str(folder))
        content = complete.model_dump_json(indent=1).encode()
        there = self.objects.read(marker(complete.id), MANIFEST_BYTES)
        if there is None:
            for name in complete.files:
                self.objects.upload(folder / name, f"{PREFIX}{complete.id}/{name}", complete.sha256[name])
            with self._copies.draft() as draft, self.writing():
                (draft / MANIFEST).write_bytes(content)
                self.objects.upload(draft / MANIFEST, f"{PREFIX}{complete.id}/{MANIFEST}", sha256_of(draft / MANIFEST))
                if folder.parent == self.root:  # then it is a local copy like the downloaded ones
                    (draft / MANIFEST).replace(folder / MANIFEST)
            if not self.objects.create(marker(complete.id), content):
                there = self.objects.read(marker(complete.id), MANIFEST_BYTES)
        if there is None:
            return StoredWorkload(complete, hashlib.sha256(content).hexdigest(), new=True)
        already_there = parse_manifest(there, complete.id)
        refuse_other_workload(already_there, complete, self.address)
        return StoredWorkload(already_there, hashlib.sha256(there).hexdigest(), new=False)

    def _announce(self, stored: Sequence[StoredWorkload]) -> list[bool]:
        """Register workloads whose files are stored; returns whether each was new."""
        return [one.new for one in stored]

    def retag(self, manifest: Manifest, tags: Sequence[str]) -> Manifest:
        self.check_writable()
        retagged = manifest.model_copy(update={"tags": list(tags)})
        with self._copies.draft() as draft:
            file = draft / MANIFEST
            with self._copies.writing():
                file.write_bytes(retagged.model_dump_json(indent=1).encode())
            version = sha256_of(file)
            self.objects.upload(file, f"{PREFIX}{retagged.id}/{MANIFEST}", version)
            self._restate(retagged, version, lambda: self.objects.upload(file, marker(retagged.id), version))
        return retagged

    def _restate(self, manifest: Manifest, version: str, put: Callable[[], None]) -> None:
        """Replace the manifest that makes a workload visible."""
        put()

    def remove(self, manifests: Sequence[Manifest]) -> None:
        self.check_writable()
        self._forget([m.id for m in manifests])
        for manifest in manifests:
            names = [*manifest.files, MANIFEST]
            self.objects.delete(f"{PREFIX}{manifest.id}/{name}" for name in names)
            self._give_up(self._folder_of(manifest.id))

    def _forget(self, ids: Sequence[str]) -> None:
        """Make workloads invisible before their files are deleted."""
        self.objects.delete(marker(id) for id in ids)

    # -- listings ----------------------------------------------------------------------------

    def _manifest_versions(self) -> dict[str, str]:
        """Id -> version of the manifest of every visible workload."""
        versions = {}
        for key, version in islice(self.objects.listing(f"{MARKERS}/").items(), _MOST_WORKLOADS):
            id = key.removeprefix(f"{MARKERS}/").removesuffix(".json")
            if ID.fullmatch(id):
                versions[id] = hashlib.sha256(version.encode()).hexdigest()
        return versions

    def _manifests(self, versions: Mapping[str, str]) -> Iterable[Manifest | str]:
        """The manifest of every listed workload, or a message on what is wrong with it; each is downloaded only
        once."""
        folder = self.root / MARKERS
        with self._copies.writing():
            folder.mkdir(parents=True, exist_ok=True)
        names = {id: f"{id}.{version[:32]}.json" for id, version in versions.items()}
        cached = {entry.name for entry in os.scandir(folder)}
        lacking = [id for id in versions if names[id] not in cached]

        problems: dict[str, str] = {}

        def bring_or_note(id: str) -> None:
            try:
                content = self.objects.read(marker(id), MANIFEST_BYTES)
                if content is not None:
                    self._check_marker(content, versions[id], id)
                    with self._copies.writing():
                        write_atomically(folder / names[id], content.decode(errors="replace"))
            except BadInput as problem:
                problems[id] = f"{id}: {problem.text}"

        for _ in _at_once(bring_or_note, lacking, 2 * _AT_ONCE):
            pass
        for stale in filter(_CACHED_MANIFEST.fullmatch, cached - set(names.values())):
            with suppress(OSError):  # another process with a newer listing may need it
                if time.time() - (folder / stale).stat().st_mtime > _IN_USE_S:
                    (folder / stale).unlink()
        for id in versions:
            if id not in problems and not (folder / names[id]).exists():  # another process deleted it locally
                bring_or_note(id)
            if id in problems:
                yield problems[id]
                continue
            try:
                yield parse_manifest((folder / names[id]).read_bytes(), id)
            except FileNotFoundError:  # removed from the shared store in the meantime
                continue
            except StoreProblem as problem:
                yield f"{id}: {problem.text}"

    def _check_marker(self, content: bytes, version: str, id: str) -> None:
        """Raise an error if a manifest is not the registered one."""

    # -- copies ------------------------------------------------------------------------------

    def _fetch(self, manifest: Manifest) -> None:
        """Copy a workload to this machine; it appears once complete, after its sizes and checksums were verified."""
        check_manifest(manifest)
        with self._copies.draft() as draft:
            check_room(manifest, draft)
            with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(manifest.files)))) as pool:
                downloads = {
                    name: pool.submit(self.objects.fetch, f"{PREFIX}{manifest.id}/{name}", draft / name, size)
                    for name, size in manifest.files.items()
                }
            for name, future in downloads.items():
                if future.result() != manifest.sha256[name]:
                    raise problem("wrong_checksum", name=name, manifest=manifest)
                refuse_unusual_table(draft / name)
            (draft / MANIFEST).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
            target = self._folder_of(manifest.id)
            if target.is_dir():
                self._give_up(target)
            try:
                draft.rename(target)
            except OSError:
                if not target.is_dir():  # otherwise another process was faster
                    raise
        self._make_room()

    def _make_room(self) -> None:
        """Delete the least recently used copies until the limit is met."""
        limit = _limit()
        copies = []
        for folder in self.root.glob(f"{PREFIX}*"):
            with suppress(OSError):
                size = sum(file.stat().st_size for file in folder.iterdir())
                copies.append((folder.stat().st_mtime, size, folder))
        total = sum(size for _, size, _ in copies)
        for used, size, folder in sorted(copies):
            if total <= limit or time.time() - used < _IN_USE_S:
                return
            self._give_up(folder)
            total -= size

    def _give_up(self, folder: Path) -> None:
        """Delete a copy; it is first moved away in one step, so that no reader sees a partial copy."""
        away = self.root / "tmp" / mark()
        with suppress(OSError):
            away.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(away)
            remove(away)


_ID_LENGTH = 16


def _at_once(work: Callable[[A], B], items: Sequence[A], number: int = _AT_ONCE) -> Iterator[B]:
    """The results of ``work`` in the order of ``items``, from several threads; the first error cancels pending
    items."""
    if not items:
        return
    with ThreadPoolExecutor(number) as pool:
        pending = [pool.submit(work, item) for item in items]
        try:
            for one in pending:
                yield one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def cache_folder(address: str) -> Path:
    """The folder of the local copies of a shared store."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "rooflens" / hashlib.sha256(address.encode()).hexdigest()[:16]


@lru_cache(maxsize=10_000)
def parse_manifest(content: bytes, id: str) -> Manifest:
    """Parse the manifest of workload ``id`` from a shared store, which is not trusted. Raises StoreProblem."""
    try:
        manifest = Manifest.model_validate_json(content)
    except (pydantic.ValidationError, RecursionError) as error:
        what = f"the manifest of {id} cannot be read"
        raise StoreProblem(
            what, "it is not a manifest", f"Delete {marker(id)} there, and push the workload again"
        ) from error
    if manifest.id != id or not ID.fullmatch(id):
        raise problem("other_shared_manifest", id=id)
    check_manifest(manifest)
    return manifest


def check_manifest(manifest: Manifest) -> None:
    """Raise StoreProblem for a manifest that lists files that are not tables, or lacks a checksum."""
    if manifest.layout > LAYOUT:
        raise problem("newer_shared_layout", manifest=manifest)
    check_table_names(manifest)
    if manifest.files.keys() != manifest.sha256.keys():
        raise problem("no_checksums", manifest=manifest)


def marker(id: str) -> str:
    """The key of a workload's manifest that makes it visible."""
    return f"{MARKERS}/{id}.json"


def _touch(folder: Path) -> None:
    """Record that a copy is in use, at intervals."""
    with suppress(OSError):
        if time.time() - folder.stat().st_mtime > _TOUCH_S:
            os.utime(folder)


def _limit() -> int:
    text = os.environ.get(CACHE_BYTES, "")
    if not text:
        return _CACHE_BYTES
    try:
        return int(float(text))
    except (ValueError, OverflowError) as error:
        raise problem("bad_cache_size", cache_bytes=CACHE_BYTES) from error
