"""Per-instruction data of launches, from source pages of ncu or from what the report worker writes."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text, visible
from ...base import progress
from ...base.profile_files import check_text, head, is_gzip, open_regular
from ...base.untrusted_text import grouped_number, plain_text
from ..merging.contract import Connection, all_rows, parquet
from ..merging.wording import refusal
from ..parsing.module_data import module_data
from ..parsing.spool import Spool, write_rows
from ..samples.sample_tables import COUNTS, INSTRUCTION, SAMPLE, SOURCE_LINE, HotspotQueries
from .sass import SassInstruction, analyse

KERNEL, GRID, BLOCK, ADDRESS, TEXT, FILE, LINE = (
    "Kernel Name", "Grid Size", "Block Size", "Address", "Source", "File", "Line",
)  # fmt: skip
_FUNCTION, _PATHS, _NUMBER = "Function Name", ("File Path", "File Name"), "Line No"
"""Headers of the blocks in the view cuda,sass: one block per file of a launch, source lines before instructions."""
_START = re.compile(
    rb'^"?(?:Kernel Name|Function Name|File Path|File Name)"?,.*\r?\n(?:[^\n]*\r?\n){0,3}?"?(?:Address|#|Line No)"?,',
    re.MULTILINE,
)
_STALL = re.compile(r"stall_(\w+?)( \(Not Issued\))?|smsp__pcsamp_warps_issue_stalled_(\w+?)(_not_issued)?")
_LOOKED_AT = 1 << 20
MOST_INSTRUCTIONS = 300_000
"""Maximum instructions of one kernel; the largest known kernels have some tens of thousands."""
_MOST_LINES = 5_000_000
"""Maximum rows of a page: more would take many minutes, and no run of ncu writes as many."""
_MOST_REMEMBERED = 100_000
"""Instructions that are cached for the next launch of the same code."""
_LARGEST = 1 << 52
_SHORT = 24
_WRITE_VIEW = "ncu --import FILE.ncu-rep --page source --csv --print-units base"


@dataclass
class ListedInstruction:
    """One instruction of one launch."""

    address: int
    text: str
    file: str | None
    line: int | None
    counts: dict[str, int]
    stalls: dict[tuple[str | None, bool | None], int]
    """Number of samples by stall reason (ncu's name) and whether the scheduler issued an instruction in that cycle."""


@dataclass
class LaunchListing:
    """One launch: its kernel, its size if known, and its instructions in the order of addresses."""

    kernel: str
    size: tuple[int, int] | None
    """Work-items of the grid and of a work-group."""
    rows: list[ListedInstruction] = field(default_factory=list)
    alone: bool = True
    """Whether its block contains the whole launch, rather than the part from one source file."""


def is_source_page(path: Path) -> bool:
    """Return whether the text of ``path`` contains a source page near its start."""
    return _START.search(head(path, _LOOKED_AT)) is not None


def listings(source: Path) -> Iterator[LaunchListing]:
    """Yield the launches of a source page; BadInput if it is damaged or does not show instructions."""
    check_text(source)
    with open_regular(source) as file:
        raw = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_gzip(source) else file
        text = io.TextIOWrapper(raw, encoding="utf-8", errors="replace", newline="")
        try:
            yield from _listings(source, csv.reader(islice(text, _MOST_LINES + 1)))
            if next(text, None) is not None:
                raise _damaged_page(source, f"it has more than {_MOST_LINES:,} lines")
        except (csv.Error, EOFError, gzip.BadGzipFile) as error:
            raise _damaged_page(source, str(error)) from error


def _listings(source: Path, cells: Iterator[list[str]]) -> Iterator[LaunchListing]:
    """Yield one listing per launch; blocks of several source files of a launch, with distinct addresses, are joined."""
    whole: LaunchListing | None = None
    for block in _without_repeats(_blocks(source, cells)):
        if (
            whole
            and whole.kernel == block.kernel
            and not block.alone
            and {row.address for row in block.rows}.isdisjoint(row.address for row in whole.rows)
        ):
            whole.rows += block.rows
            if len(whole.rows) > MOST_INSTRUCTIONS:
                raise _damaged_page(source, f"a kernel has more than {MOST_INSTRUCTIONS:,} instructions")
            continue
        if whole:
            yield whole
        whole = replace(block, rows=list(block.rows))
    if whole:
        yield whole


def _blocks(source: Path, cells: Iterator[list[str]]) -> Iterator[LaunchListing]:
    current: LaunchListing | None = None
    columns: _Columns | None = None
    width, seen, has_instructions, path = 0, False, False, None
    for row in cells:
        if not any(row):
            continue
        if row[0] in (KERNEL, _FUNCTION, *_PATHS):
            if current and current.rows:
                yield current
            value = row[1] if len(row) > 1 else ""
            seen, columns = True, None
            if row[0] in _PATHS:
                path, current = value, None
            else:
                current = LaunchListing(value, _size(row), alone=row[0] == KERNEL)
        elif current is None:
            continue
        elif columns is None:
            if ADDRESS in row and TEXT in row:
                columns, width, has_instructions = _Columns(row, None if current.alone else path), len(row), True
        elif len(row) < width:
            raise _damaged_page(
                source, f"a row of {plain_text(current.kernel, 60)} has {len(row)} of {count_text(width, 'column')}"
            )
        elif instruction := columns.row(row):
            current.rows.append(instruction)
            if len(current.rows) > MOST_INSTRUCTIONS:
                raise _damaged_page(source, f"a kernel has more than {MOST_INSTRUCTIONS:,} instructions")
    if current and current.rows:
        yield current
    if seen and not has_instructions:
        raise refusal("no_instructions", file=source)


def _size(row: list[str]) -> tuple[int, int] | None:
    """Return the sizes after the kernel's name, which only the report worker writes."""
    sizes = [int(cell[:18]) for cell in row[2:4] if cell.isascii() and cell.isdigit()]
    return (sizes[0], sizes[1]) if len(sizes) == 2 else None


class _Columns:
    """The meaning of the columns of a block."""

    def __init__(self, headers: list[str], path: str | None) -> None:
        at = {header: i for i, header in enumerate(headers)}  # the second of two columns Source has the instructions
        self.number, self.path = at.get(_NUMBER), path
        self.above: int | None = None
        self.address, self.text = at[ADDRESS], at[TEXT]
        self.file, self.line = at.get(FILE), at.get(LINE)
        names = module_data(__file__)
        self.counts = {c: i for c, given in names["counts"].items() if (i := _first(at, given)) is not None}
        self.all = _first(at, names["samples"]["all"])
        self.stalls: dict[str, list[int | None]] = defaultdict(lambda: [None, None])
        for header, i in at.items():
            if match := _STALL.fullmatch(header):
                raw = names["stalls"].get(match[1], match[1]) or match[3]
                self.stalls[raw][bool(match[2] or match[4])] = i

    def row(self, cells: list[str]) -> ListedInstruction | None:
        """Return an instruction; None for a row without an address, such as a source line between instructions."""
        if self.number is not None and cells[self.number]:
            self.above = _whole(cells[self.number])
        address = _address(cells[self.address])
        if address is None:
            return None
        counts = {column: value for column, i in self.counts.items() if (value := _whole(cells[i])) is not None}
        stalls: dict[tuple[str | None, bool | None], int] = {}
        for raw, (every, waiting) in self.stalls.items():
            total = _whole(cells[every]) or 0 if every is not None else 0
            idle = _whole(cells[waiting]) or 0 if waiting is not None else None
            if idle is None or idle > total:
                stalls[raw, None] = total
            else:
                stalls[raw, False], stalls[raw, True] = idle, total - idle
        if self.all is not None:
            stalls[None, None] = (_whole(cells[self.all]) or 0) - sum(stalls.values())
        samples = {key: n for key, n in stalls.items() if n > 0}
        line = _whole(cells[self.line]) if self.line is not None else self.above
        file = cells[self.file] or None if self.file is not None else self.path
        return ListedInstruction(address, cells[self.text], file, line, counts, samples)


def _first(at: dict[str, int], names: list[str]) -> int | None:
    return next((at[name] for name in names if name in at), None)


def _address(cell: str) -> int | None:
    try:
        value = int(cell[:20], 16) if cell.startswith("0x") else int(cell[:20]) if cell.isdigit() else None
    except ValueError:
        return None
    return value if value is not None and value < 1 << 62 else None


def _whole(cell: str) -> int | None:
    # Most cells are empty or one of a few short numbers; long text is not cached.
    return _number(cell) if len(cell) <= _SHORT else _number.__wrapped__(cell)


@lru_cache(maxsize=1 << 14)
def _number(cell: str) -> int | None:
    if cell.isascii() and cell.isdigit() and len(cell) < 16:
        return int(cell)
    value = grouped_number(cell[:40])
    return int(value) if value is not None and 0 <= value <= _LARGEST else None


def _damaged_page(source: Path, why: str) -> BadInput:
    return refusal("damaged_view", file=source, why=why)


# -- conversion to tables -----------------------------------------------------------------------------------


class LaunchPlaces:
    """Maps each listing to a launch of the workload: the n-th listing is the n-th launch of its kernel and size."""

    def __init__(self, con: Connection, stored: str) -> None:
        self.seen: dict[Any, int] = defaultdict(int)
        self.rows: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        self.alone = not stored
        if self.alone:
            return
        launches = all_rows(
            con, f"SELECT row, kernel, kernel_raw, grid, workgroup_size, launch FROM {stored} ORDER BY 1"
        )
        for row, kernel, raw, grid, group, launch in launches:
            for name in {kernel, raw}:
                self.rows[name].append((row, launch))
                self.rows[name, grid, group].append((row, launch))

    def launch_of(self, listing: LaunchListing) -> tuple[int | None, int | None]:
        """Return the row of the launch in the main pass, or None, and its number in this file, from 0.

        If there are fewer launches than listings, or sizes are unknown, any launch of the only configuration is used.
        """
        name = visible(listing.kernel).strip()
        key = (name, *listing.size) if listing.size else name
        number = self.seen[key]
        self.seen[key] += 1
        self.seen[None] += 1
        rows = self.rows.get(key) or []
        is_only = len({launch for _, launch in rows}) == 1
        if is_only or (listing.size and number < len(rows)):
            return rows[min(number, len(rows) - 1)][0], None
        return None, self.seen[None] - 1 if self.alone else None


def spool(
    con: Connection, work: Path, launch_listings: Iterable[LaunchListing], places: LaunchPlaces
) -> HotspotQueries:
    """Write the samples and instructions of several launches to files below ``work``."""
    samples = Spool(con, work / "ncu_samples", SAMPLE)
    code = Spool(con, work / "ncu_code", INSTRUCTION)
    code_by_name: OrderedDict[str, list[SassInstruction]] = OrderedDict()
    for number, listing in enumerate(_without_repeats(launch_listings), 1):
        rows = sorted(listing.rows, key=lambda row: row.address)
        name = _code_name(rows)
        if name not in code_by_name:
            code_by_name[name] = analyse([(row.address, row.text) for row in rows])
            while len(code_by_name) > 1 and sum(map(len, code_by_name.values())) > _MOST_REMEMBERED:
                code_by_name.popitem(last=False)
        row, dispatch = places.launch_of(listing)
        place = (row, dispatch, listing.kernel, name)
        batch, counted = [], []
        for one, instruction in zip(rows, code_by_name[name], strict=True):
            at = (*place, instruction.offset)
            batch += [(*at, None, None, None, raw, issued, n, None) for (raw, issued), n in one.stalls.items()]
            kind = instruction.kind
            counts = [
                one.counts.get(c) if is_meaningful else None
                for c, is_meaningful in zip(COUNTS, _meaningful_counts(kind), strict=True)
            ]
            waits = ",".join(map(str, instruction.waits_for)) or None
            static = (kind, None, instruction.target, waits, instruction.spill)
            counted.append((*at, instruction.text, one.file, one.line, *static, *counts))
        samples.add(batch)
        code.add(counted)
        progress.report(f"read the instructions of {number:,} launches")
    return HotspotQueries("ncu", f"SELECT * FROM {parquet(samples.close())}", f"SELECT * FROM {parquet(code.close())}")


def _without_repeats(launch_listings: Iterable[LaunchListing]) -> Iterator[LaunchListing]:
    """Skip listings that repeat the previous one, since ncu 2025.3 prints every launch of a source page twice.

    Two different launches never have identical samples at every instruction; listings without samples are all kept.
    """
    before: LaunchListing | None = None
    for listing in launch_listings:
        sampled = any(row.stalls for row in listing.rows)
        if not (sampled and listing == before):
            yield listing
        before = listing


def source_lines(con: Connection, work: Path, text: Path) -> str:
    """Return SQL for the source text that the worker wrote: rows of file, line and text."""
    with text.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = [(name, int(line), line_text) for name, line, line_text in csv.reader(file)]
    return f"SELECT * FROM {write_rows(con, work / f'{text.stem}_lines', SOURCE_LINE, rows)}"


@cache
def _meaningful_counts(kind: str) -> list[bool]:
    """Return which of COUNTS are meaningful for a class of instructions."""
    classes = module_data(__file__)["classes"]
    return [column not in classes or kind in classes[column] for column in COUNTS]


def _code_name(rows: list[ListedInstruction]) -> str:
    """Return a name for the code, since one kernel may have several versions, such as builds for other sizes."""
    digest = hashlib.sha256()
    base = rows[0].address if rows else 0
    for row in rows:
        # Addresses in the text differ each time the same code is loaded.
        text = re.sub(r"0x[0-9a-f]{9,}", lambda m: hex(int(m[0], 16) - base), row.text.strip())
        digest.update(f"{row.address - base:x} {text}\n".encode())
    return digest.hexdigest()[:12]
