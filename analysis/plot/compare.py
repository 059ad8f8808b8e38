"""Two workloads side by side as a picture: time, and percent of peak of each subsystem before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .bars import LABELS, NAME, RIGHT, Row, panel
from .style import AFTER, BEFORE, FAINT, INK, LINE, TITLE, WIDTH, Page, number, page, shortened, wrapped

_TOP, _TIME, _EACH = 62, 58.0, 26.0


@dataclass(frozen=True)
class Time:
    """Time of the dispatches selected in one workload, in nanoseconds."""

    name: str
    total_ns: float | None
    dispatches: int


@dataclass(frozen=True)
class Scene:
    """All that the picture shows; every row has two values, baseline and candidate."""

    title: str
    subtitle: str
    times: tuple[Time, Time]
    rows: Sequence[Row]
    statements: Sequence[str]


def draw(scene: Scene) -> Page:
    """The picture of a scene."""
    below = wrapped(scene.statements, WIDTH - 40)
    tall = _EACH * len(scene.rows)
    bars_top = _TOP + _TIME + 58
    made = page(bars_top + tall + (50 if scene.rows else 0) + LINE * len(below) + 8)
    made.text(14, 12, shortened(scene.title, WIDTH - 30, TITLE, bold=True), fontsize=TITLE, weight="bold", kind="head")
    made.text(14, 34, shortened(scene.subtitle, WIDTH - 30), color=FAINT, kind="head")
    _times(made, scene)
    if scene.rows:
        panel(made, scene.rows, bars_top, _EACH, WIDTH)
    made.lines(14, bars_top + tall + (46 if scene.rows else 0), below, WIDTH, color=FAINT, kind="statement")
    return made


def _times(made: Page, scene: Scene) -> None:
    """Time as two bars, which are also the key of the colours below."""
    from matplotlib.ticker import FuncFormatter

    known = [t.total_ns for t in scene.times if t.total_ns]
    unit, size = next(
        (u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)) if max(known, default=1) >= s
    )
    axes = made.axes(LABELS, _TOP, WIDTH - LABELS - RIGHT, _TIME)
    axes.set_ylim(1.5, -0.5)
    axes.set_xlim(0, 1.15 * max(known, default=1.0) / size)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(f"GPU time ({unit})")
    for i, (time, colour, role) in enumerate(zip(scene.times, (BEFORE, AFTER), ("baseline", "candidate"), strict=True)):
        y = _TOP + _TIME * (i + 0.5) / 2
        made.text(14, y, role, va="center", weight="bold", kind="subsystem")
        made.text(LABELS - 8, y, shortened(time.name, LABELS - NAME - 10), va="center", ha="right", kind="title")
        words = "no usable timing"
        if time.total_ns:
            axes.barh(
                [i], [time.total_ns / size], height=0.62, color=colour, edgecolor=INK, linewidth=0.4, gid=f"time-{i}"
            )
            words = (
                f"{number(time.total_ns / size)} {unit} in {time.dispatches} dispatch{'es' * (time.dispatches != 1)}"
            )
        made.text(WIDTH - RIGHT + 6, y, shortened(words, RIGHT - 12), va="center", kind="value")
    if len(known) == 2:
        ratio = known[1] / known[0]
        inverse = f" (÷ {number(1 / ratio)})" if ratio < 1 else ""
        made.text(WIDTH - RIGHT + 6, _TOP + _TIME + 14, f"time × {number(ratio)}{inverse}", weight="bold", kind="value")
