"""The contents of a roofline picture, as figures and in words, for the kernels of a workload or for a device alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.problems import BadInput
from ..rooflines.ceilings import Ceiling, Ceilings
from ..rooflines.notes import notes, without_ceiling
from ..rooflines.roofline import Roofline, RooflinePoint
from .style import NAMES, number, ranges

_ROOM = 0.06
"""The share of the height of the axes that stays free below the lowest point."""


@dataclass(frozen=True)
class Roof:
    """One ceiling; ``origin`` says briefly where it comes from."""

    name: str
    value: float
    unit: str
    origin: str


@dataclass(frozen=True)
class Dot:
    """One kernel at one level; without intensity or performance it has no position, but it may have a bandwidth."""

    kernel: int
    level: str
    datatype: str
    intensity: float | None
    performance: float | None
    bandwidth: float | None
    doubtful: bool = False

    @property
    def is_drawable(self) -> bool:
        """Whether it has a position on two logarithmic axes."""
        return all(math.isfinite(v) and v > 0 for v in self.place)

    @property
    def place(self) -> tuple[float, float]:
        """Intensity and performance; 0 if unknown."""
        return self.intensity or 0.0, self.performance or 0.0


@dataclass(frozen=True)
class KernelListLine:
    """A line of the list of kernels below the axes."""

    number: int
    name: str
    share_pct: float | None
    verdict: str


@dataclass(frozen=True)
class RooflinePicture:
    """The contents of the picture; ``unit`` is that of the compute ceilings and of performance."""

    title: str
    device: str
    unit: str
    intensity_unit: str
    roofs: Sequence[Roof]
    dots: Sequence[Dot]
    kernels: Sequence[KernelListLine]
    statements: Sequence[str]
    sweeps: Sequence[Sequence[tuple[float, float]]] = ()
    """Measured roofs: the rates reached at increasing intensities."""


@dataclass(frozen=True)
class Sheet:
    """Everything to draw, with the ceilings in descending order, and the limits of the axes."""

    shown: RooflinePicture
    bandwidths: list[Roof]
    peaks: list[Roof]
    x0: float
    x1: float
    y0: float
    y1: float

    @classmethod
    def of(cls, shown: RooflinePicture) -> Sheet:
        """The sheet with limits wide enough for all points and for the ridge points of all ceilings."""
        falling = sorted(shown.roofs, key=lambda roof: -roof.value)
        bandwidths = [roof for roof in falling if roof.unit == "GB/s"]
        peaks = [roof for roof in falling if roof.unit != "GB/s"]
        places = [dot.place for dot in shown.dots if dot.is_drawable]
        drawn = [*places, *(place for line in shown.sweeps for place in line)]
        xs, ys = [x for x, _ in drawn], [y for _, y in drawn]
        xs += [p.value / b.value for p in (peaks[:1] + peaks[-1:]) for b in (bandwidths[:1] + bandwidths[-1:])]
        x0, x1 = _pad_limits(min(xs, default=0.1) / 5, max(xs, default=100.0) * 3)
        ys += [p.value for p in peaks] or [b.value * x1 / 10 for b in bandwidths]
        low = min([*(y / 2 for y in ys), *(b.value * x0 * 2 for b in bandwidths)], default=1.0)
        y0, y1 = _pad_limits(low, max(ys, default=1000.0) * 2.5)
        lowest = min((y for _, y in places), default=y1)
        return cls(shown, bandwidths, peaks, x0, x1, min(y0, lowest * (lowest / y1) ** _ROOM), y1)

    @property
    def origins(self) -> list[str]:
        """The distinct origins of the ceilings, for the footnotes."""
        return list(dict.fromkeys(roof.origin for roof in self.shown.roofs))

    def footnote(self, origin: str) -> str:
        """The footnote mark of a ceiling, if the ceilings have several origins."""
        return f" [{mark(self.origins.index(origin))}]" if len(self.origins) > 1 else ""

    def slope(self, bandwidth: float, most: float | None = None) -> tuple[list[float], list[float]]:
        """Both ends of the line of a bandwidth within the frame, up to the rate ``most``."""
        start = max(self.x0, self.y0 / bandwidth)
        end = min(self.x1, self.x1 if most is None else most / bandwidth, self.y1 / bandwidth)
        return [start, end], [bandwidth * start, bandwidth * end]

    def roof(self, bandwidth: float) -> tuple[list[float], list[float]]:
        """The line of a bandwidth as a ceiling: no higher than the highest peak."""
        return self.slope(bandwidth, self.peaks[0].value if self.peaks else None)

    def level(self, height: float) -> tuple[list[float], list[float]]:
        """Both ends of a compute ceiling, which starts where the fastest memory reaches it."""
        start = max(self.x0, height / self.bandwidths[0].value) if self.bandwidths else self.x0
        return [start, self.x1], [height, height]


def _pad_limits(low: float, high: float) -> tuple[float, float]:
    """Limits with at least two decades between them."""
    missing = max(0.0, 2.0 - math.log10(high / low)) / 2
    return low * 10**-missing, high * 10**missing


def mark(index: int) -> str:
    """The letter of a footnote."""
    return chr(ord("a") + index)


_DOUBTFUL = ("suspect", "impossible")
_ABOUT_CEILINGS = ("benchmarked", "stale", "from_other_workload", "about_operations")
"""The codes of the notes that every picture includes."""
_CROSSES = "Small crosses: the measured roof, from kernels of increasing intensity ({})."
_HOST = "host."
_BEST_OF = ("read", "copy", "triad", "write")
_UNITS = ("GB/s", "GFLOP/s")


@dataclass(frozen=True)
class RooflineSubject:
    """The subject of a roofline: the workload's name, its kernels' percentage of the time, and the requested data
    type."""

    name: str
    shares: Mapping[str, float | None]
    datatype: str | None = None


def of_kernels(roofline: Roofline, subject: RooflineSubject) -> tuple[RooflinePicture, list[str]]:
    """The roofline of a workload's longest kernels, and the facts in words. Raises BadInput if nothing can be drawn."""
    inputs, points = roofline.inputs, roofline.points
    instructions = roofline.kind == "instruction"
    dots = [_dot(p) for p in points]
    units = sorted({p.unit for p in points if p.performance})
    unit = "GIPS" if instructions else " or ".join(units) or "GFLOP/s"
    ceilings = _select_ceilings(inputs.ceilings, unit, subject.datatype)
    if not ceilings and not any(d.is_drawable for d in dots):
        raise BadInput(
            f"The roofline of {subject.name!r} has nothing to draw",
            "; ".join(dict.fromkeys(p.reason.text for p in points if p.reason)) or "it has no kernels",
            "compute_roofline says which counters and device facts are missing",
        )
    bounded = {"GB/s", *unit.split(" or ")} <= {c.unit for c in ceilings}
    statements = [*_missing(points, dots), *_notes_in_picture(roofline, any(d.is_drawable for d in dots), bounded)]
    statements = [_short(sentence, 260) for sentence in statements]
    sweeps = _sweeps(inputs.ceilings, unit)
    if sweeps:
        statements.append(_CROSSES.format("hbm"))
    known = "measured ceilings" if inputs.ceilings.kind == "empirical" else "theoretical ceilings"
    about = f"; data type {subject.datatype}" if subject.datatype else ""
    picture = RooflinePicture(
        title=f"{'Instruction roofline' if instructions else 'Roofline'} of {subject.name}",
        device=f"{inputs.ceilings.device}; {known if ceilings else 'no known ceilings'}{about}",
        unit=unit,
        intensity_unit=f"{inputs.formulas.words.wave} instructions / byte" if instructions else "operations / byte",
        roofs=[Roof(c.name, c.value, c.unit, _origin(c, inputs.ceilings)) for c in ceilings],
        dots=dots,
        kernels=[_kernel(rank, points, subject) for rank in dict.fromkeys(p.rank for p in points)],
        statements=statements,
        sweeps=sweeps,
    )
    facts = [_point_words(p, subject) for p in points]
    facts += [f"Ceiling {c.name}: {number(c.value)} {c.unit} ({c.source})." for c in ceilings]
    return picture, [*facts, *statements]


