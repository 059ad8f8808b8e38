"""Rank the lines or instructions of a kernel by the time they take: samples, charged to what they wait for.

A wave that waits for a load is sampled at the instruction that needs the value, perhaps many lines below the load.
Therefore each sample of a wait for data is charged to the instructions whose results are late, and every other sample
to the sampled instruction itself. If several results are late, each gets a part in proportion to the sectors of memory
that one execution requests, if they were counted, because a scattered load takes longer than a coalesced one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from ..base.database import sql_literal
from ..catalogue.files import load
from ..catalogue.thresholds import count_threshold, threshold
from ..workload import Workload
from .code import InstructionKey, KernelCode, KernelInstruction, Loop, SourceLine, classes, innermost, loops, read
from .kernels import HotKernel, has_code

UNKNOWN = "other"
ISSUED, READY = "issued", "ready"


@dataclass(frozen=True)
class StallReason:
    """A stall reason: a description, the subsystem that it indicates, and whether the wave waits at all."""

    name: str
    title: str
    subsystem: str
    waits: bool


@cache
def reasons() -> dict[str, StallReason]:
    """All reasons by name, in the order of the file."""
    return {name: StallReason(name, **facts) for name, facts in _data()["reason"].items()}


def reason_sql(profiler: str, raw: str, instruction: str) -> str:
    """SQL for the reason that corresponds to a profiler's name (``raw``): UNKNOWN for an unknown name, NULL for none.

    ``instruction`` is the text of the sampled instruction, which decides if the name alone is ambiguous.
    """
    cases = [f"WHEN {raw} IS NULL THEN NULL"]
    for name, entry in _data()["raw"][profiler].items():
        for choice in _choices(entry):
            condition = (
                f" AND contains(coalesce({instruction}, ''), {sql_literal(choice['when'])})" if "when" in choice else ""
            )
            cases.append(f"WHEN {raw} = {sql_literal(name)}{condition} THEN {sql_literal(choice['reason'])}")
    return f"CASE {' '.join(cases)} ELSE {sql_literal(UNKNOWN)} END"


def reason_of(profiler: str, raw: str, instruction: str) -> str:
    """The reason that corresponds to a profiler's name at an instruction; UNKNOWN for an unknown name."""
    choices = _choices(_data()["raw"][profiler].get(raw))
    return next((one["reason"] for one in choices if one.get("when", "") in instruction), UNKNOWN)


def profilers() -> tuple[str, ...]:
    """The profilers whose stall reasons are known."""
    return tuple(_data()["raw"])


def _choices(entry: str | list[dict[str, str]] | None) -> list[dict[str, str]]:
    return [{"reason": entry}] if isinstance(entry, str) else entry or []


@cache
def _data() -> dict[str, Any]:
    return load(Path(__file__).with_name("stalls.toml"))


By = Literal["line", "instruction"]
Unit = Literal["samples", "cycles", "executions"]
"""The units of cost other than samples: cycles of the waves in a thread trace, or otherwise executions."""
FEW = count_threshold("hotspots.few_samples")
"""With fewer samples than this, the order of the lines of a kernel is random."""
_Z = 1.959964
_DATA = {  # reason -> classes of the instructions that the wave may be waiting for
    "memory": {"global_load", "global_atomic", "scratch_load", "texture", "async_copy"},
    "lds": {"lds_load", "lds_atomic", "exchange", "sfu", "other", "constant_load"},
    "constant": {"constant_load"},
    "matrix": {"matrix"},
    "barrier": {"barrier"},
}
_SHARPER: dict[tuple[str | None, str | None], str | None] = {("lds", "constant_load"): "constant"}
"""Reason and class of the awaited instruction -> specific reason; a counter may cover LDS and scalar loads."""
_STRICT = ("matrix", "constant", "barrier")
"""Reasons that only these classes of instructions can cause."""
SECTOR_BYTES = 32
MOST_LOOPS = 500
"""The maximum number of loops of a kernel; those with few samples are omitted."""


