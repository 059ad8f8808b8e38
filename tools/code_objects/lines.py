"""Map addresses of an AMD code object to source lines and inlined functions, using its DWARF.

Formats: DWARF Debugging Information Format, versions 4 and 5. The file is untrusted and pyelftools has no limits, so
this must run in a child process with limits (resolve.py).
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elftools.common.exceptions import DWARFError, ELFError

from ...analysis.base.problems import BadInput
from ..base.untrusted_text import plain_text

PATH_LIMIT, NAME_LIMIT = 1000, 300
MOST_INLINED = 12
"""Maximum levels of inlining that are returned for an address, innermost first."""
_HOPS, _DEPTH = 8, 200
_SCOPES = ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block", "DW_TAG_try_block", "DW_TAG_catch_block")
_HOLDERS = ("DW_TAG_namespace", "DW_TAG_module")
Span = tuple[int, int]
"""First address and the address after the last."""


class InlineFrame(NamedTuple):
    """One level of inlining: the function, and where it was inlined."""

    function: str
    file: str | None
    line: int | None


class SourcePlace(NamedTuple):
    """The source of an address; ``inlined`` are the functions through which it was inlined, innermost first."""

    file: str | None = None
    line: int | None = None
    """None for code that the compiler generated without a line (DWARF line 0)."""
    inlined: tuple[InlineFrame, ...] = ()


@dataclass(frozen=True)
class LineLookup:
    """Source places by address; ``reason`` says why there are none, or what is missing."""

    places: dict[int, SourcePlace]
    reason: str = ""


def locate(file: Any, addresses: Iterable[int]) -> LineLookup:
    """Return the source of ``addresses``, which are virtual addresses of the ELF file (offsets in profilers).

    Raises BadInput if the DWARF is damaged.
    """
    wanted = sorted(set(addresses))
    if file.get_section_by_name(".debug_line") is None and file.get_section_by_name(".zdebug_line") is None:
        return LineLookup({}, "it was built without -g: it has no line table")
    try:
        # Ignore relocations, which linked code does not have, and other files that a debug link may refer to.
        dwarf = file.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        places: dict[int, SourcePlace] = {}
        for unit in dwarf.iter_CUs():
            left = [a for a in wanted if a not in places]
            if not left:
                break
            places |= _unit_places(dwarf, unit, left)
    except (
        DWARFError,
        ELFError,
        AssertionError,
        LookupError,
        ValueError,
        AttributeError,
        TypeError,
        OverflowError,
    ) as error:
        # The exception of pyelftools for damaged input depends on where it notices the damage.
        raise BadInput("The DWARF of the code object is damaged", plain_text(str(error), 160)) from error
    return LineLookup(places)


def _unit_places(dwarf: Any, unit: Any, wanted: Sequence[int]) -> dict[int, SourcePlace]:
    """Return the places of the addresses that belong to a compilation unit."""
    top = unit.get_top_DIE()
    spans = _spans(dwarf, unit, top)
    if spans and not _inside(spans, wanted):
        return {}
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return {}
    files = _files(program, _text(_value(top, "DW_AT_comp_dir")))
    lines = _lines(program, wanted, files)
    if not lines:
        return {}
    chains = _chains(dwarf, unit, top, sorted(lines), files)
    return {a: SourcePlace(file, line, chains.get(a, ())) for a, (file, line) in lines.items()}


def _lines(program: Any, wanted: Sequence[int], files: dict[int, str]) -> dict[int, tuple[str | None, int | None]]:
    """Return file and line of addresses; a row of a line program applies up to the start of the next row."""
    rows: list[tuple[int, int, int]] = []
    lines_by_address: dict[int, tuple[str | None, int | None]] = {}
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        rows.append((state.address, state.file, state.line))
        if state.end_sequence:
            starts = [a for a, _, _ in rows]
            if starts == sorted(starts):
                for address in _inside([(starts[0], starts[-1])], wanted):
                    _, file, line = rows[bisect_right(starts, address) - 1]
                    lines_by_address.setdefault(address, (files.get(file), line or None))
            rows = []
    return lines_by_address


def _files(program: Any, folder: str | None) -> dict[int, str]:
    """Return the paths of a line program by number: from 0 since DWARF 5, from 1 before."""
    header = program.header
    late = header["version"] >= 5
    folders = [_text(f) or "" for f in header["include_directory"]]
    if not late:
        folders = [folder or "", *folders]
    paths = {}
    for number, entry in enumerate(header["file_entry"], 0 if late else 1):
        name = _text(entry.name) or ""
        above = folders[entry.dir_index] if 0 <= entry.dir_index < len(folders) else ""
        path = posixpath.normpath(posixpath.join(folder or "", folders[0] if late and folders else "", above, name))
        paths[number] = plain_text(path, PATH_LIMIT)
    return paths


def _chains(
    dwarf: Any, unit: Any, top: Any, wanted: Sequence[int], files: dict[int, str]
) -> dict[int, tuple[InlineFrame, ...]]:
    """Return the inlined functions around addresses, innermost first."""
    frames_by_address: dict[int, list[InlineFrame]] = {}
    names: dict[int, str] = {}
    for function in _functions(top):
        inside = _inside(_spans(dwarf, unit, function), wanted)
        if not inside:
            continue
        waiting = [(child, 1) for child in function.iter_children()]
        while waiting:
            entry, depth = waiting.pop(0)
            if entry.tag not in _SCOPES or depth > _DEPTH:
                continue
            here = _inside(_spans(dwarf, unit, entry), inside)
            if not here:
                continue
            if entry.tag == "DW_TAG_inlined_subroutine":
                frame = InlineFrame(
                    _name(entry, names),
                    files.get(_number(entry, "DW_AT_call_file") or 0),
                    _number(entry, "DW_AT_call_line") or None,
                )
                for address in here:
                    frames_by_address.setdefault(address, []).insert(0, frame)
            waiting += [(child, depth + 1) for child in entry.iter_children()]
    return {a: tuple(frames[:MOST_INLINED]) for a, frames in frames_by_address.items()}


def _functions(top: Any) -> Iterator[Any]:
    """Yield the functions of a unit, including those in its namespaces."""
    waiting = [(child, 1) for child in top.iter_children()]
    while waiting:
        entry, depth = waiting.pop()
        if entry.tag == "DW_TAG_subprogram":
            yield entry
        elif entry.tag in _HOLDERS and depth < _DEPTH:
            waiting += [(child, depth + 1) for child in entry.iter_children()]


def _name(entry: Any, known: dict[int, str]) -> str:
    """Return the name of an inlined function, which another entry contains."""
    offset = entry.offset
    for _ in range(_HOPS):
        if entry.offset in known:
            return known[entry.offset]
        if (name := _text(_value(entry, "DW_AT_name")) or _text(_value(entry, "DW_AT_linkage_name"))) is not None:
            return known.setdefault(offset, plain_text(name, NAME_LIMIT))
        link = next((a for a in ("DW_AT_abstract_origin", "DW_AT_specification") if a in entry.attributes), None)
        if link is None:
            break
        entry = entry.get_DIE_from_attribute(link)
    return known.setdefault(offset, "(no name)")


def _spans(dwarf: Any, unit: Any, entry: Any) -> list[Span]:
    """Return the address ranges that an entry covers."""
    low = _number(entry, "DW_AT_low_pc", None)
    if (high := entry.attributes.get("DW_AT_high_pc")) is not None and low is not None:
        return [(low, high.value if high.form.startswith("DW_FORM_addr") else low + high.value)]
    if "DW_AT_ranges" not in entry.attributes:
        return []
    base = _number(unit.get_top_DIE(), "DW_AT_low_pc", 0) or 0
    lists = dwarf.range_lists()
    spans = []
    for one in lists.get_range_list_at_offset(entry.attributes["DW_AT_ranges"].value, unit) if lists else ():
        if hasattr(one, "base_address"):
            base = one.base_address
        else:
            start = 0 if one.is_absolute else base
            spans.append((start + one.begin_offset, start + one.end_offset))
    return spans


def _inside(spans: Sequence[Span], addresses: Sequence[int]) -> list[int]:
    """Return the sorted addresses that are in any of the spans."""
    inside: set[int] = set()
    for low, high in spans:
        inside.update(addresses[bisect_left(addresses, low) : bisect_left(addresses, high)])
    return sorted(inside)


def _value(entry: Any, name: str) -> Any:
    attribute = entry.attributes.get(name)
    return None if attribute is None else attribute.value


def _number(entry: Any, name: str, default: int | None = -1) -> int | None:
    value = _value(entry, name)
    return value if isinstance(value, int) else default


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
