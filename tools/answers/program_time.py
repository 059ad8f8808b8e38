"""Where the time of a program goes, in three lines: its devices, the code of its host, and copies and waits."""

from __future__ import annotations

from ...analysis.base.kernel_names import short
from ...analysis.base.text import short_time
from ...analysis.timeline.heights import Heights
from ...analysis.timeline.host_findings import name, title
from ...analysis.timeline.timeline import Timeline
from ...analysis.timeline.verdict import HeightName, shares
from .sentences import optional_sentence, present, sentence

_ROWS = 3
_NAME = 64
_LEAST_PCT = 0.5
_OTHERS: dict[HeightName, str] = {
    "copies": "copies without kernels",
    "synchronisation": "waits of the host",
    "allocation": "allocation of memory",
    "communication": "communication",
    "latency": "gaps between queued work",
    "waiting": "work that waits for other work",
}


def time_lines(made: Timeline, heights: Heights) -> list[str]:
    """Return the lines; parts of less than half a percent of the time are left out."""
    share = shares(made.lanes, [idle for idle, _ in made.causes])
    others = [f"{words} {share[height]:.1f} %" for height, words in _OTHERS.items() if share[height] >= _LEAST_PCT]
    lines = [_device_line(made, heights, share["gpu"]), _host_line(made, share["host"] + share["launch"])]
    edges = made.host.edges_text() if made.host else ""
    return present(
        *lines, optional_sentence("round.others", parts=others), optional_sentence("round.edges", edges=edges)
    )


def kernel_name(kernel: str) -> str:
    """Return the name of a kernel for a line of text."""
    short_name = short(kernel)
    return short_name if len(short_name) <= _NAME else f"{short_name[: _NAME - 3]}..."


def _device_line(made: Timeline, heights: Heights, share: float) -> str:
    """Return the time of kernels with the longest ones, and the code that launches the longest one."""
    total = sum(ns for _, ns in heights.kernels.values())
    parts = [
        f"{kernel_name(kernel)} {100 * ns / total:.0f} %" for kernel, (_, ns) in list(heights.kernels.items())[:_ROWS]
    ]
    if parts and (frame := heights.launching_code(next(iter(heights.kernels)))):
        parts[0] += f" (launched by {name(frame)})"
    longest = optional_sentence("round.longest", parts=parts)
    return sentence("round.device", share=share, wall=short_time(made.wall_ns), longest=longest)


def _host_line(made: Timeline, share: float) -> str:
    """Return the time for which the devices wait for the host, with the code that they wait for most."""
    rows = [row for row, _ in made.host.rows(None)[:_ROWS]] if made.host else []
    wall_ns = max(made.total.wall, 1)
    parts = [f"{title(row)} {100 * row.idle_ns / wall_ns:.0f} %" for row in rows]
    return sentence("round.host", share=share, parts=optional_sentence("round.by_code", parts=parts))