class Interval(NamedTuple):
    """The bounds of a 95 % interval, in percent."""

    low: float
    high: float


def wilson(hits: float, total: float) -> Interval | None:
    """The interval of a proportion by E. B. Wilson (1927), in percent; None without samples.

    It is valid for few samples, and for no hits. ``hits`` may be fractional, because charges are parts of samples.
    """
    if total <= 0:
        return None
    share, square = hits / total, _Z * _Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = _Z / (1 + square / total) * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    return Interval(max(0.0, 100 * (middle - half)), min(100.0, 100 * (middle + half)))


@dataclass
class Spot:
    """One line or instruction: its cost, the reasons, and what was counted there."""

    line: SourceLine
    instructions: list[KernelInstruction] = field(default_factory=list)
    cost: float = 0.0
    """Samples charged to it."""
    reasons: dict[str | None, float] = field(default_factory=lambda: defaultdict(float))
    """The samples charged to it, by reason."""
    parts: dict[InstructionKey, float] = field(default_factory=lambda: defaultdict(float))
    """The samples charged to it, by instruction."""
    shows: dict[InstructionKey, float] = field(default_factory=lambda: defaultdict(float))
    """Instructions at which waits for it were sampled -> number of samples."""
    waits_for: dict[InstructionKey, float] = field(default_factory=lambda: defaultdict(float))
    """The instructions that its own samples were charged to instead."""
    hidden: float | None = None
    """The part of its cost in cycles that other waves of the SIMD covered; None if the waves are unknown."""

    @property
    def here(self) -> int:
        """Samples taken at it."""
        return sum(one.sample_count for one in self.instructions)

    @property
    def main(self) -> InstructionKey:
        """Its most expensive instruction."""
        return max(self.parts, key=self.parts.__getitem__) if self.parts else self.instructions[0].key

    def count(self, name: str) -> int | None:
        """The sum of a count over its instructions; None if none has it."""
        counts = [n for one in self.instructions if (n := one.counts.get(name)) is not None]
        return sum(counts) if counts else None

    @property
    def executions(self) -> int | None:
        """Executions of its most frequently executed instruction."""
        return max((n for one in self.instructions if (n := one.counts.get("executed")) is not None), default=None)

    @property
    def lanes(self) -> float | None:
        """The mean number of active work-items per execution, or per sample taken here."""
        if samples := sum(one.masked[0] for one in self.instructions):
            return sum(one.masked[1] for one in self.instructions) / samples
        executed, active = self.count("executed"), self.count("lanes_active")
        active = self.count("lanes") if active is None else active
        return active / executed if executed and active is not None else None

    def excess(self, place: str) -> int | None:
        """Sectors (``global``, ``local``) or wavefronts (``lds``) beyond the required minimum."""
        kind = "wavefronts" if place == "lds" else "sectors"
        columns = f"{kind}_{place}", f"{kind}_{place}_ideal"
        pairs = [[one.counts.get(column) for column in columns] for one in self.instructions]
        known = [(have, least) for have, least in pairs if have is not None and least is not None]
        return sum(have - least for have, least in known) if known else None

    @property
    def hidden_pct(self) -> float | None:
        """The part of its cycles that other waves covered, in percent; None if it is unknown."""
        return 100 * self.hidden / self.cost if self.hidden is not None and self.cost else None

    @property
    def excess_bytes(self) -> int | None:
        """Bytes of the sectors beyond the required minimum; None if none were counted."""
        return _sector_bytes(self.excess("global"), self.excess("local"))

    @property
    def moved_bytes(self) -> int | None:
        """Bytes of all sectors; None if none were counted."""
        return _sector_bytes(self.count("sectors_global"), self.count("sectors_local"))

    @property
    def lds_excess(self) -> int | None:
        """Wavefronts of LDS beyond the required minimum."""
        return self.excess("lds")

    @property
    def spills(self) -> str | None:
        """``yes`` if an instruction spills registers."""
        return "yes" if any(one.spill for one in self.instructions) else None


