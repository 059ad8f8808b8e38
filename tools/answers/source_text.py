"""Source lines that a profile refers to, read only from the folders that the user allowed with --source-root."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath

from ...analysis.base.problems import BadArgument
from ...analysis.base.temporary_files import OPEN_SAFELY
from ...analysis.base.text import count_text, visible
from ..base.untrusted_text import plain_text

OPTION = "--source-root"
MOST_ROOTS = 32
_BYTES, _LINE = 4 << 20, 400
"""Maximum bytes of a file that is read, and maximum characters of a line that is shown."""
_CONTEXT = 20
_PARTS = 64
"""Maximum parts of a path that is searched for."""
_SUFFIXES = (
    ".asm", ".c", ".cc", ".cl", ".cpp", ".cu", ".cuh", ".cxx", ".f", ".f90", ".h", ".hh", ".hip", ".hpp", ".hxx",
    ".inc", ".inl", ".ipp", ".jl", ".ll", ".mlir", ".ptx", ".py", ".pyx", ".rs", ".s", ".tpp",
)  # fmt: skip
"""File name extensions of source files: a profile may name any file below an allowed folder; others are not shown."""
_roots: ContextVar[tuple[Path, ...]] = ContextVar("source_roots", default=())


@dataclass(frozen=True)
class SourceText:
    """Source lines by line number, or the reason why there are none."""

    lines: dict[int, str] = field(default_factory=dict)
    reason: str = ""


def roots_of(folders: Sequence[str]) -> tuple[Path, ...]:
    """Return the folders that the user allows, with links resolved. Raises BadArgument for an unusable folder."""
    if len(folders) > MOST_ROOTS:
        raise BadArgument(f"{OPTION} is given {len(folders)} times", f"{MOST_ROOTS} folders are allowed at most")
    roots = []
    for folder in folders:
        what = f"{OPTION} {plain_text(folder)} cannot be used"
        try:
            root = Path(folder).expanduser().resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise BadArgument(what, getattr(error, "strerror", None) or str(error), "Name a folder") from error
        if not root.is_dir() or root == Path(root.anchor):
            raise BadArgument(what, "it is not a folder, or it is the root of the file system")
        roots.append(root)
    return tuple(dict.fromkeys(roots))


@contextmanager
def allowing(roots: Sequence[Path]) -> Iterator[None]:
    """Allow reading source files below these folders while a tool answers."""
    token = _roots.set(tuple(roots))
    try:
        yield
    finally:
        _roots.reset(token)


def source_lines(file: str, line: int, context: int = 0) -> SourceText:
    """Return line ``line`` of a file that a profile names, with ``context`` lines before and after it.

    If the path does not exist, the file is searched by the end of its path, because a profile is often read on a
    machine where the source is in another place. Hidden characters are shown as their code points. Never raises:
    ``reason`` says why there is no text.
    """
    roots = _roots.get()
    if not roots:
        return SourceText(reason=f"no folder is allowed: {OPTION} DIR")
    text = _content(file, roots)
    if isinstance(text, str):
        return SourceText(reason=text)
    if not 1 <= line <= len(text):
        return SourceText(reason=f"the file has {count_text(len(text), 'line')}: it is another version")
    context = min(max(context, 0), _CONTEXT)
    first, last = max(1, line - context), min(len(text), line + context)
    return SourceText({n: text[n - 1] for n in range(first, last + 1)})


@lru_cache(maxsize=16)
def _content(file: str, roots: tuple[Path, ...]) -> tuple[str, ...] | str:
    """Return the lines of a file as they are shown, or the reason why they are not."""
    path = _locate_file(file, roots)
    if path is None:
        return f"it is not below an allowed folder ({OPTION})"
    if path.suffix.lower() not in _SUFFIXES:
        return "its name does not have the extension of a source file"
    try:
        content = _read(path, roots)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if content is None:
        return f"it is not a regular file below an allowed folder, or has more than {_BYTES >> 20} MiB"
    if b"\0" in content:
        return "it is not a text file"
    text = content.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
    return tuple(map(_visible_line, text.split("\n")))  # as compilers count lines


def _locate_file(file: str, roots: Sequence[Path]) -> Path | None:
    """Return the resolved path of the file: the path itself, else its longest trailing part that is below a root."""
    named = PurePosixPath(file)
    parts = [part for part in named.parts if part != "/"]
    if not parts or len(parts) > _PARTS or "\0" in file:
        return None
    tried = [Path(named)] if named.is_absolute() else []
    if ".." not in parts:
        tried += [root.joinpath(*parts[start:]) for start in range(len(parts)) for root in roots]
    for path in tried:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            continue
        if _below(real, roots) and real.is_file():
            return real
    return None


def _below(path: Path, roots: Sequence[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _read(path: Path, roots: Sequence[Path]) -> bytes | None:
    """Return the content of a regular file; None if it is not one, too large, or was swapped for one elsewhere."""
    opened = os.open(path, OPEN_SAFELY)
    with os.fdopen(opened, "rb") as handle:
        about = os.fstat(handle.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > _BYTES:
            return None
        here = Path(f"/proc/self/fd/{handle.fileno()}")
        if here.is_symlink() and not _below(here.readlink(), roots):
            return None
        return handle.read(_BYTES)


def _visible_line(line: str) -> str:
    """Return a line with tabs as spaces, and with invisible characters as their code points."""
    return "".join(islice(map(_visible, line.expandtabs(4).rstrip()), _LINE))


def _visible(character: str) -> str:
    if " " <= character <= "~":
        return character
    return character if visible(character) == character else f"[U+{ord(character):04X}]"
