"""Draw a timeline: where the wall time goes, and lanes of devices and host, with gaps coloured by cause."""

from __future__ import annotations

from . import timeline_content
from .style import FAINT, GRID, INK, LINE, NORMAL, TITLE, WIDTH, Page, page, shorten_name, width_of, wrap_lines
from .timeline_content import PIXELS, TimelinePicture, label

COLOURS = {
    "computing": "#0072B2", "communication": "#CC79A7", "copying": "#E69F00", "launch": "#D55E00", "host": "#F0E442",
    "synchronisation": "#56B4E9", "allocation": "#009E73", "copies": "#F5CB7A", "waiting": "#8E6BB3",
    "messages": "#E7A6CF",
    "queued": "#9FB6C9", "module_load": "#8C564B", "graph": "#B5651D", "start_up": "#BBBBBB", "shut_down": "#D0D0D0",
    "profiler": "#777777", "unknown": "#444444", "graph_nodes": "#6E8FA8", "event_wait": "#6A4C93",
    "page_faults": "#A23B72", "evicted": "#5C1A33",
}  # fmt: skip
_LEFT, _BAR, _STRIP, _BETWEEN, _ROW = 122, 30, 30, 6, 17
_KEY_COLUMNS = 3


def draw(shown: TimelinePicture) -> Page:
    """Draw the picture as a page."""
    below = wrap_lines(list(shown.statements), WIDTH - 40)
    key_rows = -(-len(shown.shares) // _KEY_COLUMNS)
    lanes = 62 + _BAR + 10 + key_rows * LINE + 30
    ranges = lanes + len(shown.strips) * (_STRIP + _BETWEEN)
    bars = timeline_content.HEIGHT + 12 if shown.ranks else 0
    height = ranges + shown.rows * (_ROW + 2) + 44 + bars + LINE * len(below) + 8
    made = page(height)
    made.text(
        20, 12, shorten_name(shown.title, WIDTH - 40, TITLE, bold=True), fontsize=TITLE, weight="bold", kind="title"
    )
    made.text(20, 34, shorten_name(shown.subtitle, WIDTH - 40, NORMAL), fontsize=NORMAL, kind="title")
    _shares(made, shown, 58)
    made.text(20, lanes - 20, shown.lane_title, fontsize=NORMAL, kind="lanes")
    for i, strip in enumerate(shown.strips):
        top = lanes + i * (_STRIP + _BETWEEN)
        made.text(20, top + _STRIP / 2 - 6, shorten_name(strip.name, _LEFT - 26), kind="lane")
        axes = made.axes(_LEFT, top, PIXELS, _STRIP)
        axes.set_xlim(0, PIXELS)
        axes.set_ylim(0, 1)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_facecolor("#F6F6F6")
        for side in ("left", "bottom"):
            axes.spines[side].set_color(GRID)
        base = [0.0] * PIXELS
        for key, values in strip.columns.items():
            tops = [min(1.0, b + v) for b, v in zip(base, values, strict=True)]
            axes.fill_between(
                range(PIXELS), base, tops, step="post", color=COLOURS[key], linewidth=0, gid=f"lane-{key}"
            )
            base = tops
    _ranges(made, shown, ranges)
    axis = ranges + shown.rows * (_ROW + 2)
    _axis(made, shown, axis)
    if shown.ranks:
        timeline_content.draw(made, shown.ranks, axis + 46)
    made.lines(20, axis + 40 + bars, list(shown.statements), WIDTH - 40, color=FAINT, kind="statement")
    return made


def _shares(made: Page, shown: TimelinePicture, top: float) -> None:
    """Draw one bar of the wall time, and its key."""
    axes = made.axes(20, top, WIDTH - 40, _BAR)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 1)
    axes.axis("off")
    left = 0.0
    for key, pct in shown.shares:
        axes.barh(0.5, pct, height=1, left=left, color=COLOURS[key], linewidth=0, gid=f"share-{key}")
        words = f"{pct:.1f} %"
        if width_of(words) + 8 < pct / 100 * (WIDTH - 40):
            x = 20 + (left + pct / 2) / 100 * (WIDTH - 40)
            dark = key in ("computing", "unknown", "module_load", "profiler", "waiting", "launch", "graph")
            made.text(x, top + _BAR / 2 - 6, words, ha="center", color="white" if dark else INK, kind="share")
        left += pct
    wide = (WIDTH - 40) / _KEY_COLUMNS
    for i, (key, pct) in enumerate(shown.shares):
        x, y = 20 + (i % _KEY_COLUMNS) * wide, top + _BAR + 10 + (i // _KEY_COLUMNS) * LINE
        made.text(x, y, "■", color=COLOURS[key], kind="key")
        made.text(x + 14, y, f"{label(key)}: {pct:.1f} %", kind="key")


def _ranges(made: Page, shown: TimelinePicture, top: float) -> None:
    """Draw the user's ranges as boxes, with their names if they fit."""
    from matplotlib.patches import Rectangle

    per_ms = PIXELS / shown.lane_ms if shown.lane_ms else 0.0
    for box in shown.boxes:
        x, wide = _LEFT + box.start * per_ms, (box.end - box.start) * per_ms
        y = top + box.row * (_ROW + 2)
        made.figure.add_artist(
            Rectangle(
                (x, y),
                max(wide, 0.5),
                _ROW,
                transform=made.pixels(),
                facecolor="#E8ECF1",
                edgecolor="#8C96A3",
                linewidth=0.6,
                gid="range",
            )
        )
        if wide > 24:
            made.text(x + 4, y + 2, shorten_name(box.name, wide - 8), kind="range")
    if shown.rows:
        made.text(20, top + 2, "ranges (host)", kind="lane")


def _axis(made: Page, shown: TimelinePicture, top: float) -> None:
    axes = made.axes(_LEFT, top, PIXELS, 2)
    axes.set_xlim(0, shown.lane_ms or 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("ms", fontsize=NORMAL)