def _sector_bytes(*sectors: int | None) -> int | None:
    known = [n for n in sectors if n is not None]
    return SECTOR_BYTES * sum(known) if known else None


@dataclass(frozen=True)
class HotLoop:
    """A loop, its instructions, and its cost as sampled, before charging."""

    loop: Loop
    instructions: int
    cost: float
    back: int | None
    """How often its branch was executed."""
    around: Sequence[KernelInstruction] = ()
    """The instructions of its code object in order, and the position where the loop begins."""
    first: int = 0

    @property
    def lines(self) -> tuple[SourceLine, SourceLine] | None:
        """The first and last line in the file that most of its instructions belong to."""
        return _span(self.around[self.first : self.first + self.instructions])


@dataclass(frozen=True)
class Ranking:
    """The places of a kernel by cost, its loops, and the reliability of the order."""

    code: KernelCode
    by: By
    spots: list[Spot]
    loops: list[HotLoop]
    unit: Unit = "samples"

    @cached_property
    def total(self) -> float:
        return sum(spot.cost for spot in self.spots)

    @cached_property
    def cost_with_line(self) -> float:
        """The cost at places with a source line."""
        return sum(spot.cost for spot in self.spots if spot.line.number is not None)

    @cached_property
    def hidden(self) -> float | None:
        """The cost in cycles that other waves covered; None unless the waves of a thread trace are known."""
        known = [spot.hidden for spot in self.spots if spot.hidden is not None]
        return sum(known) if known and self.unit == "cycles" else None

    def share_pct(self, cost: float) -> float | None:
        return 100 * cost / self.total if self.total else None

    def interval(self, spot: Spot) -> Interval | None:
        """The interval of the share of a place; None if the cost is not in samples."""
        return wilson(spot.cost, self.total) if self.unit == "samples" else None

    def loop_of(self, spot: Spot) -> int | None:
        """The index in ``loops`` of the innermost loop around the most expensive instruction."""
        return innermost([one.loop for one in self.loops], spot.main)

    def unsure(self) -> bool:
        """Whether the order of the first two places is uncertain, because their intervals overlap."""
        if len(self.spots) < 2 or self.unit != "samples":
            return False
        first, second = (self.interval(spot) for spot in self.spots[:2])
        return bool(first and second and first.low <= second.high)


def rank(code: KernelCode, by: By) -> Ranking:
    """Rank the lines or instructions of a kernel, most expensive first."""
    # Without line information, instructions are ranked instead of lines.
    by_line = by == "line" and any(one.line.number is not None for one in code.instructions)
    place: Callable[[KernelInstruction], object] = _line_of if by_line else _itself
    spots: dict[object, Spot] = {}
    at = {(one.key.code_object, one.key.offset): one for one in code.instructions}
    for one in code.instructions:
        spots.setdefault(place(one), Spot(one.line)).instructions.append(one)
    unit = _unit(code)
    for one in code.instructions:
        own = spots[place(one)]
        for reason, count in _costs_by_reason(one, unit):
            for charged, part in _charge(one, reason, at):
                spot = spots[place(charged)]
                spot.cost += part * count
                spot.reasons[_SHARPER.get((reason, charged.kind), reason)] += part * count
                spot.parts[charged.key] += part * count
                if (covered := _covered_part(one)) is not None:
                    spot.hidden = (spot.hidden or 0.0) + part * count * covered
                if charged is not one and spot is not own:
                    spot.shows[one.key] += part * count
                    own.waits_for[charged.key] += part * count
    costly = (spot for spot in spots.values() if spot.cost or spot.here)
    ordered = sorted(costly, key=lambda spot: (-spot.cost, -spot.here))
    return Ranking(code, "line" if by_line else "instruction", ordered, _loops(code, unit), unit)


