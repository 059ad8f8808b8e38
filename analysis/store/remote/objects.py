"""The files of a shared store: keys with content, in a bucket or below a folder that several machines share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from ...base.problems import Problem, Unreachable
from ...base.temporary_files import mark
from ..manifest import read_small, refuse_unusual_table
from ..store import sha256_of
from ..wording import problem


def missing(key: str) -> Problem:
    """The error for an object that a manifest lists but that does not exist."""
    return problem("object_missing", key=key)


def wrong_size(key: str, actual: int, size: int) -> Problem:
    """The error for an object whose size does not match its manifest."""
    return problem("object_changed", key=key, actual=actual, size=size)


class Folder:
    """Objects as files below a folder that all machines share.

    Every method raises StoreProblem if the place cannot be reached or denies access.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.place = root, f"{root}/"
        """``place`` is the address for display, and the data path of a catalogue."""

    def listing(self, prefix: str) -> dict[str, str]:
        """All keys with this prefix, each with a version that changes with the content."""
        versions = {}
        try:
            with os.scandir(self.root / prefix) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                        modified_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                        versions[f"{prefix}{entry.name}"] = f"{modified_ns}"
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise self._problem(error) from error
        return dict(sorted(versions.items()))

    def read(self, key: str, most: int) -> bytes | None:
        """The content of a small object, or None if it does not exist. Raises StoreProblem for more than ``most``
        bytes."""
        try:
            return read_small(self.root / key, most)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._problem(error) from error

    def fetch(self, key: str, target: Path, size: int) -> str:
        """Write an object to a new file and return its SHA-256. Raises StoreProblem if its size is not ``size``
        bytes."""
        try:
            if (actual := (self.root / key).lstat().st_size) != size:
                raise wrong_size(key, actual, size)
            refuse_unusual_table(self.root / key)
            shutil.copyfile(self.root / key, target, follow_symlinks=False)
        except FileNotFoundError as error:
            raise missing(key) from error
        except OSError as error:
            raise self._problem(error) from error
        return sha256_of(target)

    def upload(self, source: Path, key: str, sha256: str) -> None:
        """Store a file, unless the same content is already there."""
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
        """Store a small object in one step; returns False without any change if the key exists."""
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
        """Delete objects; missing ones are not an error."""
        for key in keys:
            try:
                (self.root / key).unlink(missing_ok=True)
                if (self.root / key).parent != self.root and not any((self.root / key).parent.iterdir()):
                    (self.root / key).parent.rmdir()
            except FileNotFoundError:  # the folder is gone, and so are its files
                continue
            except OSError as error:
                raise self._problem(error) from error

    def _problem(self, error: OSError) -> Unreachable:
        why = error.strerror or str(error)
        return Unreachable(
            f"The shared folder {self.root} cannot be used", why, "Check that it is mounted, and its permissions"
        )
