"""Where the files of a shared store lie: keys with content, in a bucket or below a folder that machines share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from ...base.problems import StoreProblem, Unreachable
from ...base.temporary_files import mark
from ...base.text import count_text
from ..manifest import read_small
from ..store import sha256_of


class StoredObject(NamedTuple):
    """What a listing tells of one key: ``version`` changes with the content."""

    key: str
    size: int
    version: str


class Objects(Protocol):
    """Files under keys. Every method raises StoreProblem where the place cannot be reached or refuses."""

    place: str
    """For people, and as the data path of a catalogue."""

    def listing(self, prefix: str) -> list[StoredObject]:
        """All keys that start so."""
        ...

    def read(self, key: str, most: int) -> bytes | None:
        """The content of a small object; None where there is none. StoreProblem for more than ``most`` bytes."""
        ...

    def fetch(self, key: str, target: Path, size: int) -> str:
        """Write an object of ``size`` bytes to a new file and return its SHA-256; StoreProblem where it is another."""
        ...

    def upload(self, source: Path, key: str, sha256: str) -> None:
        """Store a file, unless the same content is there already."""
        ...

    def create(self, key: str, content: bytes) -> bool:
        """Store a small object in one step; False, and nothing is changed, where the key is taken."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are gone already are no error."""
        ...


def missing(key: str) -> StoreProblem:
    """An object that a manifest names and that is not there."""
    return StoreProblem(
        f"{key} is missing",
        "the workload is being deleted, or somebody deleted a part of it",
        "Try again; if it stays, delete its manifest there and push the workload again from a store that has it",
    )


def wrong_size(key: str, actual: int, size: int) -> StoreProblem:
    """An object that is not what its manifest says."""
    return StoreProblem(
        f"{key} has {count_text(actual, 'byte')} instead of {size}",
        "it was changed after it was stored, or its manifest was",
        "Try again; if it stays, delete its manifest there and push the workload again from a store that has it",
    )


class Folder:
    """Objects as files below a folder that every machine sees."""

    def __init__(self, root: Path) -> None:
        self.root, self.place = root, f"{root}/"

    def listing(self, prefix: str) -> list[StoredObject]:
        objects = []
        try:
            with os.scandir(self.root / prefix) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                        state = entry.stat(follow_symlinks=False)
                        objects.append(StoredObject(f"{prefix}{entry.name}", state.st_size, f"{state.st_mtime_ns}"))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._problem(error) from error
        return sorted(objects)

    def read(self, key: str, most: int) -> bytes | None:
        try:
            return read_small(self.root / key, most)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._problem(error) from error

    def fetch(self, key: str, target: Path, size: int) -> str:
        try:
            if (actual := (self.root / key).lstat().st_size) != size:
                raise wrong_size(key, actual, size)
            shutil.copyfile(self.root / key, target, follow_symlinks=False)
        except FileNotFoundError as error:
            raise missing(key) from error
        except OSError as error:
            raise self._problem(error) from error
        return sha256_of(target)

    def upload(self, source: Path, key: str, sha256: str) -> None:
        target = self.root / key
        try:
            if target.is_file() and target.stat().st_size == source.stat().st_size and sha256_of(target) == sha256:
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".{target.name}.{mark()}")
            shutil.copyfile(source, draft)
            draft.replace(target)
        except OSError as error:
            raise self._problem(error) from error

    def create(self, key: str, content: bytes) -> bool:
        target = self.root / key
        draft = target.with_name(f".{target.name}.{mark()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(content)
            try:
                target.hardlink_to(draft)
            except FileExistsError:
                return False
            finally:
                draft.unlink()
        except OSError as error:
            raise self._problem(error) from error
        return True

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                (self.root / key).unlink(missing_ok=True)
                if (self.root / key).parent != self.root and not any((self.root / key).parent.iterdir()):
                    (self.root / key).parent.rmdir()
            except FileNotFoundError:  # the folder is gone: so is what was in it
                continue
            except OSError as error:
                raise self._problem(error) from error

    def _problem(self, error: OSError) -> Unreachable:
        why = error.strerror or str(error)
        return Unreachable(
            f"The shared folder {self.root} cannot be used", why, "Check that it is mounted, and its permissions"
        )