def _dot(p: RooflinePoint) -> Dot:
    return Dot(p.rank, p.level, p.datatype, p.intensity, p.performance, p.bandwidth, p.status in _DOUBTFUL)


def _select_ceilings(ceilings: Ceilings, unit: str, datatype: str | None) -> list[Ceiling]:
    """The bandwidths, and the compute ceilings in the unit of the points (only of the requested data type, if any)."""
    known = [c for c in ceilings.known.values() if c.unit == "GB/s" or c.unit in unit]
    if datatype and (word := datatype.lower().replace("fp", "f")) not in ("all", "flop", "total", "iop", "int"):
        typed = [
            c for c in known if c.unit == "GB/s" or word in (c.name, c.name.partition(".")[2].removesuffix("_packed"))
        ]
        known = typed if any(c.unit != "GB/s" for c in typed) else known
    plain = {c.name: c.value for c in known}
    return [c for c in known if not c.name.endswith("_packed") or plain.get(c.name.removesuffix("_packed")) != c.value]


def _sweeps(ceilings: Ceilings, unit: str) -> list[list[tuple[float, float]]]:
    """The measured roofs in the unit of the picture."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in ceilings.sweep:
        if point.unit in unit.split(" or "):
            lines.setdefault(point.ceiling, []).append((point.intensity, point.value))
    return list(lines.values())


def _origin(ceiling: Ceiling, ceilings: Ceilings) -> str:
    if ceiling.kind == "theoretical":
        return f"theoretical, units x rate x clock of {ceilings.device}, never quite reached by kernels"
    if ceiling.derived_from:
        return "derived from a measured ceiling"
    return ceiling.source if ceiling.by_hand else f"measured, {ceiling.source.replace(' ()', '')}"


def _kernel(rank: int, points: Sequence[RooflinePoint], subject: RooflineSubject) -> KernelListLine:
    mine = [p for p in points if p.rank == rank]
    first = mine[0]
    best = max((p.pct_of_attainable for p in mine if p.pct_of_attainable is not None), default=None)
    verdict = first.bound + (f" ({first.limiter})" if first.limiter and first.limiter != first.bound else "")
    if best is not None and any(_dot(p).is_drawable for p in mine):
        verdict += f", {number(best)} % of its roof"
    return KernelListLine(rank, first.kernel, subject.shares.get(first.kernel), verdict)


def _missing(points: Sequence[RooflinePoint], dots: Sequence[Dot]) -> list[str]:
    """Sentences on what the picture cannot show, and on unreliable points."""
    sentences = []
    drawn = {d.kernel for d in dots if d.is_drawable}
    absent = sorted({d.kernel for d in dots} - drawn)
    if absent:
        mine = [p for p in points if p.rank in absent]
        sentences.append(f"No point for kernel {ranges(absent)}: {_why(mine)}.")
        if all(p.status == "not_supported" for p in mine):
            sentences.append('The instruction roofline needs no such counters: roofline_kind="instruction".')
        sentences += _bandwidths([p for p in mine if p.rank == absent[0]])
    placed = {(d.kernel, d.level) for d in dots if d.is_drawable}
    for level in NAMES:
        lost = [p for p in points if p.level == level and p.rank in drawn and (p.rank, level) not in placed]
        if lost:
            reason = _short(_why(lost), 110)
            at = ranges([p.rank for p in lost])
            sentences.append(f"No point at {NAMES[level]} for kernel {at}: {reason}.")
    if any(d.doubtful and d.is_drawable for d in dots):
        sentences.append("Hollow points are doubtful (suspect or impossible counts).")
    doubted = dict.fromkeys(p.reason.text for p in points if p.reason and p.reason.code == "doubted")
    sentences += [f"Suspect: {text}." for text in list(doubted)[:2]]
    over = [p for p, d in zip(points, dots, strict=True) if d.is_drawable and (p.pct_of_attainable or 0) > 100]
    if reasons := [(p.rank, p.reason.text) for p in over if p.reason]:
        which = ranges([rank for rank, _ in reasons])
        sentences.append(f"Over 100 % (kernel {which}): {_short(reasons[0][1], 150)}.")
    return sentences


def _notes_in_picture(roofline: Roofline, drawn: bool, bounded: bool) -> list[str]:
    """The notes on the roofline that its picture includes."""
    codes = {*_ABOUT_CEILINGS, "none_measured" if bounded else "no_ceiling", *(["not_counted"] if drawn else [])}
    return [
        (f"No value for {without_ceiling(roofline.inputs, 'ceilings')}" if note.code == "no_ceiling" else note.text)
        for note in notes(roofline, list(NAMES))
        if note.code in codes
    ]


def _bandwidths(points: Sequence[RooflinePoint]) -> list[str]:
    """The bandwidths of a kernel without a point."""
    parts = [
        f"{NAMES[p.level]} {number(p.bandwidth)} GB/s"
        + (f" ({number(p.pct_of_bandwidth)} %)" if p.pct_of_bandwidth is not None else "")
        for p in {p.level: p for p in points}.values()
        if p.bandwidth is not None and p.bandwidth > 0
    ]
    if not parts:
        return []
    lies = " Its point is somewhere on the thin dashed lines of those colours." if points[0].performance is None else ""
    return [f"Kernel {points[0].rank} moves {', '.join(parts)}.{lies}"]


def _why(points: Sequence[RooflinePoint]) -> str:
    """The first reason why points have no position; missing traffic takes precedence."""
    some = [p for p in points if p.performance or p.performance is None] or points
    if past := next((p.reason.text for p in some if p.status == "bypassed" and p.reason), None):
        return past
    if all(p.bytes == 0 for p in some):
        return "no traffic at this level"
    return next((p.reason.text.removesuffix(" ...") for p in some if p.reason), "no value")


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 2].rpartition(", ")[0] + " and more"


def _point_words(p: RooflinePoint, subject: RooflineSubject) -> str:
    dot = _dot(p)
    head = f"{p.rank}. {p.kernel} at {NAMES[p.level]}" + (f" ({p.datatype})" if not p.of_instructions else "")
    if not dot.is_drawable:
        moved = f", {number(dot.bandwidth)} GB/s" if dot.bandwidth else ""
        return f"{head}: no point ({p.reason or 'no value'}){moved}; bound: {p.bound}."
    share, roof = subject.shares.get(p.kernel), p.pct_of_attainable
    return (
        f"{head}: {number(p.intensity or 0)} per byte, {number(p.performance or 0)} {p.unit}"
        + (f", {number(roof)} % of attainable" if roof is not None else "")
        + f"; bound: {p.bound}{_aside(p.limiter)}"
        + (f"; {number(share)} % of the time" if share is not None else "")
        + f"; {p.status}{_aside(p.reason)}."
    )


def _aside(words: object) -> str:
    return f" ({words})" if words else ""


def of_device(rows: Sequence[Mapping[str, Any]]) -> tuple[RooflinePicture, list[str]]:
    """A device's measured ceilings (rows of ``measured_ceilings``) without any kernel, and the facts in words.

    The best of the ways to use each memory level is its bandwidth.
    """
    first = rows[0]
    roofs = _best([row for row in rows if row["intensity"] is None and row["unit"] in _UNITS])
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["intensity"] is not None:
            lines.setdefault(row["ceiling"], []).append((row["intensity"], row["value"]))
    sweeps = {name: sorted(points) for name, points in lines.items()}
    host = first["gpu"] == "cpu"
    statements = ["These are the ceilings of this machine's host processors, not of a GPU."] if host else []
    if sweeps:
        statements.append(_CROSSES.format(", ".join(sweeps)))
    picture = RooflinePicture(
        title=f"Measured roofline of {first['device'] or first['gpu']}",
        device=f"{first['gpu']}, {first['partition'] or first['device_uuid']}; measured ceilings",
        unit="GFLOP/s",
        intensity_unit="operations / byte",
        roofs=roofs,
        dots=[],
        kernels=[],
        statements=statements,
        sweeps=list(sweeps.values()),
    )
    facts = [f"Ceiling {roof.name}: {number(roof.value)} {roof.unit} ({roof.origin})." for roof in roofs]
    facts += [
        f"{name}: " + ", ".join(f"{number(y)} GFLOP/s at {x:g} FLOP/B" for x, y in line) + "."
        for name, line in sweeps.items()
    ]
    return picture, [*facts, *statements]


def _best(rows: Sequence[Mapping[str, Any]]) -> list[Roof]:
    """The highest bandwidth of each level over its access types (read, copy ...), and every rate of operations."""
    roofs: dict[str, Roof] = {}
    for row in rows:
        level, _, way = str(row["ceiling"]).removeprefix(_HOST).rpartition(".")
        name = f"{level}.bw" if way in _BEST_OF else f"{level}.{way}"
        origin = f"measured, run_peak_benchmarks ({row['mode']}), {row['measured_at']}"
        if name not in roofs or roofs[name].value < row["value"]:
            roofs[name] = Roof(name, row["value"], row["unit"], origin)
    return list(roofs.values())
