"""Read the ELF structure of a code object through a window of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import IO, Any

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from ...analysis.base.problems import BadInput, LimitExceeded
from ...analysis.base.text import count_text

READ_LIMIT = 64 << 20
"""Maximum bytes of one read; a table of notes or a compressed bundle is never larger."""


@dataclass
class Budget:
    """Remaining limits for one file, so that a small file cannot occupy rooflens for long or exhaust its memory."""

    headers: int = 300_000
    objects: int = 10_000
    kernels: int = 100_000
    note_bytes: int = 64 << 20
    unpacked_bytes: int = 2 << 30

    def spend(self, what: str, amount: int) -> None:
        """Take ``amount`` from one limit; LimitExceeded if it is used up."""
        left = getattr(self, what)
        if amount > left:
            allowed = getattr(Budget, what)
            raise LimitExceeded(
                f"The file has too much to read ({what.replace('_', ' ')})",
                f"{allowed:,} are allowed, {allowed - left:,} were read and {amount:,} more are announced",
                "Extract the wanted code object with clang-offload-bundler --unbundle",
            )
        setattr(self, what, left - amount)


class FileWindow:
    """A read-only view of ``size`` bytes of a file that pyelftools accepts as a file and that limits read sizes."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        self._file, self._start, self.size, self._at = file, start, size, 0

    def read(self, count: int = -1) -> bytes:
        """Read like a file; BadInput, before memory is allocated, for more than READ_LIMIT."""
        left = max(self.size - self._at, 0)
        count = left if count < 0 else min(count, left)
        if count > READ_LIMIT:
            raise BadInput(
                "The file cannot be used",
                f"one of its tables has {count_text(count, 'byte')}; at most {READ_LIMIT:,} can be read",
            )
        self._file.seek(self._start + self._at)
        data = self._file.read(count)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek like a file."""
        self._at = max((0, self._at, self.size)[whence] + offset, 0)
        return self._at

    def tell(self) -> int:
        """Return the position, like a file."""
        return self._at

    def first_bytes(self, count: int) -> bytes:
        """Return the first bytes, or fewer if the view is shorter."""
        self.seek(0)
        return self.read(count)

    def read_at(self, offset: int, count: int) -> bytes:
        """Return exactly these bytes; BadInput if the file ends before them."""
        part = self.part(offset, count)
        data = part.read()
        if len(data) < count:
            raise self._cut_problem(offset, count)
        return data

    def part(self, offset: int, size: int) -> FileWindow:
        """Return a view of a part; BadInput if it exceeds this view."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self._cut_problem(offset, size)
        return FileWindow(self._file, self._start + offset, size)

    def _cut_problem(self, offset: int, size: int) -> BadInput:
        return BadInput(
            "The file is truncated or damaged",
            f"{count_text(size, 'byte is', 'bytes are')} announced at offset {offset:,} of {self.size:,}",
            "Copy or build it again",
        )


MAGIC = b"\x7fELF"
_NOTE = Struct("<III")


@dataclass(frozen=True)
class Elf:
    """An ELF file in a window, with its machine and target flags."""

    file: ELFFile
    window: FileWindow
    machine: str | int
    flags: int

    def sections_named(self, budget: Budget, *starts: bytes) -> list[FileWindow]:
        """Return the sections whose names begin with any of ``starts``."""
        sections, index = self._sections(budget), _read_or_refuse(self.file.get_shstrndx)
        if index >= len(sections):
            return []
        names = self.window.part(sections[index]["sh_offset"], sections[index]["sh_size"]).read()
        named = [header for header in sections if names.startswith(starts, header["sh_name"])]
        return [self.window.part(header["sh_offset"], header["sh_size"]) for header in named]

    def notes(self, budget: Budget) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield owner, type and content of the notes of its segments, or of its sections if it has no segments."""
        count = _read_or_refuse(self.file.num_segments)
        segments = self._headers(budget, count, ("e_phoff", "e_phentsize"), self.file.structs.Elf_Phdr)
        tables = [(s["p_offset"], s["p_filesz"]) for s in segments if s["p_type"] == "PT_NOTE"]
        if not tables:
            sections = self._sections(budget)
            tables = [(s["sh_offset"], s["sh_size"]) for s in sections if s["sh_type"] == "SHT_NOTE"]
        for offset, size in tables:
            budget.spend("note_bytes", size)
            yield from _notes(self.window.part(offset, size).read())

    def _sections(self, budget: Budget) -> list[Any]:
        count = _read_or_refuse(self.file.num_sections)
        return self._headers(budget, count, ("e_shoff", "e_shentsize"), self.file.structs.Elf_Shdr)

    def _headers(self, budget: Budget, count: int, place: tuple[str, str], shape: Any) -> list[Any]:
        budget.spend("headers", count)
        start, step = self.file[place[0]], self.file[place[1]]
        stream: Any = self.window
        return [_read_or_refuse(lambda i=i: struct_parse(shape, stream, start + i * step)) for i in range(count)]


def open_elf(window: FileWindow) -> Elf:
    """Return the ELF file in a window; BadInput if its header cannot be read."""
    file = _read_or_refuse(lambda: ELFFile(window))  # type: ignore[arg-type]
    return Elf(file, window, file["e_machine"], file["e_flags"])


def _notes(table: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at + _NOTE.size <= len(table):
        name_size, size, kind = _NOTE.unpack_from(table, at)
        at += _NOTE.size
        content = at + -(-name_size // 4) * 4
        if content + size > len(table):
            raise BadInput(
                "The ELF file is damaged", f"a note of {count_text(size, 'byte')} is in a table of {len(table):,}"
            )
        yield table[at : at + name_size].rstrip(b"\0"), kind, table[content : content + size]
        at = content + -(-size // 4) * 4


def _read_or_refuse(read: Any) -> Any:
    """Return what pyelftools reads, or raise BadInput if the file does not contain it."""
    try:
        return read()
    except (ELFError, UnicodeDecodeError) as error:
        raise BadInput("The ELF file is truncated or damaged", str(error)[:200], "Copy or build it again") from error
