"""Find the functions and source lines of host code in the ELF files of programs and libraries.

A profile names the files, and anybody may have made them, so they are read in a child process with limits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from ...analysis.base.problems import BadInput, Problem
from ..base.profile_files import open_regular
from ..isolation.channel import Channel
from ..isolation.child import Child, ChildBug, ChildLost
from ..isolation.limits import Limits
from .lines import locate

_MOST_BYTES = 64 << 20
"""Maximum size of a file whose line table is read, and of a table of symbols."""
_LIMITS = Limits(memory_bytes=2_000_000_000, cpu_s=60, file_bytes=0, nice=5)
_WALL_S = 90.0
HostSource = tuple[str | None, str | None, int | None]
"""Function (as in the file, so perhaps mangled), source file and line. The texts are untrusted."""


def host_sources(addresses: Sequence[tuple[str, int]]) -> dict[tuple[str, int], HostSource]:
    """Return the source of (path of an ELF file, address in it), as far as it can be found in time."""
    modules: dict[str, list[int]] = {}
    for module, address in addresses:
        modules.setdefault(module, []).append(address)
    found: dict[tuple[str, int], HostSource] = {}
    if not modules:
        return found
    try:
        with Child(_answer, {"modules": modules}, _LIMITS, time.monotonic() + _WALL_S) as child:
            while "end" not in (message := child.receive()):
                for address, function, file, line in message["found"]:
                    found[message["module"], address] = (function, file, line)
    except (TimeoutError, ChildLost, ChildBug):
        pass  # what was found before is kept
    return found


def _answer(channel: Channel, job: dict[str, Any]) -> None:
    """The main function of the child process."""
    for lines in (False, True):  # symbols of all files first, because line tables take long
        for module, addresses in job["modules"].items():
            try:
                found = _sources(Path(module), sorted(addresses), lines=lines)
            except (Problem, OSError, ValueError):
                continue
            channel.send({"module": module, "found": [[address, *source] for address, source in found.items()]})
    channel.send({"end": True})


def _sources(path: Path, addresses: list[int], *, lines: bool) -> dict[int, HostSource]:
    with open_regular(path) as stream:
        size = stream.seek(0, os.SEEK_END)
        try:
            elf: Any = ELFFile(stream)
            functions = _functions(elf, addresses)
        except (ELFError, AssertionError, LookupError, TypeError, AttributeError) as error:
            raise BadInput(f"{path.name} is not an ELF file that can be read", str(error)) from error
        if not lines:
            return {address: (name, None, None) for address, name in functions.items()}
        found: dict[int, HostSource] = {}
        for address, place in locate(elf, addresses).places.items() if size <= _MOST_BYTES else ():
            inlined = place.inlined[0].function if place.inlined else None
            found[address] = (inlined or functions.get(address), place.file, place.line)
        return found


def _functions(elf: Any, addresses: list[int]) -> dict[int, str]:
    """Return the symbols that contain addresses."""
    import numpy

    section = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
    if section is None or elf.elfclass != 64 or not elf.little_endian or section["sh_size"] > _MOST_BYTES:
        return {}
    layout = numpy.dtype(
        [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
    )
    data = section.data()
    symbols = numpy.frombuffer(data, layout, count=len(data) // layout.itemsize)
    symbols = symbols[(symbols["info"] & 15 == 2) & (symbols["section"] != 0)]  # functions defined here
    symbols = symbols[numpy.argsort(symbols["value"], kind="stable")]
    ends = numpy.searchsorted(symbols["value"], numpy.array(addresses, "<u8"), side="right")
    texts, found = elf.get_section(section["sh_link"]), {}
    for address, end in zip(addresses, ends.tolist(), strict=True):
        if end and address < int(symbols["value"][end - 1]) + int(symbols["size"][end - 1]):
            found[address] = texts.get_string(int(symbols["name"][end - 1]))
    return found
