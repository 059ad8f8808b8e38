"""Draw occupancy: the waves that fit over registers, LDS and work-group size, with the kernel marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ..base.kernel_names import short
from ..base.notes import Note
from ..base.problems import BadArgument
from ..catalogue import targets
from ..occupancy import Occupancy, occupancy
from ..occupancy.binding_limits import words_of
from .style import (
    AFTER,
    FAINT,
    GRID,
    INK,
    LINE,
    MARKED,
    NORMAL,
    TITLE,
    WIDTH,
    Page,
    kernel_name,
    number,
    page,
    shorten_name,
    width_of,
    wrap_lines,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = ("doubted", "measured", "achieved_unknown", "no_agprs")
"""The codes of the notes that the picture includes."""
_KIB = 1024.0
_LEFT, _TOP, _WIDE, _TALL, _BETWEEN = 62, 92, 222, 250, 24


@dataclass(frozen=True)
class Sweep:
    """Waves per CU as a function of one resource, with all others unchanged."""

    title: str
    label: str
    xs: Sequence[float]
    waves: Sequence[int]
    now: float
    words: str
    """The kernel's own value, such as 72 VGPRs."""
    options: Sequence[tuple[float, int]] = field(default_factory=tuple)
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
    wave: str = "wave"


def of_kernel(
    resident: Occupancy, kernel: str, workload: str, achieved: float | None, notes: Sequence[Note]
) -> tuple[OccupancyPicture, list[str]]:
    """The picture of a kernel's occupancy and of its alternatives, and the facts in words.

    ``achieved`` are the measured waves per CU; ``notes`` are those on the kernel, some of which the picture includes.
    """
    launch, nvidia = resident.launch, targets.gpu(resident.gpu).vendor == "nvidia"
    wave = "warp" if nvidia else "wave"
    statements = [note.text for note in notes if note.code in _SHOWN]
    picture = OccupancyPicture(
        title=f"Occupancy on {resident.gpu}: {workload}",
        kernel=kernel,
        occupancy=resident,
        sweeps=sweeps(resident),
        achieved=achieved,
        statements=statements,
        wave=wave,
    )
    facts = [
        f"{kernel}: {resident.waves_per_cu} of {resident.max_waves_per_cu} {wave}s per {resident.unit} "
        f"({number(resident.occupancy_pct)} %), limited by {', '.join(resident.limiters)}.",
        f"It uses {launch.vgprs} VGPRs, {launch.agprs} AGPRs, {launch.sgprs} SGPRs, {launch.lds_bytes} "
        f"bytes of LDS, work-groups of {launch.workgroup_size}.",
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
    nvidia = targets.gpu(resident.gpu).vendor == "nvidia"
    register, lane = ("registers", "thread") if nvidia else ("VGPRs", "work-item")
    group, memory = ("block", "shared memory") if nvidia else ("work-group", "LDS")
    extra = f" (+ {launch.agprs} AGPRs)" if launch.agprs else ""
    static = range(0, rule.lds_per_group - launch.dynamic_lds_bytes + 1, max(rule.lds_block, 512))
    sizes = [1, *range(rule.wave_size, rule.workgroup_size + 1, rule.wave_size)]
    per_lane, per_group, size = f"{register} per {lane}", f"{memory} per {group}", f"{group} size"
    registers = range(1, rule.max_vgprs + 1)
    kib, dynamic = f"{number(launch.lds / _KIB)} KiB", launch.dynamic_lds_bytes
    axes = (
        _Along("vgprs", per_lane + extra, per_lane, f"{launch.vgprs} {register}", registers),
        _Along("lds_bytes", per_group, f"{per_group} (KiB)", kib, static, _KIB, dynamic),
        _Along("workgroup_size", size, f"{size} ({lane}s)", f"{launch.workgroup_size} {lane}s", sizes),
    )
    return [_sweep(resident, along) for along in axes]


@dataclass(frozen=True)
class _Along:
    """An argument of a launch that is varied; it is shown in units of ``unit``, with ``added`` added to it."""

    argument: str
    title: str
    label: str
    words: str
    values: Sequence[int]
    unit: float = 1.0
    added: int = 0

    def to_axis(self, value: int) -> float:
        """A value of the argument in units of the axis."""
        return (value + self.added) / self.unit


def _sweep(resident: Occupancy, along: _Along) -> Sweep:
    now = getattr(resident.launch, along.argument)
    waves = {v: n for v in sorted({*along.values, now}) if (n := _waves(resident, along.argument, v)) is not None}
    single = [(what_if.changes[0], what_if.waves_per_cu) for what_if in resident.what_if if len(what_if.changes) == 1]
    return Sweep(
        title=along.title[0].upper() + along.title[1:],
        label=along.label[0].upper() + along.label[1:],
        xs=[along.to_axis(value) for value in waves],
        waves=list(waves.values()),
        now=along.to_axis(now),
        words=along.words,
        options=[(along.to_axis(change.to), n) for change, n in single if change.argument == along.argument],
    )


def _waves(resident: Occupancy, argument: str, value: int) -> int | None:
    """Waves per CU with one argument changed, or None if the target does not allow the value."""
    launch = {**asdict(resident.launch), argument: value}
    try:
        return occupancy(resident.gpu, mode=resident.mode, **launch).waves_per_cu
    except BadArgument:
        return None


def draw(shown: OccupancyPicture) -> Page:
    """Draw the picture as a page."""
    resident = shown.occupancy
    below = wrap_lines([*_limits(shown), *shown.statements], WIDTH - 40)
    made = page(_TOP + _TALL + 66 + LINE + LINE * len(below) + 8)
    made.text(
        20, 12, shorten_name(shown.title, WIDTH - 40, TITLE, bold=True), fontsize=TITLE, weight="bold", kind="title"
    )
    made.text(20, 34, kernel_name(shown.kernel, short(shown.kernel), WIDTH - 40), color=FAINT, kind="title")
    achieved = "" if shown.achieved is None else f"; measured: {number(shown.achieved)} on average"
    made.text(
        20, 52, f"{resident.waves_per_cu} of {resident.max_waves_per_cu} {shown.wave}s per {resident.unit} "
        f"({number(resident.occupancy_pct)} %), limited by {_names(resident.limiters, resident.gpu)}{achieved}",
        fontsize=NORMAL, kind="title",
    )  # fmt: skip
    for i, sweep in enumerate(shown.sweeps):
        axes = made.axes(_LEFT + i * (_WIDE + _BETWEEN), _TOP, _WIDE, _TALL)
        _panel(made, axes, shown, sweep, i)
    made.text(20, _TOP + _TALL + 56, _key(shown), kind="key")
    made.lines(20, _TOP + _TALL + 60 + LINE, below, WIDTH, color=FAINT, kind="statement")
    return made


def _panel(made: Page, axes: Axes, shown: OccupancyPicture, sweep: Sweep, index: int) -> None:
    resident = shown.occupancy
    slots = resident.max_waves_per_cu
    axes.set_ylim(0, slots * 1.22)
    span = max(sweep.xs) - min(sweep.xs)
    axes.set_xlim(min(0.0, min(sweep.xs)), max(sweep.xs) + 0.02 * span)
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.plot(sweep.xs, sweep.waves, color=AFTER, linewidth=1.8, drawstyle="steps-pre", gid="waves")
    axes.axhline(slots, color=FAINT, linewidth=1.0, linestyle=(0, (5, 3)))
    if shown.achieved is not None:
        axes.axhline(shown.achieved, color=MARKED, linewidth=1.2, linestyle=(0, (1, 2)), gid="achieved")
    axes.plot([sweep.now], [resident.waves_per_cu], marker="o", markersize=9, color=MARKED, markeredgecolor=INK,
              zorder=5, linestyle="none", gid="kernel", clip_on=False)  # fmt: skip
    for x, waves in sweep.options[:3]:
        axes.plot([x], [waves], marker="o", markersize=7, markerfacecolor="white", markeredgecolor=INK, zorder=4,
                  linestyle="none", gid="option")  # fmt: skip
    ticks = list(range(0, slots + 1, max(1, slots // 8)))
    axes.set_yticks(ticks)
    if index == 0:
        axes.set_ylabel(f"{shown.wave.capitalize()}s per {resident.unit}")
    else:
        axes.set_yticklabels([])
    axes.set_xlabel(sweep.label)
    left = _LEFT + index * (_WIDE + _BETWEEN)
    words = f"● {sweep.words}: {resident.waves_per_cu}"
    option = next(iter(sweep.options), None)
    unit = " KiB" if sweep.words.endswith("KiB") else ""
    more = f"   ○ {number(option[0])}{unit}: {option[1]}" if option else ""
    made.text(left + 4, _TOP + 4, shorten_name(words + more, _WIDE - 6), kind="kernel")
    top = _TOP + _TALL * (1 - slots / (slots * 1.22))
    tail = f"{slots} slots"
    made.text(left + _WIDE - width_of(tail) - 4, top - 7, tail, va="bottom", color=FAINT, kind="slots")


def _key(shown: OccupancyPicture) -> str:
    key = f"● this kernel      ○ the next value with more {shown.wave}s"
    return key + ("      dotted: measured on average" if shown.achieved is not None else "")


def _limits(shown: OccupancyPicture) -> list[str]:
    parts = [f"{_names([name], shown.occupancy.gpu)} {waves}" for name, waves in shown.occupancy.limits.items()]
    sentences = [f"{shown.wave.capitalize()}s that each resource alone would allow: {', '.join(parts)}."]
    if any(0 in sweep.waves for sweep in shown.sweeps):
        sentences.append(f"0 {shown.wave}s: not even one whole group fits, so the launch fails.")
    return sentences


def _names(limiters: Sequence[str], gpu: str) -> str:
    return words_of(gpu).limiter_names(limiters)
