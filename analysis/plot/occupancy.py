"""Draw occupancy: the waves that fit over registers, LDS and work-group size, with the kernel marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..base.kernel_names import short
from ..base.notes import Note
from ..base.problems import BadArgument
from ..catalogue.vocabulary import in_vendor_terms, limiter_words
from ..occupancy import Occupancy, occupancy
from .style import (
    AFTER,
    FAINT,
    GRID,
    INK,
    MARGIN,
    MARKED,
    NORMAL,
    SMALL,
    WIDTH,
    kernel_name,
    number,
    page,
    plain,
    shorten_name,
)

_SHOWN = ("doubted", "measured", "achieved_unknown", "no_agprs")
"""The codes of the notes that the picture includes."""
_KIB = 1024.0
_TALL, _WIDE = 312, 225
"""Pixels: the height of the axes with their labels, and the width of one."""


@dataclass(frozen=True)
class Sweep:
    """Waves per CU as a function of one resource, with all others unchanged."""

    label: str
    xs: Sequence[float]
    waves: Sequence[int]
    now: float
    words: str
    """The kernel's own value, such as 72 VGPRs."""
    options: Sequence[tuple[float, int]] = ()
    """The values at which more waves fit, nearest first."""


@dataclass(frozen=True)
class OccupancyPicture:
    """The contents of the picture."""

    title: str
    kernel: str
    occupancy: Occupancy
    sweeps: Sequence[Sweep]
    achieved: float | None
    statements: Sequence[str]

    def words(self, words: str) -> str:
        """The words in the terms of the GPU's vendor."""
        return in_vendor_terms(words, self.occupancy.gpu)


def of_kernel(
    resident: Occupancy, kernel: str, workload: str, achieved: float | None, notes: Sequence[Note]
) -> tuple[OccupancyPicture, list[str]]:
    """The picture of a kernel's occupancy and of its alternatives, and the facts in words.

    ``achieved`` are the measured waves per CU; ``notes`` are those on the kernel, some of which the picture includes.
    """
    launch, wave = resident.launch, in_vendor_terms("wave", resident.gpu)
    statements = [note.text for note in notes if note.code in _SHOWN]
    picture = OccupancyPicture(
        title=f"Occupancy on {resident.gpu}: {workload}",
        kernel=kernel,
        occupancy=resident,
        sweeps=sweeps(resident),
        achieved=achieved,
        statements=statements,
    )
    facts = [
        f"{kernel}: {resident.waves_per_cu} of {resident.max_waves_per_cu} {wave}s per {resident.unit} "
        f"({number(resident.occupancy_pct)} %), limited by {', '.join(resident.limiters)}.",
        in_vendor_terms(
            f"It uses {launch.vgprs} VGPRs, {launch.agprs} AGPRs, {launch.sgprs} SGPRs, {launch.lds_bytes} "
            f"bytes of LDS, work-groups of {launch.workgroup_size}.",
            resident.gpu,
        ),
        *(
            f"{' and '.join(f'{c.argument} {c.now} -> {c.to}' for c in w.changes)} would give {w.waves_per_cu} "
            f"{wave}s ({number(w.occupancy_pct)} %)."
            for w in resident.what_if
        ),
    ]
    return picture, [*facts, *statements]


def sweeps(resident: Occupancy) -> list[Sweep]:
    """Waves over registers, LDS and work-group size, each varied from the launch of ``resident``."""
    rule, launch = resident.rule, resident.launch
    words = (in_vendor_terms(word, resident.gpu) for word in ("VGPRs", "work-item", "work-group", "LDS"))
    register, lane, group, memory = words
    static = range(0, rule.lds_per_group - launch.dynamic_lds_bytes + 1, max(rule.lds_block, 512))
    sizes = [1, *range(rule.wave_size, rule.workgroup_size + 1, rule.wave_size)]
    registers = range(1, rule.max_vgprs + 1)
    kib, dynamic = f"{number(launch.lds / _KIB)} KiB", launch.dynamic_lds_bytes
    per_group, size = f"{memory} per {group} (KiB)", f"{group} size ({lane}s)"
    return [
        _sweep(resident, "vgprs", f"{register} per {lane}", f"{launch.vgprs} {register}", registers),
        _sweep(resident, "lds_bytes", per_group, kib, static, lambda value: (value + dynamic) / _KIB),
        _sweep(resident, "workgroup_size", size, f"{launch.workgroup_size} {lane}s", sizes),
    ]


