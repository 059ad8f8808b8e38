"""The code of the host in findings on the application: which lines the devices wait for, and what to try there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ..base.text import figure, shorten
from .busy import Within
from .host_code import Frame, HostCode, host_code
from .host_idle import CODE_CAUSES
from .hot_code import HotCode, HotCodes, hot_codes
from .replay import ProgramChange, Replay
from .rules import HeightName, rules
from .trace import Trace, Window
from .verdict import AdviceGain, speedup
from .wording import sentence

_IN_CLAIM, _ROWS, _ADVICE = 3, 5, 3
_LEAST_SHARE = 0.05
"""Code with less of the idle time of a height is not listed there."""
_LEAST_EDGE = 0.05
"""A start or an end is reported if it takes at least this share of the time between; likewise its parts."""
_LINE = 60
_VIA = {"wait": " (the launching thread waits for it)", "gil": " (it holds the GIL that the launching thread needs)"}


@dataclass(frozen=True)
class HostFindings:
    """The code that the devices wait for within some windows, and how the host's start and end are spent."""

    codes: HotCodes
    wall_ns: int
    """The total length of the windows, over all lanes."""
    lanes: int
    edges: Sequence[Edge]
    code: HostCode
    replay: Replay

    def rows(self, height: HeightName | None) -> list[tuple[HotCode, float]]:
        """Return the code of a height, or of all, with its share of the idle time there, the largest first."""
        causes = [n for n, cause in enumerate(CODE_CAUSES) if height in (None, rules().causes[cause].height)]
        total = float(self.codes.total[causes].sum())
        shares = [(row, float(row.ns[causes].sum()) / total) for row in self.codes.rows] if total else []
        return sorted((pair for pair in shares if pair[1] >= _LEAST_SHARE), key=lambda pair: -pair[1])[:_ROWS]

    def claim(self, height: HeightName) -> str:
        """Return a sentence that names the code of a height; empty if none is known."""
        rows = self.rows(height)[:_IN_CLAIM]
        if not rows:
            return ""
        (first, share), *others = rows
        also = "".join(sentence("also_code", share=part, what=title(row)) for row, part in others)
        what, via = title(first) + callers(first), _VIA.get(first.via, "")
        return sentence("main_code", share=share, what=what, via=via, also=also)

    def evidence(self, height: HeightName) -> list[str]:
        """Return a sentence on each row of a height."""
        return [self._row_text(row) for row, _ in self.rows(height)]

    def advice(self, height: HeightName | None) -> list[tuple[str, AdviceGain]]:
        """Return what to try for the code of a height, or of all, with the gain of the program."""
        rows = [(row, self.gain(row)) for row, _ in self.rows(height)[:_ADVICE]]
        texts = say_once([(title(row), row.kind.advice) for row, _ in rows])
        return [(text + gain.text, gain) for text, (_, gain) in zip(texts, rows, strict=True)]

    def changes(self, row: HotCode) -> tuple[ProgramChange, ProgramChange]:
        """Return the program without this code, and also without its copies and what it calls, apart from rows with
        more idle time."""
        within = self.code.inner_stacks(row.frame) if row.part is None else frozenset[int]()
        larger = (other.stacks for other in self.codes.rows if other.idle_ns > row.idle_ns)
        return ProgramChange(row.stacks), ProgramChange(row.stacks | within.difference(*larger), copies=True)

    def gain(self, row: HotCode) -> AdviceGain:
        """Return how many times as fast the program can become without this code (see ``changes``).

        What is expected is the time that a replay of the timeline saves, or the idle time that is charged to the code
        if that is more. At most, all the time vanishes that it takes as far as the host causes idle time. Both refer to
        the recorded run.
        """
        expected, most = (self.lanes * self.replay.saved_ns(change) for change in self.changes(row))
        expected = max(row.idle_ns, expected)
        most = max(expected, most, min(row.busy_ns * self.lanes, float(self.codes.total.sum())))
        wall = max(self.wall_ns, 1)
        return AdviceGain(speedup(100 * most / wall), speedup(100 * expected / wall))

    def edges_text(self) -> str:
        """Return sentences on the time before the first and after the last device work; empty if it is short."""
        reported = (edge for edge in self.edges if edge.ns >= _LEAST_EDGE * self.wall_ns / self.lanes)
        return " ".join(f"{edge.text()}." for edge in reported)

    def _row_text(self, row: HotCode) -> str:
        text = sentence(
            "idle_code",
            what=title(row),
            idle=_seconds(row.idle_ns),
            share=row.idle_ns / max(float(self.codes.total.sum()), 1),
            callers=callers(row) + _VIA.get(row.via, ""),
        )
        if row.frame.text:
            text += f": `{shorten(row.frame.text, _LINE)}`"
        if row.waits and row.waited_ns >= _LEAST_SHARE * row.idle_ns:
            text += sentence("waiting_code", row=row, seconds=_seconds(row.waited_ns))
        return text


