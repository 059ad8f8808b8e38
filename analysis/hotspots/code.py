"""The code of one kernel in a workload: its instructions, the samples on them, and its loops."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..base.database import sql_literal
from ..base.kernel_names import short
from ..base.notes import Note
from ..catalogue.files import load
from ..catalogue.thresholds import threshold
from ..store.manifest import Manifest
from ..workload import Workload

MOST_INSTRUCTIONS = 1_000_000
"""The maximum number of instructions that are read for a kernel; those with samples come first."""


class SourceLine(NamedTuple):
    """A source line; both fields are None without line information."""

    file: str | None
    number: int | None


class InstructionKey(NamedTuple):
    """Identifies an instruction within a kernel; by its text and line if the profile contains no addresses."""

    code_object: str
    offset: int | None
    text: str
    line: SourceLine | None = None


@dataclass
class KernelInstruction:
    """An instruction with its counts, and its samples by reason."""

    key: InstructionKey
    kind: str | None
    """Its class in classes.toml; None if it is unknown."""
    line: SourceLine
    inlined: str | None
    target: int | None
    waits_for: tuple[int, ...]
    spill: bool
    counts: dict[str, int | None]
    samples: dict[str | None, int] = field(default_factory=dict)
    """Reason in stalls.toml -> samples; the key None is for samples without a reason."""
    masked: tuple[int, int] = (0, 0)
    """The number of samples with active work-items, and the sum of these."""

    @property
    def sample_count(self) -> int:
        return sum(self.samples.values())


@dataclass(frozen=True)
class Loop:
    """Code that a backward branch repeats: from ``first`` to the branch at ``last``, both in bytes."""

    code_object: str
    first: int
    last: int

    def holds(self, key: InstructionKey) -> bool:
        return key.code_object == self.code_object and key.offset is not None and self.first <= key.offset <= self.last

    @property
    def length(self) -> int:
        return self.last - self.first


@dataclass(frozen=True)
class KernelCode:
    """The sampled code of a kernel."""

    instructions: list[KernelInstruction]
    launches: int
    """The number of launches that were sampled, or counted per instruction."""

    @property
    def sample_count(self) -> int:
        return sum(one.sample_count for one in self.instructions)


_COUNTS = (
    "executed", "lanes", "lanes_active", "sectors_global", "sectors_global_ideal", "sectors_local",
    "sectors_local_ideal", "wavefronts_lds", "wavefronts_lds_ideal", "divergent", "latency_cycles", "stall_cycles",
    "idle_cycles", "hidden_cycles", "exposed_cycles",
)  # fmt: skip


def read(workload: Workload, kernel: str, launch: int | None = None) -> KernelCode:
    """Read the instructions and samples of a kernel, or of one of its launch configurations."""
    chosen = f"kernel = {sql_literal(kernel)}" + (f" AND launch = {launch:d}" if launch is not None else "")
    instructions: dict[InstructionKey, KernelInstruction] = {}
    if workload.has("instructions"):
        counts = ", ".join(f"CAST(sum({c}) AS BIGINT)" for c in _COUNTS)
        rows = workload.rows(
            'SELECT code_object, "offset", instruction, any_value(class), any_value(source_file), '
            "any_value(source_line), any_value(inlined), any_value(target), any_value(waits_for), any_value(spill), "
            f"{counts} FROM {workload.relation('instructions')} WHERE {chosen} "
            f'GROUP BY code_object, "offset", instruction, {_PLACE} '
            f"ORDER BY sum(executed) DESC NULLS LAST LIMIT {MOST_INSTRUCTIONS}"
        )
        for code_object, offset, text, kind, file, number, inlined, target, waits, spill, *counted in rows:
            line = SourceLine(file, number)
            key = _key(code_object, offset, text, line)
            instructions[key] = KernelInstruction(
                key._replace(text=text or ""), kind, line, inlined, target, _offsets(waits), bool(spill),
                dict(zip(_COUNTS, counted, strict=True)),
            )  # fmt: skip
    if not workload.has("samples"):
        return KernelCode(_in_order(instructions), _count_launches(workload, chosen))
    for code_object, offset, text, file, number, reason, count, *masked in workload.rows(
        'SELECT code_object, "offset", any_value(instruction), any_value(source_file), any_value(source_line), '
        "stall_reason, CAST(sum(count) AS BIGINT), CAST(coalesce(sum(count) FILTER (lanes IS NOT NULL), 0) AS BIGINT), "
        f"CAST(coalesce(sum(lanes), 0) AS BIGINT) FROM {workload.relation('samples')} WHERE {chosen} "
        f'GROUP BY code_object, "offset", {_PLACE}, stall_reason'
    ):
        line = SourceLine(file, number)
        key = _key(code_object, offset, text, line)
        if key not in instructions:
            instructions[key] = KernelInstruction(key._replace(text=text or ""), None, line, None, None, (), False, {})
        one = instructions[key]
        one.samples[reason] = one.samples.get(reason, 0) + count
        one.masked = (one.masked[0] + masked[0], one.masked[1] + masked[1])
    ((launches,),) = workload.rows(
        f"SELECT count(DISTINCT dispatch_id) FROM {workload.relation('samples')} WHERE {chosen}"
    )
    return KernelCode(_in_order(instructions), launches or _count_launches(workload, chosen))


def _count_launches(workload: Workload, chosen: str) -> int:
    """The number of launches in the counts per instruction; 0 if the profile does not contain it."""
    if not workload.has("instructions"):
        return 0
    each = f"SELECT max(launches) AS n FROM {workload.relation('instructions')} WHERE {chosen} GROUP BY launch"
    ((launches,),) = workload.rows(f"SELECT CAST(coalesce(sum(n), 0) AS BIGINT) FROM ({each})")
    return int(launches)


_PLACE = 'CASE WHEN "offset" IS NULL THEN concat_ws(chr(31), instruction, source_file, source_line) END'
"""SQL for the substitute of a missing address."""


def _key(code_object: str, offset: int | None, text: str | None, line: SourceLine) -> InstructionKey:
    """The columns that identify an instruction."""
    if offset is None:
        return InstructionKey(code_object, None, text or "", line)
    return InstructionKey(code_object, offset, "")


def _in_order(instructions: dict[InstructionKey, KernelInstruction]) -> list[KernelInstruction]:
    return sorted(instructions.values(), key=lambda one: (one.key.code_object, one.key.offset or 0, one.key.text))


def _offsets(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "").split(",") if part.isascii() and part.isdigit())


def loops(code: KernelCode) -> list[Loop]:
    """The loops of a kernel, inner ones first; of several branches to the same target, the last is used."""
    ends: dict[tuple[str, int], int] = defaultdict(int)
    for one in code.instructions:
        offset = one.key.offset
        # Compilers put a branch to itself after the end of a kernel.
        if one.target is None or offset is None or one.target >= offset or one.counts.get("executed") == 0:
            continue
        start = one.key.code_object, one.target
        ends[start] = max(ends[start], offset)
    kernel_loops = [Loop(code_object, first, last) for (code_object, first), last in ends.items()]
    return sorted(kernel_loops, key=lambda loop: (loop.code_object, loop.length, loop.first))


def innermost(candidates: Sequence[Loop], key: InstructionKey) -> int | None:
    """The index of the smallest loop around an instruction."""
    return next((i for i, loop in enumerate(candidates) if loop.holds(key)), None)


class InstructionKind(NamedTuple):
    """An instruction class: its title, the subsystem that it uses, and the stall reason if it cannot be issued."""

    title: str
    subsystem: str
    stalls: str | None = None


@cache
def classes() -> dict[str, InstructionKind]:
    """All classes of instructions by name."""
    stated = load(Path(__file__).with_name("classes.toml"))
    return {name: InstructionKind(**facts) for name, facts in stated.items()}


CODE = "no_lines"
"""Of the notes."""
_KERNEL_CHARS, _COMMAND_CHARS = 400, 2000
"""How many characters of a name and a command line are searched for patterns."""
_WORTH_PCT = threshold("hotspots.missing_lines_pct")
_PAGE = Note(
    CODE,
    "This page of ncu contains no source lines: import the report (.ncu-rep) that it was printed from, which has them "
    "if the program was built with line information.",
)


@dataclass(frozen=True)
class Way:
    """A way of building kernels, and how to add line information to it."""

    built: str
    do: str
    source: str
    vendor: str = ""
    kernel: str = ""
    """A pattern for kernel names; empty matches any."""
    command: str = ""
    """A pattern for command lines; empty matches any."""

    def fits(self, vendor: str, kernel: str, command: str) -> bool:
        """Whether a kernel of a program was probably built in this way."""
        return (
            self.vendor in ("", vendor)
            and re.search(self.kernel, kernel[:_KERNEL_CHARS]) is not None
            and re.search(self.command, command[:_COMMAND_CHARS]) is not None
        )


@cache
def ways() -> tuple[Way, ...]:
    """All ways of building, most specific first."""
    return tuple(Way(**way) for way in load(Path(__file__).with_name("line_info.toml"))["way"])


def advice(manifest: Manifest, lacking: Mapping[str, float], launches: int) -> list[Note]:
    """Notes on kernels without lines: one for each way of building, the one with most samples first.

    ``lacking`` is kernel -> its share of the samples without a line, in percent; shares below one percent are ignored.
    Without ``launches``, a profile of ncu is a text page. Empty for a vendor without known ways of building.
    """
    worth = {kernel: share for kernel, share in lacking.items() if share >= _WORTH_PCT}
    if worth and not launches and manifest.format == "ncu":
        return [_PAGE]
    vendor, command = manifest.vendor or "", manifest.command or ""
    shares: dict[Way, dict[str, float]] = {}
    for kernel, share in sorted(worth.items(), key=lambda item: (-item[1], item[0])):
        way = next((way for way in ways() if way.fits(vendor, kernel, command)), None)
        if way is not None:
            shares.setdefault(way, {})[kernel] = share
    ordered = sorted(shares.items(), key=lambda item: -sum(item[1].values()))
    return [Note(CODE, f"{_unlined_text(kernels)} (built by {way.built}). {way.do}") for way, kernels in ordered]


def _unlined_text(kernels: Mapping[str, float]) -> str:
    first = short(next(iter(kernels)))
    more = f" and {len(kernels) - 1} more kernels" if len(kernels) > 1 else ""
    return f"{sum(kernels.values()):.0f} % of the samples have no source line: {first}{more}"