def _sweep(
    resident: Occupancy,
    argument: str,
    label: str,
    words: str,
    values: Iterable[int],
    to_axis: Callable[[int], float] = float,
) -> Sweep:
    """Vary an argument of a launch, whose values ``to_axis`` converts to the unit of the axis."""
    now = getattr(resident.launch, argument)
    waves = {v: n for v in sorted({*values, now}) if (n := _waves(resident, argument, v)) is not None}
    single = [(what_if.changes[0], what_if.waves_per_cu) for what_if in resident.what_if if len(what_if.changes) == 1]
    return Sweep(
        label=label[0].upper() + label[1:],
        xs=[to_axis(value) for value in waves],
        waves=list(waves.values()),
        now=to_axis(now),
        words=words,
        options=[(to_axis(change.to), n) for change, n in single if change.argument == argument],
    )


def _waves(resident: Occupancy, argument: str, value: int) -> int | None:
    """Waves per CU with one argument changed, or None if the target does not allow the value."""
    launch = {**asdict(resident.launch), argument: value}
    try:
        return occupancy(resident.gpu, mode=resident.mode, **launch).waves_per_cu
    except BadArgument:
        return None


def draw(shown: OccupancyPicture) -> Figure:
    """Draw the picture as a page."""
    resident, waves = shown.occupancy, shown.words("waves")
    heading = [
        shown.title,
        kernel_name(shown.kernel, short(shown.kernel), (WIDTH - 2 * MARGIN) * SMALL / NORMAL),
        f"{resident.waves_per_cu} of {resident.max_waves_per_cu} {waves} per {resident.unit} "
        f"({number(resident.occupancy_pct)} %), limited by {limiter_words(resident.limiters, resident.gpu)}"
        + ("" if shown.achieved is None else f"; measured: {number(shown.achieved)} on average"),
    ]
    dotted = "; dotted: measured on average" if shown.achieved is not None else ""
    key = f"● this kernel; ○ the next value with more {waves}; dashed: slots{dotted}."
    figure = page(heading, _TALL, [key, *_limits(shown), *shown.statements])
    panels = figure.subplots(1, len(shown.sweeps), sharey=True)
    panels[0].set_ylabel(f"{waves.capitalize()} per {resident.unit}")
    for axes, sweep in zip(panels, shown.sweeps, strict=True):
        _panel(axes, shown, sweep)
    return figure


def _panel(axes: Axes, shown: OccupancyPicture, sweep: Sweep) -> None:
    waves, slots = shown.occupancy.waves_per_cu, shown.occupancy.max_waves_per_cu
    plain(axes)
    axes.set_ylim(0, slots * 1.1)
    span = max(sweep.xs) - min(sweep.xs)
    axes.set_xlim(min(0.0, min(sweep.xs)), max(sweep.xs) + 0.02 * span)
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.plot(sweep.xs, sweep.waves, color=AFTER, linewidth=1.8, drawstyle="steps-pre", gid="waves")
    axes.axhline(slots, color=FAINT, linewidth=1.0, linestyle=(0, (5, 3)))
    if shown.achieved is not None:
        axes.axhline(shown.achieved, color=MARKED, linewidth=1.2, linestyle=(0, (1, 2)), gid="achieved")
    mark: Any = {"marker": "o", "markeredgecolor": INK, "linestyle": "none", "clip_on": False}
    axes.plot(sweep.now, waves, markersize=9, color=MARKED, zorder=5, gid="kernel", **mark)
    for x, more in sweep.options[:3]:
        axes.plot(x, more, markersize=7, markerfacecolor="white", zorder=4, gid="option", **mark)
    axes.set_yticks(range(0, slots + 1, max(1, slots // 8)))
    axes.set_xlabel(sweep.label)
    unit = " KiB" if sweep.words.endswith("KiB") else ""
    option = "".join(f"   ○ {number(x)}{unit}: {more}" for x, more in sweep.options[:1])
    words = shorten_name(f"● {sweep.words}: {waves}{option}", _WIDE)
    axes.set_title(words, loc="left", fontsize=SMALL)
    at = axes.get_yaxis_transform()
    axes.text(1, slots * 1.01, f"{slots} slots", transform=at, ha="right", va="bottom", color=FAINT, fontsize=SMALL)


def _limits(shown: OccupancyPicture) -> list[str]:
    parts = [f"{limiter_words([name], shown.occupancy.gpu)} {waves}" for name, waves in shown.occupancy.limits.items()]
    sentences = [f"{shown.words('Waves')} that each resource alone would allow: {', '.join(parts)}."]
    if any(0 in sweep.waves for sweep in shown.sweeps):
        sentences.append(f"0 {shown.words('waves')}: not even one whole group fits, so the launch fails.")
    return sentences