def _unit(code: KernelCode) -> Unit:
    if code.sample_count:
        return "samples"
    timed = any(one.counts.get("latency_cycles") or one.counts.get("stall_cycles") for one in code.instructions)
    return "cycles" if timed else "executions"


def _line_of(one: KernelInstruction) -> object:
    return one.line if one.line.number is not None else ("no line", one.key.code_object)


def _itself(one: KernelInstruction) -> object:
    return one.key


def _costs_by_reason(one: KernelInstruction, unit: Unit) -> Iterable[tuple[str | None, float]]:
    """The cost sampled at an instruction, by reason."""
    if unit == "samples":
        return one.samples.items()
    if unit == "executions":
        executed = one.counts.get("executed")
        return [(None, executed)] if executed else []
    return [(reason, cycles) for reason, cycles in _cycles(one) if cycles > 0]


def _covered_part(one: KernelInstruction) -> float | None:
    """The part of the cycles of an instruction that other waves covered, 0 to 1; None if the waves are unknown."""
    hidden, exposed = (one.counts.get(f"{name}_cycles") for name in ("hidden", "exposed"))
    return hidden / (hidden + exposed) if hidden is not None and exposed else None if hidden is None else 0.0


def _cycles(one: KernelInstruction) -> list[tuple[str | None, float]]:
    """The cycles that waves spent at an instruction: from the end of the previous one to its own end.

    AMD's trace decoder counts the idle time before it, and its latency, which includes its stall. It does not report
    why a wave is idle: it lost arbitration, or waited for a result or for its next instruction.
    """
    latency, stall, idle = (one.counts.get(f"{name}_cycles") or 0 for name in ("latency", "stall", "idle"))
    if one.kind == "wait":
        reason = reason_of("rocprofv3", "WAITCNT", one.key.text)
    else:
        known = classes().get(one.kind or "")
        reason = (known.stalls if known else None) or UNKNOWN
    return [(ISSUED, latency - stall), (reason, stall), (UNKNOWN, idle)]


def _charge(
    one: KernelInstruction, reason: str | None, at: dict[tuple[str, int | None], KernelInstruction]
) -> list[tuple[KernelInstruction, float]]:
    """The instructions that a sample is charged to, with the fraction of each; the fractions add up to 1."""
    if reason not in _DATA and not (reason is None and one.kind == "wait"):
        return [(one, 1.0)]
    late = [producer for offset in one.waits_for if (producer := at.get((one.key.code_object, offset)))]
    fitting = [producer for producer in late if producer.kind in _DATA.get(reason or "memory", ())]
    if not fitting and reason not in _STRICT:
        fitting = [producer for producer in late if producer.kind != "barrier"]
    if not fitting:
        return [(one, 1.0)]
    weights = [_weight(producer) for producer in fitting]
    total = sum(weights)
    return [(producer, weight / total) for producer, weight in zip(fitting, weights, strict=True)]


def _weight(one: KernelInstruction) -> float:
    """The sectors that one execution requests, at least 1."""
    executed = one.counts.get("executed")
    sectors = one.counts.get("sectors_global") or one.counts.get("sectors_local") or one.counts.get("wavefronts_lds")
    return max(1.0, sectors / executed) if executed and sectors else 1.0


