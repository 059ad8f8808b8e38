"""Draw a timeline: where the wall time goes, and lanes of devices and host, with gaps coloured by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import FAINT, GRID, INK, NORMAL, SMALL, page, plain, shorten_name
from .timeline_content import PIXELS, RankBars, Strip, TimelinePicture, label

COLOURS = {
    "computing": "#0072B2", "communication": "#CC79A7", "copying": "#E69F00", "launch": "#D55E00", "host": "#F0E442",
    "synchronisation": "#56B4E9", "allocation": "#009E73", "copies": "#F5CB7A", "waiting": "#8E6BB3",
    "messages": "#E7A6CF", "after_synchronisation": "#A9D8F3", "after_allocation": "#7FCBB2", "after_copies": "#FAE3B4",
    "queued": "#9FB6C9", "module_load": "#8C564B", "graph": "#B5651D", "start_up": "#BBBBBB", "shut_down": "#D0D0D0",
    "profiler": "#777777", "unknown": "#444444", "graph_nodes": "#6E8FA8", "event_wait": "#6A4C93",
    "page_faults": "#A23B72", "evicted": "#5C1A33",
}  # fmt: skip
_DARK = ("computing", "unknown", "module_load", "profiler", "waiting", "launch", "graph")
"""The keys on whose colours words are white."""
_KEY_COLUMNS = 3
_Parts = Mapping[str, Sequence[float]]
_SHARES, _KEY, _STRIP, _ROW, _AXIS, _RANKS = 34, 16, 36, 19, 56, 190
"""Pixels: the heights of the parts."""
_SINGLE = 96
"""Up to this many ranks have separate bars; more are drawn as one silhouette with a column each."""
_TICKS = 12
_RANK_WORDS = {"computing": "blue: kernels", "communication": "pink: communication", "copies": "orange: copies"}
_RANK_COLOURS = {**COLOURS, "copies": COLOURS["copying"]}


def draw(shown: TimelinePicture) -> Figure:
    """Draw the picture as a page."""
    lanes = [_STRIP] * len(shown.strips) + [_ROW * shown.rows] * bool(shown.rows)
    heights = [_SHARES, *lanes, *[_RANKS] * bool(shown.ranks)]
    around = _AXIS + _KEY * (1 + len(shown.shares) // _KEY_COLUMNS)
    figure = page([shown.title, shown.subtitle], sum(heights) + around, shown.statements)
    panels = list(figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0])
    for axes in panels:
        plain(axes)
    _shares(panels[0], shown)
    over_time = panels[1 : len(lanes) + 1]
    for axes in over_time:
        axes.set_xlim(0, shown.lane_ms or 1)
        axes.set_yticks([])
        axes.tick_params(axis="x", labelbottom=False, length=0)
    for axes, strip in zip(over_time, shown.strips, strict=False):
        _lane(axes, strip, shown.lane_ms)
    if shown.rows:
        _ranges(over_time[-1], shown)
    if over_time:
        over_time[0].set_title(shown.lane_title, loc="left", fontsize=NORMAL)
        over_time[-1].tick_params(axis="x", labelbottom=True, length=3)
        over_time[-1].set_xlabel("ms", fontsize=NORMAL)
    if shown.ranks:
        _ranks(panels[-1], shown.ranks)
    return figure


def _shares(axes: Axes, shown: TimelinePicture) -> None:
    """Draw one bar of the wall time, and its key."""
    axes.set_xlim(0, 100)
    axes.axis("off")
    left = 0.0
    for key, pct in shown.shares:
        words = f"{pct:.1f} %"
        bar = axes.barh(0, pct, left=left, color=COLOURS[key], gid=f"share-{key}", label=f"{label(key)}: {words}")
        if pct > 5:
            axes.bar_label(bar, [words], label_type="center", fontsize=SMALL, color="white" if key in _DARK else INK)
        left += pct
    axes.legend(
        loc="upper left", bbox_to_anchor=(-0.01, 0), ncols=_KEY_COLUMNS, frameon=False, fontsize=SMALL,
        handlelength=0.8, handleheight=0.8, columnspacing=4,
    )  # fmt: skip


def _name(axes: Axes, words: str) -> None:
    """Write the name of a lane on its left."""
    axes.set_ylabel(shorten_name(words, 110), rotation=0, ha="right", va="center", fontsize=SMALL)


def _lane(axes: Axes, strip: Strip, ms: float) -> None:
    """Draw a lane: the shares of its columns on top of each other."""
    axes.set_ylim(0, 1)
    axes.set_facecolor("#F6F6F6")
    axes.spines[["left", "bottom"]].set_color(GRID)
    _name(axes, strip.name)
    _stack(axes, [i * ms / PIXELS for i in range(PIXELS)], strip.columns, COLOURS, "lane")


def _stack(axes: Axes, xs: Sequence[float], parts: _Parts, colours: Mapping[str, str], name: str) -> None:
    """Draw steps on top of each other, each from its x to the next."""
    if parts:
        layers = axes.stackplot(xs, *parts.values(), colors=[colours[key] for key in parts], step="post", linewidth=0)
        for key, layer in zip(parts, layers, strict=True):
            layer.set_gid(f"{name}-{key}")


def _ranges(axes: Axes, shown: TimelinePicture) -> None:
    """Draw the user's ranges as boxes, with their names if they fit."""
    _name(axes, "ranges (host)")
    axes.set_ylim(shown.rows - 0.5, -0.5)
    pixels = PIXELS / (shown.lane_ms or 1)
    for box in shown.boxes:
        wide = box.end - box.start
        axes.barh(box.row, wide, 0.9, box.start, color="#E8ECF1", edgecolor="#8C96A3", linewidth=0.6, gid="range")
        if wide * pixels > 24:
            name = shorten_name(box.name, wide * pixels - 8)
            axes.text(box.start + 4 / pixels, box.row, name, va="center", fontsize=SMALL)


