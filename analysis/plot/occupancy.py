"""Occupancy as a picture: the waves that fit against registers, LDS and work-group size, with the kernel marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..catalogue import targets
from ..occupancy import Occupancy
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
    number,
    page,
    shortened,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEFT, _TOP, _WIDE, _TALL, _BETWEEN = 62, 92, 222, 250, 24


@dataclass(frozen=True)
class Sweep:
    """Waves per CU as one resource varies and all others stay as they are."""

    title: str
    label: str
    xs: Sequence[float]
    waves: Sequence[int]
    now: float
    words: str
    """What the kernel has of it, such as 72 VGPRs."""
    options: Sequence[tuple[float, int]] = field(default_factory=tuple)
    """Values at which more waves fit, nearest first."""


@dataclass(frozen=True)
class Scene:
    """All that the picture shows."""

    title: str
    kernel: str
    found: Occupancy
    sweeps: Sequence[Sweep]
    achieved: float | None
    statements: Sequence[str]
    wave: str = "wave"


def sweeps(found: Occupancy, of: Callable[..., Occupancy | None]) -> list[Sweep]:
    """The three sweeps around a launch; ``of(vgprs=64)`` is the occupancy with that changed, None where impossible."""
    rule, launch = found.rule, found.launch
    nvidia = targets.gpu(found.gpu).vendor == "nvidia"
    register, lane = ("registers", "thread") if nvidia else ("VGPRs", "work-item")
    group, memory = ("block", "shared memory") if nvidia else ("work-group", "LDS")
    extra = f" (+ {launch.agprs} AGPRs)" if launch.agprs else ""
    step = max(rule.lds_block, 512)
    static = range(0, rule.lds_per_group - launch.dynamic_lds_bytes + 1, step)
    sizes = [1, *range(rule.wave_size, rule.workgroup_size + 1, rule.wave_size)]
    kib = 1024.0
    single = [(w.changes[0], w.waves_per_cu) for w in found.what_if if len(w.changes) == 1]
    raised = {n: [(c.to, w) for c, w in single if c.argument == n] for n in ("vgprs", "lds_bytes", "workgroup_size")}
    every = launch.dynamic_lds_bytes
    return [
        _sweep(
            f"{register} per {lane}{extra}", f"{register} per {lane}", range(1, rule.max_vgprs + 1), launch.vgprs,
            f"{launch.vgprs} {register}", lambda v: of(vgprs=v), raised["vgprs"], 1.0, 0,
        ),
        _sweep(
            f"{memory} per {group}", f"{memory} per {group} (KiB)", static, launch.lds_bytes,
            f"{number(launch.lds / kib)} KiB", lambda v: of(lds_bytes=v), raised["lds_bytes"], kib, every,
        ),
        _sweep(
            f"{group} size", f"{group} size ({lane}s)", sizes, launch.workgroup_size,
            f"{launch.workgroup_size} {lane}s", lambda v: of(workgroup_size=v), raised["workgroup_size"], 1.0, 0,
        ),
    ]  # fmt: skip


def _sweep(
    title: str, label: str, values: Sequence[int], now: int, words: str, at: Callable[[int], Occupancy | None],
    options: Sequence[tuple[int, int]], unit: float, added: int,
) -> Sweep:  # fmt: skip
    pairs = [(v, o.waves_per_cu) for v in sorted({*values, now}) if (o := at(v)) is not None]
    return Sweep(
        title[0].upper() + title[1:], label[0].upper() + label[1:], [(v + added) / unit for v, _ in pairs],
        [w for _, w in pairs], (now + added) / unit, words, [((v + added) / unit, w) for v, w in options],
    )  # fmt: skip


def draw(scene: Scene) -> Page:
    """The picture of a scene."""
    found = scene.found
    below = wrapped([*_limits(scene), *scene.statements], WIDTH - 40)
    made = page(_TOP + _TALL + 66 + LINE + LINE * len(below) + 8)
    made.text(20, 12, shortened(scene.title, WIDTH - 40, TITLE, bold=True), fontsize=TITLE, weight="bold", kind="title")
    made.text(20, 34, shortened(scene.kernel, WIDTH - 40), color=FAINT, kind="title")
    achieved = "" if scene.achieved is None else f"; measured: {number(scene.achieved)} on average"
    made.text(
        20, 52, f"{found.waves_per_cu} of {found.max_waves_per_cu} {scene.wave}s per {found.unit} "
        f"({number(found.occupancy_pct)} %), limited by {_names(found.limiters, found.gpu)}{achieved}",
        fontsize=NORMAL, kind="title",
    )  # fmt: skip
    for i, sweep in enumerate(scene.sweeps):
        axes = made.axes(_LEFT + i * (_WIDE + _BETWEEN), _TOP, _WIDE, _TALL)
        _panel(made, axes, scene, sweep, i)
    made.text(20, _TOP + _TALL + 56, _key(scene), kind="key")
    made.lines(20, _TOP + _TALL + 60 + LINE, below, WIDTH, color=FAINT, kind="statement")
    return made


def _panel(made: Page, axes: Axes, scene: Scene, sweep: Sweep, index: int) -> None:
    found = scene.found
    slots = found.max_waves_per_cu
    axes.set_ylim(0, slots * 1.22)
    span = max(sweep.xs) - min(sweep.xs)
    axes.set_xlim(min(0.0, min(sweep.xs)), max(sweep.xs) + 0.02 * span)
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.plot(sweep.xs, sweep.waves, color=AFTER, linewidth=1.8, drawstyle="steps-pre", gid="waves")
    axes.axhline(slots, color=FAINT, linewidth=1.0, linestyle=(0, (5, 3)))
    if scene.achieved is not None:
        axes.axhline(scene.achieved, color=MARKED, linewidth=1.2, linestyle=(0, (1, 2)), gid="achieved")
    axes.plot([sweep.now], [found.waves_per_cu], marker="o", markersize=9, color=MARKED, markeredgecolor=INK,
              zorder=5, linestyle="none", gid="kernel", clip_on=False)  # fmt: skip
    for x, waves in sweep.options[:3]:
        axes.plot([x], [waves], marker="o", markersize=7, markerfacecolor="white", markeredgecolor=INK, zorder=4,
                  linestyle="none", gid="option")  # fmt: skip
    ticks = list(range(0, slots + 1, max(1, slots // 8)))
    axes.set_yticks(ticks)
    if index == 0:
        axes.set_ylabel(f"{scene.wave.capitalize()}s per {found.unit}")
    else:
        axes.set_yticklabels([])
    axes.set_xlabel(sweep.label)
    left = _LEFT + index * (_WIDE + _BETWEEN)
    words = f"● {sweep.words}: {found.waves_per_cu}"
    option = next(iter(sweep.options), None)
    unit = " KiB" if sweep.words.endswith("KiB") else ""
    more = f"   ○ {number(option[0])}{unit}: {option[1]}" if option else ""
    made.text(left + 4, _TOP + 4, shortened(words + more, _WIDE - 6), kind="kernel")
    top = _TOP + _TALL * (1 - slots / (slots * 1.22))
    tail = f"{slots} slots"
    made.text(left + _WIDE - width_of(tail) - 4, top - 7, tail, va="bottom", color=FAINT, kind="slots")


def _key(scene: Scene) -> str:
    key = f"● this kernel      ○ the next value with more {scene.wave}s"
    return key + ("      dotted: measured on average" if scene.achieved is not None else "")


def _limits(scene: Scene) -> list[str]:
    parts = [f"{_names([name], scene.found.gpu)} {waves}" for name, waves in scene.found.limits.items()]
    found = [f"{scene.wave.capitalize()}s that each resource alone would allow: {', '.join(parts)}."]
    if any(0 in sweep.waves for sweep in scene.sweeps):
        found.append(f"0 {scene.wave}s: not even one whole group fits, and such a launch fails.")
    return found


def _names(limiters: Sequence[str], gpu: str) -> str:
    words = {
        "wave_slots": "wave slots",
        "workgroup_slots": "work-group slots",
        "vgprs": "vector registers",
        "sgprs": "scalar registers",
        "lds": "LDS",
    }
    if targets.gpu(gpu).vendor == "nvidia":
        words |= {
            "wave_slots": "warp slots",
            "workgroup_slots": "block slots",
            "vgprs": "registers",
            "lds": "shared memory",
        }
    return ", ".join(words.get(name, name) for name in limiters)
