"""Read instructions and source lines at addresses of an AMD code object, in a child process with limits.

Neither the DWARF nor the code of a profile can be trusted: they may have been crafted to take for ever. What the child
process sends before it is stopped is kept.
"""

from __future__ import annotations

import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...analysis.base.problems import LimitExceeded, Problem
from ..base.profile_files import open_regular
from ..base.untrusted_text import plain_text
from ..isolation.channel import Channel
from ..isolation.child import Child, ChildBug, ChildLost
from ..isolation.limits import Limits
from .bundle import code_objects
from .disassembly import Function, disassemblers, functions, instructions
from .elf import Budget, Elf, FileWindow
from .isa import at_fixed_place, class_of, producers, target_of
from .kernels import CodeKernel, kernels_of
from .lines import InlineFrame, SourcePlace, locate

MOST_INSTRUCTIONS, MOST_FUNCTIONS = 300_000, 300
"""Maximum number read from one code object; the functions of the first addresses are read first."""
_MOST_BYTES = 512 << 20
"""Maximum size of a code object, which is copied for the disassembler."""
_LIMITS = Limits(memory_bytes=2_000_000_000, cpu_s=60, file_bytes=_MOST_BYTES, nice=5)
_WALL_S = 120.0
_BATCH = 2_000
_PIECE = 16 << 20
_SUFFIX = ".kd"
"""Suffix of the symbol of a kernel descriptor, by which profilers refer to kernels."""


class DecodedInstruction(NamedTuple):
    """One instruction as far as it is known: a profile may lack its text, a code object its line."""

    offset: int
    text: str
    kind: str | None
    target: int | None
    """Address that it branches to."""
    waits_for: Sequence[int]
    """Addresses of the operations that a wait waits for."""
    function: str
    spill: bool | None = None
    """Whether it saves or restores a register; None if unknown, or if it is another access."""
    place: SourcePlace = SourcePlace()


@dataclass(frozen=True)
class CodeQuery:
    """What to look up in a code object."""

    path: Path
    addresses: Sequence[int]
    """Addresses in the order of their importance."""
    gpu: str | None = None
    """The target that the profile was taken on."""
    kernels: Mapping[str, int | None] = field(default_factory=dict)
    """Kernels of the code object by their name in the profile -> their start address, if known."""


@dataclass
class ResolvedCode:
    """Instructions by address, and descriptions of what is missing."""

    code: dict[int, DecodedInstruction] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def resolve_code(query: CodeQuery, work: Path, programs: Sequence[Path] | None = None) -> ResolvedCode:
    """Return the functions around the requested addresses; ``work`` is a folder for the unpacked code object.

    Raises nothing for an unreadable file; ``missing`` contains the reason.
    """
    job = {
        "path": str(query.path),
        "addresses": list(query.addresses),
        "gpu": query.gpu,
        "kernels": dict(query.kernels),
        "work": str(work),
        "programs": [str(p) for p in (disassemblers() if programs is None else programs)],
    }
    resolved, name = ResolvedCode(), plain_text(query.path.name, 120)
    try:
        with Child(_answer, job, _LIMITS, time.monotonic() + _WALL_S) as child:
            while "end" not in (message := child.receive()):
                _add_message(resolved, message)
    except (TimeoutError, ChildLost):
        resolved.missing.append(f"{name}: reading it took more time or memory than one file may use")
    except ChildBug as bug:
        resolved.missing.append(f"{name}: it could not be read ({plain_text(str(bug).strip().splitlines()[-1], 160)})")
    finally:
        _unpacked_file(work).unlink(missing_ok=True)
    return resolved


def _add_message(resolved: ResolvedCode, message: Mapping[str, Any]) -> None:
    """Add the contents of a message from the child process."""
    for row in message.get("code", ()):
        resolved.code[row[0]] = DecodedInstruction(*row)
    for offset, file, line, chain in message.get("places", ()):
        place = SourcePlace(file, line, tuple(InlineFrame(*frame) for frame in chain))
        known = resolved.code.get(offset) or DecodedInstruction(offset, "", None, None, (), "")
        resolved.code[offset] = known._replace(place=place)
    if "missing" in message:
        resolved.missing.append(message["missing"])


def _unpacked_file(work: Path) -> Path:
    return work / "code_object.elf"


def _answer(channel: Channel, job: dict[str, Any]) -> None:
    """The main function of the child process."""
    path = Path(job["path"])
    name = plain_text(path.name, 120)
    try:
        with open_regular(path) as file:
            window = FileWindow(file, 0, file.seek(0, os.SEEK_END))
            elf, parts, why = _choose_elf(code_objects(window, Budget()), job)
            if elf is None:
                channel.send({"missing": f"{name}: {why}"})
            else:
                _send_code(channel, job, name, elf, parts)
    except Problem as problem:
        channel.send({"missing": f"{name}: {problem.text}"})
    channel.send({"end": True})