def _ranks(axes: Axes, shown: RankBars) -> None:
    """Draw the times of all ranks, with the mean of their kernels and the name of the slowest one."""
    count = len(shown.ranks)
    if count <= _SINGLE:
        base = [0.0] * count
        for key, values in shown.parts.items():
            axes.bar(range(count), values, bottom=base, color=_RANK_COLOURS[key], gid=f"ranks-{key}")
            base = [b + v for b, v in zip(base, values, strict=True)]
    else:
        # One column per rank: the silhouette keeps single peaks that thin bars would lose.
        edges = [n - 0.5 for n in range(count + 1)]
        _stack(axes, edges, {k: [*v, v[-1]] for k, v in shown.parts.items()}, _RANK_COLOURS, "ranks")
    sums = [sum(values) for values in zip(*shown.parts.values(), strict=True)]
    axes.set_xlim(-0.5, count - 0.5)
    axes.set_ylim(0, 1.18 * max([*sums, shown.mean_ms]) or 1)
    axes.axhline(shown.mean_ms, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), gid="ranks-mean")
    slowest, right = shown.ranks[shown.slowest], shown.slowest > count / 2
    axes.annotate(
        "no rank" if slowest is None else f"rank {slowest}", (shown.slowest, sums[shown.slowest]), (0, 4),
        textcoords="offset points", ha="right" if right else "left", fontsize=SMALL, gid="ranks-slowest",
    )  # fmt: skip
    step = max(1, -(-count // _TICKS))
    axes.set_xticks(range(0, count, step), [str(rank) for rank in shown.ranks[::step]])
    axes.set_title(shown.title, loc="left", fontsize=NORMAL)
    axes.set_ylabel("ms a device", fontsize=SMALL, color=FAINT)
    key = ", ".join(_RANK_WORDS[k] for k in shown.parts)
    axes.set_xlabel(f"rank;  {key}; dashed: mean of kernels", loc="left", fontsize=SMALL, color=FAINT)