@dataclass(frozen=True)
class Edge:
    """The time before the first device work, or after the last, and the code that it is spent in."""

    title: str
    ns: int
    codes: HotCodes

    def text(self) -> str:
        """Return a clause such as ``Before the first work of a device: 7.4 s, of which importing modules 7.2 s``."""
        parts: dict[str, float] = defaultdict(float)
        for row in self.codes.rows:
            parts[row.part.title if row.part else title(row)] += float(row.ns.sum())
        largest = sorted(parts.items(), key=lambda part: -part[1])[:_IN_CLAIM]
        named = [f"{what} {_seconds(ns)}" for what, ns in largest if ns >= _LEAST_EDGE * self.ns]
        of_which = f", of which {', '.join(named)}" if named else ""
        return f"{self.title}: {_seconds(self.ns)}{of_which}"


def host_findings(trace: Trace, windows: Sequence[Window]) -> HostFindings | None:
    """Return the code that the devices wait for within the windows; None if no code was recorded."""
    code = host_code(trace)
    if code is None:
        return None
    ends = {
        "Before the first work of a device": Window(trace.whole.start, trace.work_span.start),
        "After the last work of a device": Window(trace.work_span.end, trace.whole.end),
    }
    edges = [Edge(what, w.ns, hot_codes(trace, code, Within([w]))) for what, w in ends.items() if w.ns > 0]
    wall = sum(window.ns for window in windows) * len(trace.lanes)
    codes, replay = hot_codes(trace, code, Within(windows)), Replay(trace, windows, code)
    return HostFindings(codes, wall, len(trace.lanes), edges, code, replay)


def _seconds(ns: float) -> str:
    return f"{figure(ns / 1e9, 3)} s"


def say_once(advice: Sequence[tuple[str, str]]) -> list[str]:
    """Return what to try for each thing, as text; advice that was given before is not repeated."""
    return [
        f"{what}{': ' if what else ''}{'likewise' if what and text in (said for _, said in advice[:number]) else text}"
        for number, (what, text) in enumerate(advice)
    ]


def title(row: HotCode) -> str:
    """Return what a row is in words: its function and place, or the part of the work around it."""
    return name(row.frame) if row.part is None else f"{row.part.title} for {name(row.frame)}"


def name(frame: Frame) -> str:
    """Return a function with its place, such as ``Trainer.train (trainer.py:1412)``."""
    at = place(frame)
    return frame.function if at is None else f"{frame.function} ({at})"


def place(frame: Frame) -> str | None:
    """Return the file, without its folders, and the lines of a frame; None if they are unknown."""
    if frame.file is None:
        return None
    lines = "-".join(str(line) for line in (frame.line, frame.until) if line is not None)
    return PurePosixPath(frame.file).name + (lines and f":{lines}")


def callers(row: HotCode) -> str:
    """Return the clause that says which of the program's own code calls a row, and through which library function."""
    above = [frame for frame in row.callers if frame.own]
    own, direct = above[-1] if above else None, row.callers[-1] if row.callers else None
    if direct is None:
        return ""
    through = "" if direct in (own, row.frame) else f" through {direct.function}"
    return f", called by {name(direct)}" if own is None else f", called by {name(own)}{through}"