def _send_code(channel: Channel, job: Mapping[str, Any], name: str, elf: Elf, parts: list[Function]) -> None:
    addresses = job["addresses"]
    wanted = _functions_around(parts, addresses)
    offsets: set[int] = set(addresses)
    read = 0
    known = {one.name: one for one in kernels_of(elf, Budget())}
    copy = _write_copy(elf.window, Path(job["work"]))
    for program in map(Path, job["programs"]):
        for part in wanted:
            code = list(instructions(program, copy, part.span, MOST_INSTRUCTIONS - read))
            awaited = producers(code, job["gpu"] or "")
            own = known.get(part.name)
            rows = [
                (i.offset, i.text, kind, target_of(i.offset, i.text), awaited.get(i.offset, ()), part.name, spill)
                for i in code
                for kind, spill in [_kind(i.text, own)]
            ]
            _send_in_batches(channel, "code", rows)
            offsets |= {i.offset for i in code}
            read += len(code)
        if read:
            break
    if not job["programs"]:
        channel.send({"missing": "no llvm-objdump is installed, so code objects were not disassembled"})
    elif wanted and not read:
        asked = plain_text(", ".join(job["programs"]), 200)
        why = f"no llvm-objdump here supports the instructions of {job['gpu'] or 'its GPU'} ({asked}); a newer LLVM may"
        channel.send({"missing": f"{name}: {why}"})
    try:
        lookup = locate(elf.file, offsets)
    except Problem as problem:
        channel.send({"missing": f"{name}: {problem.text}"})
        return
    if lookup.reason:
        channel.send({"missing": f"{name}: {lookup.reason}"})
    _send_in_batches(channel, "places", [(offset, *place) for offset, place in lookup.places.items()])


def _send_in_batches(channel: Channel, what: str, rows: list[Any]) -> None:
    for start in range(0, len(rows), _BATCH):
        channel.send({what: rows[start : start + _BATCH]})


def _kind(text: str, kernel: CodeKernel | None) -> tuple[str | None, bool | None]:
    """Return the class of an instruction, and whether it is a spill, using the notes about its kernel."""
    fixed = at_fixed_place(text) if kernel and kernel.scratch_bytes else None
    kind = fixed or class_of(text)
    if kernel is None or kind not in ("scratch_load", "scratch_store"):
        return kind, None
    return kind, bool(kernel.vgpr_spills and fixed)


def _choose_elf(elves: Iterable[Elf], job: Mapping[str, Any]) -> tuple[Elf | None, list[Function], str]:
    """Return the code object that contains the kernels, and its functions, or else why none matches."""
    kernels = {name.removesuffix(_SUFFIX): start for name, start in job["kernels"].items()}
    seen, other_build = 0, False
    for elf in elves:
        seen += 1
        parts = functions(elf.file)
        starts = {part.name: part.span[0] for part in parts}
        known = [name for name in kernels if name in starts]
        moved = [name for name in known if kernels[name] not in (None, starts[name])]
        other_build = other_build or bool(moved)
        if (known or not kernels) and not moved and _functions_around(parts, job["addresses"]):
            return elf, parts, ""
    if other_build:
        return None, [], "its kernels are at other addresses than in the profile, so it is another build"
    return None, [], f"none of its {seen} code objects contains the kernels of the profile"


def _functions_around(parts: list[Function], addresses: Sequence[int]) -> list[Function]:
    """Return the functions around addresses, in the order of the addresses; ``parts`` are in the order of theirs."""
    result: dict[Function, None] = {}
    starts = [part.span[0] for part in parts]
    for address in addresses:
        if len(result) >= MOST_FUNCTIONS:
            break
        place = bisect_right(starts, address)
        if place and address < parts[place - 1].span[1]:
            result[parts[place - 1]] = None
    return list(result)


def _write_copy(window: FileWindow, work: Path) -> Path:
    """Write the code object to a separate file. Raises LimitExceeded if it is too large."""
    if window.size > _MOST_BYTES:
        raise LimitExceeded(
            f"The code object has {window.size >> 20:,} MiB", f"at most {_MOST_BYTES >> 20} can be read"
        )
    out = _unpacked_file(work)
    window.seek(0)
    with out.open("wb") as file:
        shutil.copyfileobj(window, file, _PIECE)
    return out