def _loops(code: KernelCode, unit: Unit) -> list[HotLoop]:
    """The most expensive loops, at most MOST_LOOPS, inner ones first."""
    hot_loops: list[HotLoop] = []
    by_object: dict[str, list[KernelInstruction]] = defaultdict(list)
    for one in code.instructions:
        if one.key.offset is not None:
            by_object[one.key.code_object].append(one)
    offsets = {name: [one.key.offset or 0 for one in inside] for name, inside in by_object.items()}
    sums = {
        name: [0.0, *accumulate(sum(n for _, n in _costs_by_reason(one, unit)) for one in inside)]
        for name, inside in by_object.items()
    }
    for loop in loops(code):
        name = loop.code_object
        first, end = bisect_left(offsets[name], loop.first), bisect_right(offsets[name], loop.last)
        back = by_object[name][end - 1].counts.get("executed")
        cost = sums[name][end] - sums[name][first]
        hot_loops.append(HotLoop(loop, end - first, cost, back, by_object[name], first))
    if len(hot_loops) > MOST_LOOPS:
        least = sorted((one.cost for one in hot_loops), reverse=True)[MOST_LOOPS - 1]
        hot_loops = [one for one in hot_loops if one.cost >= least][:MOST_LOOPS]
    return hot_loops


def _span(inside: Sequence[KernelInstruction]) -> tuple[SourceLine, SourceLine] | None:
    files: dict[str, list[int]] = defaultdict(list)
    for one in inside:
        if one.line.file is not None and one.line.number is not None:
            files[one.line.file].append(one.line.number)
    if not files:
        return None
    file, numbers = max(files.items(), key=lambda item: len(item[1]))
    return SourceLine(file, min(numbers)), SourceLine(file, max(numbers))


_LEAST_PCT = threshold("hotspots.quoted_line_pct")
_TEXT = 60


def quotes(workload: Workload, one: HotKernel, subsystem: str, limit: int = 3) -> list[str]:
    """Sentences about places, most significant first; none if the kernel has too few samples.

    Places are ranked by their samples with reasons that the subsystem explains. If the subsystem is used by a class of
    instructions, such as scratch, only these instructions count, if they have samples.
    """
    if not has_code(workload) or not one.small:
        return []
    ranking = rank(read(workload, one.kernel, one.launch), "line")
    if ranking.unit != "samples" or ranking.total < FEW:
        return []
    speaking = _data()["speaks"].get(subsystem)
    weights = [(_weight_of_places(spot, speaking), spot) for spot in ranking.spots]
    using = [(weight, spot) for weight, spot in weights if _uses(spot, subsystem)]
    hottest = sorted(using if sum(w for w, _ in using) else weights, key=lambda pair: -pair[0])[:limit]
    return [
        _line(ranking, spot, weight)
        for weight, spot in hottest
        if weight and (ranking.share_pct(weight) or 0.0) >= _LEAST_PCT
    ]


def _weight_of_places(spot: Spot, speaking: Sequence[str] | None) -> float:
    known = reasons()
    if speaking is None:
        return sum(n for reason, n in spot.reasons.items() if reason not in (ISSUED, READY))
    return sum(n for reason, n in spot.reasons.items() if reason is None or (reason in known and reason in speaking))


def _uses(spot: Spot, subsystem: str) -> bool:
    if subsystem not in ("scratch", "atomics", "sfu", "matrix", "barrier"):
        return False
    kinds = (one.kind for one in spot.instructions if spot.parts.get(one.key))
    return any(kind is not None and classes()[kind].subsystem == subsystem for kind in kinds if kind in classes())


def _line(ranking: Ranking, spot: Spot, weight: float) -> str:
    key = spot.main
    main = next(one for one in spot.instructions if one.key == key)
    reason = max(spot.reasons, key=lambda r: spot.reasons[r], default=None)
    why = f", most of them {reason}" if reason else ""
    share = ranking.share_pct(weight) or 0.0
    return f"{place(main)}: {share:.0f} % of the kernel's samples{why}"


def place(one: KernelInstruction) -> str:
    """File, line and instruction; only the instruction without line information."""
    text = one.key.text if len(one.key.text) <= _TEXT else f"{one.key.text[: _TEXT - 3]}..."
    at = "" if one.key.offset is None else f"0x{one.key.offset:x} "
    if one.line.file is None or one.line.number is None:
        return f"{at}{text}"
    return f"{PurePosixPath(one.line.file).name}:{one.line.number} ({text})"
